//! Exclusivity, of what runs in the end.

use neuron_e2e_engine::invariants::Invariant;
use rstest::rstest;

use super::world::{World, violates};

#[rstest]
#[case::as_cores_and_as_cores(
    |world: &mut World| world.give("pair", "n1", "", "4,5"),
    "pods cores and pair both hold cores 4,5 of n1"
)]
#[case::as_devices_and_as_cores(
    |world: &mut World| world.give("cores", "n1", "", "2,3,4"),
    "pods cores and devices both hold cores 2,3 of n1"
)]
#[case::as_devices_and_as_devices(
    |world: &mut World| world.give("not-of-the-scenario", "n1", "1", ""),
    "pods devices and not-of-the-scenario both hold cores 2,3 of n1"
)]
fn a_core_that_two_pods_hold_is_found(#[case] change: fn(&mut World), #[case] text: &str) {
    violates(change, Invariant::Exclusivity, text);
}
