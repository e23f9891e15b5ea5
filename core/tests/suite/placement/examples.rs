//! The worked examples of architecture §4 and of issue 3, and what a refused user reads.

use std::time::{Duration, Instant};

use super::support::{Role, cores, devices, given, node, node_at, node_under, node_with, pod, refused};
use neuron_core::names::Resource;
use neuron_core::placement::{best_set, fits, place};
use neuron_core::topology::Policy;
use rstest::rstest;

#[rstest]
// Architecture §4, "Worked".
#[case::nine_cores("inf1.6xlarge", "", "", &[cores(9)], "main: cores 0,1,2,3,4,5,6,7,8")]
#[case::nine_cores_beside_core_0("inf1.6xlarge", "0", "", &[cores(9)], "main: cores 1,2,3,4,5,6,7,8,9")]
#[case::fills_the_fuller_device("trn2.48xlarge", "0,4,5", "", &[cores(2)], "main: cores 6,7")]
#[case::four_then_eight("trn1.32xlarge", "0,1,2,3,4,5,6,7", "", &[devices(8)], "main: devices 8,9,10,11,12,13,14,15")]
#[case::eight_then_four(
    "trn1.32xlarge", "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15", "", &[devices(4)], "main: devices 8,9,10,11"
)]
#[case::first_four("trn1.32xlarge", "", "", &[devices(4)], "main: devices 0,1,2,3")]
#[case::first_eight("trn1.32xlarge", "", "", &[devices(8)], "main: devices 0,1,2,3,4,5,6,7")]
#[case::keeps_the_long_run("inf2.24xlarge", "4,5", "", &[devices(2)], "main: devices 0,1")]
#[case::keeps_the_longer_half("inf2.48xlarge", "10,11", "", &[devices(3)], "main: devices 0,1,2")]
#[case::single_beside_the_broken_row("trn1.32xlarge", "10,11", "", &[devices(1)], "main: devices 4")]
#[case::single_beside_the_unhealthy("trn1.32xlarge", "", "5", &[devices(1)], "main: devices 4")]
// Issue 3, the documented examples.
#[case::documented_cores("inf2.24xlarge", "0,1", "", &[cores(2)], "main: cores 2,3")]
#[case::documented_devices("inf2.24xlarge", "0,1,2,3", "", &[devices(2)], "main: devices 2,3")]
// Both names exclude each other.
#[case::both_names("inf2.24xlarge", "", "", &[(Role::App, 1, 1)], "main: devices 0 cores 2")]
fn places(
    #[case] instance_type: &str,
    #[case] held: &str,
    #[case] unhealthy: &str,
    #[case] requests: &[(Role, u32, u32)],
    #[case] expected: &str,
) {
    let node = node_with(instance_type, held, unhealthy);
    assert_eq!(given(&pod(requests), &node), expected);
    assert_eq!(fits(&pod(requests), &node), Ok(()));
}

#[test]
fn two_neuron_containers_are_placed_together() {
    let node = node("inf2.48xlarge");
    // One after the other, the first would take {0} and the second {1,2}; together they still leave the tail whole.
    assert_eq!(given(&pod(&[devices(1), devices(2)]), &node), "c0: devices 0; c1: devices 1,2");
    // The big one finds its place although it comes last.
    let torus = node_with("trn1.32xlarge", "8,9", "");
    assert_eq!(
        given(&pod(&[devices(4), devices(8)]), &torus),
        "c0: devices 0,1,2,3; c1: devices 8,9,10,11,12,13,14,15"
    );
}

#[test]
fn a_long_run_across_devices_leaves_whole_devices_to_the_others() {
    let node = node_with("inf1.6xlarge", "8,9,15", "");
    assert_eq!(
        given(&pod(&[cores(4), cores(5), cores(4)]), &node),
        "c0: cores 0,1,2,3; c1: cores 10,11,12,13,14; c2: cores 4,5,6,7"
    );
}

