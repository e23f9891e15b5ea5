//! Device nodes.

use neuron_e2e_engine::invariants::Invariant;
use rstest::rstest;

use super::world::{World, violates};

#[rstest]
#[case::one_too_few(
    |world: &mut World| drop(world.report("devices").devices.pop()),
    "pod devices: container main sees device nodes 0, not 0,1"
)]
#[case::one_too_many(
    |world: &mut World| world.report("devices").devices.push("/dev/neuron5".into()),
    "pod devices: container main sees device nodes 0,1,5, not 0,1"
)]
#[case::none(
    |world: &mut World| world.report("cores").devices.clear(),
    "pod cores: container main sees device nodes , not 2,3"
)]
#[case::another(
    |world: &mut World| world.report("pair").devices = vec!["/dev/neuron4".into()],
    "pod pair: container main sees device nodes 4, not 5"
)]
fn device_nodes_of_another_set_are_found(#[case] change: fn(&mut World), #[case] text: &str) {
    violates(change, Invariant::DeviceNodes, text);
}
