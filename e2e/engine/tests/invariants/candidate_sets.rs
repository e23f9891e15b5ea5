//! Candidate sets.

use neuron_e2e_engine::invariants::Invariant;
use rstest::rstest;

use super::world::{World, violates};

#[rstest]
#[case::devices_that_are_not_linked(
    |world: &mut World| world.give("devices", "n1", "6,8", ""),
    "pod devices: container main got devices 6,8, which are no candidate set"
)]
#[case::a_ring_closed_under_another_policy(
    |world: &mut World| world.give("devices", "n1", "0,11", ""),
    "pod devices: container main got devices 0,11, which are no candidate set"
)]
#[case::a_device_that_the_node_does_not_have(
    |world: &mut World| world.give("devices", "n1", "11,12", ""),
    "pod devices: container main got devices 11,12, which are no candidate set"
)]
#[case::a_run_that_is_no_row(
    |world: &mut World| world.give("rows", "n2", "2,3,4,5", ""),
    "pod rows: container main got devices 2,3,4,5, which are no candidate set"
)]
#[case::linked_devices_that_are_no_row(
    |world: &mut World| world.give("rows", "n2", "0,1,4,5", ""),
    "pod rows: container main got devices 0,1,4,5, which are no candidate set"
)]
#[case::cores_with_a_gap(
    |world: &mut World| world.give("cores", "n1", "", "4,5,7"),
    "pod cores: container main got cores 4,5,7, which are no candidate set"
)]
#[case::few_cores_on_two_devices(
    |world: &mut World| world.give("pair", "n1", "", "13,14"),
    "pod pair: container main got cores 13,14, which are no candidate set"
)]
#[case::cores_that_the_node_does_not_have(
    |world: &mut World| world.give("pair", "n1", "", "24,25"),
    "pod pair: container main got cores 24,25, which are no candidate set"
)]
fn a_set_that_the_type_does_not_allow_is_found(#[case] change: fn(&mut World), #[case] text: &str) {
    violates(change, Invariant::CandidateSets, text);
}