#[rstest]
#[case::warning(
    "trn1.32xlarge", "", "", &[devices(7)], true,
    "Instance type trn1.32xlarge does not support requests for device: 7. Please request a different number of devices."
)]
#[case::core_warning(
    "trn1.32xlarge", "", "", &[cores(3)], true,
    "Instance type trn1.32xlarge does not support requests for core: 3. Please request a different number of cores."
)]
#[case::more_than_the_type_has(
    "inf2.24xlarge", "", "", &[devices(7)], true,
    "Instance type inf2.24xlarge does not support requests for device: 7. Please request a different number of devices."
)]
#[case::full("inf2.24xlarge", "0,2,4,6,8", "", &[devices(2)], false, "not enough free: Neuron devices asked 2, free 1 of 6")]
#[case::never_enough(
    "inf2.24xlarge", "0", "", &[devices(4), devices(3)], true, "the node is too small: Neuron devices asked 7; the node has 6 devices in all"
)]
#[case::never_enough_under_both_names(
    "inf2.24xlarge", "", "", &[(Role::App, 6, 1)], true,
    "the node is too small: Neuron cores asked 1 beside 6 devices; the node has 12 cores in all"
)]
#[case::all_cores_beside_a_device(
    "inf2.24xlarge", "", "", &[(Role::App, 1, 12)], true,
    "the node is too small: Neuron cores asked 12 beside 1 device; the node has 12 cores in all"
)]
#[case::more_than_all_cores_beside_a_device(
    "inf2.24xlarge", "", "", &[(Role::App, 1, 12), cores(1)], true,
    "the node is too small: Neuron cores asked 13; the node has 12 cores in all"
)]
#[case::an_unhealthy_device_that_would_not_help(
    "inf2.24xlarge", "0,4,8", "5", &[devices(3)], false,
    "not enough free: Neuron devices asked 3, free 2 of 6"
)]
#[case::not_linked(
    "inf2.24xlarge", "2,6,10", "", &[devices(3)], false,
    "no linked set of 3 free Neuron devices: 3 free, the largest linked set has 1"
)]
#[case::not_linked_inf1(
    "inf1.6xlarge", "4", "", &[devices(3)], false,
    "no linked set of 3 free Neuron devices: 3 free, the largest linked set has 2"
)]
#[case::cores_not_side_by_side(
    "inf2.24xlarge", "0,2,4,6,8,10", "", &[cores(2)], false,
    "no linked set of 2 free Neuron cores: 6 free, the largest linked set has 1"
)]
#[case::second_container(
    "inf2.24xlarge", "2", "", &[devices(2), devices(3)], false,
    "container c1: no linked set of 3 free Neuron devices: 5 free, the largest linked set has 2"
)]
#[case::unhealthy("inf2.24xlarge", "", "2", &[devices(4)], false, "the pod would fit on unhealthy Neuron device 2 if it was healthy")]
#[case::two_unhealthy(
    "trn1.32xlarge", "", "1,9", &[devices(16)], false,
    "the pod would fit on unhealthy Neuron devices 1,9 if they were healthy"
)]
#[case::fewest_unhealthy(
    "trn1.32xlarge", "", "1,9", &[devices(8)], false,
    "the pod would fit on unhealthy Neuron device 1 if it was healthy"
)]
#[case::never_together(
    "inf1.6xlarge", "", "", &[cores(3), cores(3), cores(3), cores(3), cores(3)], true,
    "the pod's containers never fit together on inf1.6xlarge: nothing is left for the 3 cores of container c4"
)]
fn refuses(
    #[case] instance_type: &str,
    #[case] held: &str,
    #[case] unhealthy: &str,
    #[case] requests: &[(Role, u32, u32)],
    #[case] permanent: bool,
    #[case] expected: &str,
) {
    let refusal = refused(&pod(requests), &node_with(instance_type, held, unhealthy));
    assert_eq!(refusal.to_string(), expected);
    assert_eq!(refusal.is_permanent(), permanent);
}

#[test]
fn the_ring_wraps_only_under_the_linked_policy() {
    let held = (2..22).map(|core| core.to_string()).collect::<Vec<_>>().join(",");
    let documented = node_with("inf2.48xlarge", &held, "");
    assert!(place(&pod(&[devices(2)]), &documented).is_err());
    let linked = node_under("inf2.48xlarge", Policy::Linked, &held, "");
    assert_eq!(given(&pod(&[devices(2)]), &linked), "main: devices 0,11");
}

