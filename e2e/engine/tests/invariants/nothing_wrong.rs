//! Outcomes that are as they must be, though they look unusual.

use neuron_e2e_engine::invariants::no_lost_device::Probe;
use neuron_e2e_engine::scenario::Tier;
use rstest::rstest;

use super::world::World;

#[rstest]
#[case::nothing_changed(|_: &mut World| {})]
#[case::every_core_of_a_node(|world: &mut World| {
    world.outcome.pods.retain(|_, pod| pod.node.as_deref() != Some("n1"));
    world.scenario.steps.clear();
    world.give("all", "n1", "", "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23");
})]
#[case::what_an_ended_pod_had_is_had_by_another(|world: &mut World| {
    world.pod("devices").phase = "Succeeded".into();
    world.give("cores", "n1", "", "0,1,2");
})]
#[case::what_a_deleted_pod_had_is_had_by_another(|world: &mut World| {
    world.pod("devices").deleted = true;
    world.give("cores", "n1", "", "0,1,2");
})]
#[case::a_deleted_pod_was_never_corrected(|world: &mut World| {
    world.record("devices", "2,3", "");
    world.pod("devices").deleted = true;
})]
#[case::a_failed_pod_with_kubelets_words(|world: &mut World| {
    let pod = world.pod("p2");
    (pod.phase, pod.failure) = ("Failed".into(), Some("UnexpectedAdmissionError: kubelet is away".into()));
})]
#[case::another_pod_waits_in_the_placement_tier(|world: &mut World| {
    world.scenario.tier = Tier::Placement;
    world.pod("plain").phase = "Pending".into();
})]
#[case::a_node_whose_type_is_in_no_catalog(|world: &mut World| {
    world.scenario.nodes[0].instance_type = "inf9.24xlarge".into();
    world.give("devices", "n1", "0,5", "");
})]
#[case::a_probe_that_has_everything_that_was_free(|world: &mut World| {
    let probe = Probe::of(&world.scenario, &world.outcome, "n1").unwrap();
    assert_eq!((probe.devices.to_string(), probe.cores.to_string()), ("4,6,7,8,9,10,11".into(), "7".into()));
    let devices = ["4", "6", "7", "8", "9", "10", "11"].map(|id| (id, id, ""));
    world.give_each(&probe.pod, "n1", &[devices.as_slice(), &[("core-7", "", "7")]].concat());
    world.probes.push(probe);
})]
fn nothing_is_violated(#[case] change: fn(&mut World)) {
    let mut world = World::new();
    change(&mut world);
    assert_eq!(world.violations(), []);
}

#[test]
fn a_full_node_needs_no_probe() {
    let mut world = World::new();
    world.give("rows", "n2", "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15", "");
    assert_eq!(Probe::of(&world.scenario, &world.outcome, "n2"), None);
}
