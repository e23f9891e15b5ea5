//! What a container gets for its ids: device nodes and variables. Pure. The answer to Allocate says exactly what the ids
//! mean, and nothing about a pod. Called by `engine`.

use std::collections::BTreeMap;
use std::path::Path;

use kubelet_api::deviceplugin::v1beta1::{ContainerAllocateResponse, DeviceSpec};
use neuron_core::ids::{CoreSet, DeviceSet};
use neuron_core::names::{LOGICAL_CORE_CONFIG, Resource, VISIBLE_CORES, VISIBLE_DEVICES};
use neuron_core::topology::Topology;

use crate::config::Numbering;
use crate::hardware::device_files::device_node;

/// The answer for ids that take `cores`. `container` is every device of the container under either resource name, by which
/// renumbered devices are counted from 0. It is ignored if it does not contain the ids' devices. `told_lnc` is the node's LNC, where the
/// runtime would take another for granted.
pub fn export(
    root: &Path,
    topology: &Topology,
    numbering: Numbering,
    unit: Resource,
    cores: CoreSet,
    container: DeviceSet,
    told_lnc: Option<u8>,
) -> ContainerAllocateResponse {
    let given = topology.devices_of(cores);
    let counted = match numbering {
        Numbering::Host => topology.all_devices(),
        Numbering::Renumbered if given.is_subset(container) => container,
        Numbering::Renumbered => given,
    };
    let inside = |device: u8| counted.iter().take_while(|other| *other < device).count();
    let devices = given.iter().map(|device| DeviceSpec {
        host_path: device_node(root, device).display().to_string(),
        container_path: format!("/dev/neuron{}", inside(device)),
        permissions: "rw".to_owned(),
    });
    // A comma list, never a range: Ray splits on commas only (docs/reference/neuron.md §3.4).
    let list = |numbers: Vec<usize>| numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let size = topology.cores_per_device().max(1);
    // Planted: the variable ends after sixteen cores, the device nodes do not.
    #[cfg(planted)]
    let cores: CoreSet =
        if runtime::is_planted("visible-cores-cut") { cores.iter().take(16).collect() } else { cores };
    let (name, value) = match unit {
        Resource::Device => (VISIBLE_DEVICES, list(given.iter().map(inside).collect())),
        Resource::Core => {
            let core = |core: u8| inside(core / size) * usize::from(size) + usize::from(core % size);
            (VISIBLE_CORES, list(cores.iter().map(core).collect()))
        }
    };
    let mut envs = BTreeMap::from([(name.to_owned(), value)]);
    envs.extend(told_lnc.map(|lnc| (LOGICAL_CORE_CONFIG.to_owned(), lnc.to_string())));
    ContainerAllocateResponse { envs, devices: devices.collect(), ..ContainerAllocateResponse::default() }
}
