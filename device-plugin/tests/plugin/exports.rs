//! What a container gets for its ids, by numbering.

use std::path::Path;

use neuron_core::catalog::Catalog;
use neuron_core::ids::{CoreSet, DeviceSet};
use neuron_core::names::Resource;
use neuron_core::topology::{Policy, Topology};
use neuron_device_plugin::Numbering;
use neuron_device_plugin::allocation::export::export;
use neuron_device_plugin::resource::cores_of;
use rstest::rstest;

fn trn2() -> Topology {
    Topology::of(Catalog::embedded().find("trn2.48xlarge").unwrap(), 2, Policy::Documented).unwrap()
}

#[rstest]
#[case::host(Numbering::Host, "6,7,8", "", "neuron1>neuron1 neuron2>neuron2", "6,7,8")]
#[case::from_zero(Numbering::Renumbered, "6,7,8", "", "neuron1>neuron0 neuron2>neuron1", "2,3,4")]
#[case::beside_other_devices(Numbering::Renumbered, "8", "0,2", "neuron2>neuron1", "4")]
fn core_ids(
    #[case] numbering: Numbering,
    #[case] cores: CoreSet,
    #[case] container: DeviceSet,
    #[case] devices: &str,
    #[case] visible: &str,
) {
    let got = export(Path::new("/"), &trn2(), numbering, Resource::Core, cores, container, None);
    let each = got.devices.iter().map(|device| {
        let name = |path: &str| path.strip_prefix("/dev/").unwrap().to_owned();
        format!("{}>{}", name(&device.host_path), name(&device.container_path))
    });
    assert_eq!(each.collect::<Vec<_>>().join(" "), devices);
    assert_eq!(
        got.envs.into_iter().collect::<Vec<_>>(),
        [("NEURON_RT_VISIBLE_CORES".to_owned(), visible.to_owned())]
    );
}

#[rstest]
#[case::host(Numbering::Host, "2,3")]
#[case::from_zero(Numbering::Renumbered, "0,1")]
fn device_ids(#[case] numbering: Numbering, #[case] visible: &str) {
    let topology = trn2();
    let cores = topology.cores_of("2,3".parse().unwrap());
    let got =
        export(Path::new("/host"), &topology, numbering, Resource::Device, cores, DeviceSet::EMPTY, None);
    assert_eq!(got.envs["AWS_NEURON_VISIBLE_DEVICES"], visible);
    assert_eq!(got.envs.len(), 1);
    assert_eq!(got.devices[0].host_path, "/host/dev/neuron2");
}

#[rstest]
#[case(Resource::Device)]
#[case(Resource::Core)]
fn an_lnc_that_is_not_the_types_own_is_told(#[case] unit: Resource) {
    let topology = trn2();
    let cores = topology.cores_of("2".parse().unwrap());
    let got = export(Path::new("/"), &topology, Numbering::Host, unit, cores, DeviceSet::EMPTY, Some(1));
    assert_eq!(got.envs["NEURON_LOGICAL_NC_CONFIG"], "1");
    assert_eq!(got.envs.len(), 2);
}

#[rstest]
#[case::of_no_machine(
    Resource::Device,
    "neuron16",
    "\"neuron16\" is not an id of aws.amazon.com/neuron on this node; it advertises neuron0 to neuron15"
)]
#[case::of_the_other_name(
    Resource::Core,
    "neuron1",
    "\"neuron1\" is not an id of aws.amazon.com/neuroncore on this node; it advertises neuroncore0 to neuroncore63"
)]
#[case::of_another_maker(
    Resource::Device,
    "gpu0",
    "\"gpu0\" is not an id of aws.amazon.com/neuron on this node; it advertises neuron0 to neuron15"
)]
fn unknown_ids(#[case] resource: Resource, #[case] id: &str, #[case] text: &str) {
    let refused = cores_of(&trn2(), resource, &["neuron0".to_owned(), id.to_owned()][1..]).unwrap_err();
    assert_eq!(refused.to_string(), text);
}
