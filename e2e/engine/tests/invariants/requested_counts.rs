//! Requested counts.

use neuron_e2e_engine::invariants::Invariant;
use neuron_e2e_engine::scenario::Step;
use rstest::rstest;
use serde_json::json;

use super::world::{World, violates};

#[rstest]
#[case::too_few_devices(
    |world: &mut World| world.give("devices", "n1", "0", ""),
    "pod devices: container main asks for 2 devices and has 1"
)]
#[case::too_many_devices(
    |world: &mut World| world.give("devices", "n1", "6,7,8", ""),
    "pod devices: container main asks for 2 devices and has 3"
)]
#[case::too_few_cores(
    |world: &mut World| world.give("cores", "n1", "", "4,5"),
    "pod cores: container main asks for 3 cores and has 2"
)]
#[case::nothing_at_all(
    |world: &mut World| {
        world.pod("cores").annotations.clear();
        world.really("cores", "", "");
    },
    "pod cores: container main asks for 3 cores and has 0"
)]
#[case::nothing_and_not_a_word(
    |world: &mut World| {
        world.pod("cores").annotations.clear();
        world.pod("cores").containers.clear();
    },
    "pod cores: container main asks for 3 cores and has 0"
)]
#[case::more_than_nothing(
    |world: &mut World| world.give("plain", "n1", "11", ""),
    "pod plain: container main asks for 0 devices and has 1"
)]
#[case::a_request_that_cannot_be_read(
    |world: &mut World| {
        let Some(Step::Apply(pods)) = world.scenario.steps.first_mut() else { return };
        pods[0]["spec"]["containers"][0]["resources"]["limits"]["aws.amazon.com/neuron"] = json!("two");
    },
    "pod devices: runs, though its request cannot be read"
)]
fn another_number_than_requested_is_found(#[case] change: fn(&mut World), #[case] text: &str) {
    violates(change, Invariant::RequestedCounts, text);
}
