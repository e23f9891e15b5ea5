//! Record matches reality.

use neuron_core::names;
use neuron_e2e_engine::invariants::Invariant;
use rstest::rstest;

use super::world::{World, violates};

#[rstest]
#[case::other_devices(
    |world: &mut World| world.record("devices", "2,3", ""),
    "pod devices: container main has cores {} and devices {0,1}, its record says {} and {2,3}"
)]
#[case::other_cores(
    |world: &mut World| world.record("cores", "", "12,13,14"),
    "pod cores: container main has cores {4,5,6} and devices {}, its record says {12,13,14} and {}"
)]
#[case::fewer(
    |world: &mut World| world.record("devices", "0", ""),
    "pod devices: container main has cores {} and devices {0,1}, its record says {} and {0}"
)]
#[case::the_other_name(
    |world: &mut World| world.record("devices", "", "0,1,2,3"),
    "pod devices: container main has cores {} and devices {0,1}, its record says {0,1,2,3} and {}"
)]
#[case::another_node(
    |world: &mut World| {
        world.pod("rows").node = Some("n1".into());
        world.record("rows", "0,1,2,3", "");
        world.pod("rows").node = Some("n2".into());
    },
    "pod rows: runs on n2, its record says n1"
)]
#[case::nothing_printed(
    |world: &mut World| world.pod("devices").containers.clear(),
    "pod devices: container main printed nothing"
)]
#[case::printed_what_cannot_be_read(
    |world: &mut World| drop(world.report("devices").env.insert(names::VISIBLE_DEVICES.into(), "0-1".into())),
    "pod devices: container main: AWS_NEURON_VISIBLE_DEVICES: \"0-1\" is not an id; use numbers separated \
     by commas"
)]
#[case::no_record(
    |world: &mut World| world.pod("devices").annotations.clear(),
    "pod devices: container main got devices 0,1; device nodes 0,1 without a record"
)]
#[case::a_record_of_aws_only(
    |world: &mut World| drop(world.pod("devices").annotations.remove(names::ALLOCATION)),
    "pod devices: container main got devices 0,1; device nodes 0,1 without a record"
)]
#[case::a_record_that_cannot_be_read(
    |world: &mut World| drop(world.pod("devices").annotations.insert(names::ALLOCATION.into(), "[]".into())),
    "pod devices: annotation neuron-scheduler/allocation cannot be read: it is not a JSON object"
)]
#[case::not_yet_allocated(
    |world: &mut World| drop(world.pod("devices").annotations.insert(names::NEURON_ALLOCATED.into(), "false".into())),
    "pod devices: NEURON_ALLOCATED is still false"
)]
fn a_record_that_says_something_else_is_found(#[case] change: fn(&mut World), #[case] text: &str) {
    violates(change, Invariant::RecordMatchesReality, text);
}