#[test]
fn refusals_of_many_containers_do_not_explode() {
    let ten = vec![devices(1); 10];
    let node = node_with("inf1.24xlarge", "0,4,8,12,16,20,24", "");
    assert_eq!(
        refused(&pod(&ten), &node).to_string(),
        "not enough free: Neuron devices asked 10, free 9 of 16"
    );
    // Four devices have runs of 4 and 3 free cores, twelve have runs of 2 and 5.
    let held = (0..16).map(|device| (device * 8 + if device < 4 { 4 } else { 2 }).to_string());
    let held = held.collect::<Vec<_>>().join(",");
    let fragmented = node_at("trn2.48xlarge", 1, Policy::Documented, &held, "");
    let fives_and = |fives: usize, rest: u32| {
        let mut requests = vec![cores(5); fives];
        requests.resize(16, cores(rest));
        pod(&requests)
    };
    assert_eq!(fits(&fives_and(12, 4), &fragmented), Ok(()));
    assert!(place(&fives_and(12, 4), &fragmented).is_ok());
    assert_eq!(
        refused(&fives_and(13, 3), &fragmented).to_string(),
        "container c12: no linked set of 5 free Neuron cores: 112 free, the largest linked set has 4"
    );
}

#[test]
fn devices_that_are_free_alike_may_still_be_linked_otherwise() {
    // Free are 4-0-1-2 in a row. The pair with the lowest ids, {0,1}, leaves two devices that are not linked.
    let is_held = |core: &u8| ![0, 1, 2, 4].contains(&(core / 4));
    let held = (0..64).filter(is_held).map(|core| core.to_string()).collect::<Vec<_>>().join(",");
    let torus = node_under("trn2.48xlarge", Policy::Linked, &held, "");
    let pairs = pod(&[devices(2), devices(2)]);
    assert_eq!(fits(&pairs, &torus), Ok(()));
    assert_eq!(given(&pairs, &torus), "c0: devices 0,4; c1: devices 1,2");
}

#[test]
fn free_runs_of_equal_lengths_are_searched_once() {
    // Ten devices lose three of their four cores, and six are too few for fourteen pairs.
    let requests = [vec![cores(3); 10], vec![cores(2); 14]].concat();
    assert_eq!(
        refused(&pod(&requests), &node("trn2.48xlarge")).to_string(),
        "the pod's containers never fit together on trn2.48xlarge: nothing is left for the 2 cores of container c22"
    );
}

/// Above three containers the largest request, in cores, is placed first.
#[rstest]
#[case::devices_before_fewer_cores(
    "inf1.24xlarge", &[cores(7), devices(2), cores(1), cores(1)],
    "c0: cores 8,9,10,11,12,13,14; c1: devices 0,1; c2: cores 15; c3: cores 16"
)]
fn the_largest_request_is_placed_first(
    #[case] instance_type: &str,
    #[case] requests: &[(Role, u32, u32)],
    #[case] expected: &str,
) {
    assert_eq!(given(&pod(requests), &node(instance_type)), expected);
}

/// Linked sets of a torus count in thousands; kube-scheduler waits five seconds for a bind.
#[rstest]
#[case::devices(&[(Role::Init, 1, 0), (Role::Sidecar, 8, 0), (Role::App, 8, 0)])]
#[case::both_names(&[(Role::App, 1, 1), (Role::App, 4, 2), (Role::App, 8, 1)])]
fn the_many_sets_of_the_linked_policy_do_not_explode(#[case] requests: &[(Role, u32, u32)]) {
    let torus = node_under("trn1.32xlarge", Policy::Linked, "", "");
    #[allow(clippy::disallowed_methods, reason = "a test measures how long it takes")]
    let began = Instant::now();
    assert!(place(&pod(requests), &torus).is_ok());
    assert!(began.elapsed() < Duration::from_secs(4), "took {:?}", began.elapsed());
}

#[test]
fn the_plugin_prefers_the_set_that_holds_what_must_be_included() {
    let node = node("inf2.24xlarge");
    let all = node.topology().all_cores();
    let none = "".parse().unwrap();
    let best =
        |count, must: &str, within| best_set(&node, Resource::Core, count, must.parse().unwrap(), within);
    assert_eq!(best(2, "", all).unwrap().to_string(), "0,1");
    assert_eq!(best(2, "5", all).unwrap().to_string(), "4,5");
    assert_eq!(best(2, "5", none), None);
    let devices = best_set(&node, Resource::Device, 2, "4,5".parse().unwrap(), all);
    assert_eq!(devices.unwrap().to_string(), "2,3,4,5");
}
