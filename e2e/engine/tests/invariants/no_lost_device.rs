//! No lost device, after a fault.

use neuron_e2e_engine::invariants::Invariant;
use neuron_e2e_engine::invariants::no_lost_device::Probe;
use rstest::rstest;

use super::world::{World, violates};

/// Asks for what is free on n2, where `rows` has the first row: twelve devices with two cores each.
fn ask(world: &mut World) -> String {
    let probe = Probe::of(&world.scenario, &world.outcome, "n2").unwrap();
    let name = probe.pod.clone();
    world.probes.push(probe);
    name
}

#[rstest]
#[case::the_pod_that_asks_waits(
    |world: &mut World| {
        let name = ask(world);
        let pod = world.pod(&name);
        (pod.phase, pod.failed_scheduling) = ("Pending".into(), Some("1 Insufficient aws.amazon.com/neuron".into()));
    },
    "cores 8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31 cannot be had: pod \
     asks-for-the-rest-of-n2 is Pending: 1 Insufficient aws.amazon.com/neuron"
)]
#[case::the_pod_that_asks_is_gone(
    |world: &mut World| drop(ask(world)),
    "cores 8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31 cannot be had: pod \
     asks-for-the-rest-of-n2 is not there"
)]
#[case::the_pod_that_asks_gets_less(
    |world: &mut World| {
        let name = ask(world);
        world.give(&name, "n2", "8,9,10,11,12,13,14,15", "");
    },
    "pod asks-for-the-rest-of-n2 got cores 16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31, free were \
     8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31"
)]
fn a_device_that_nobody_can_have_is_found(#[case] change: fn(&mut World), #[case] text: &str) {
    violates(change, Invariant::NoLostDevice, text);
}
