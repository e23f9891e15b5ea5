//! Every shape of a pod with up to four containers that ask is decided, whatever a machine has left: no author of an ordinary pod is told
//! "not decided". Shapes are told apart by what they can do to a search: each count of devices, and counts of cores below, at and above
//! those of one device. Containers of a role come in one order, and each asks under one name; `budget` draws orders, both names and all
//! counts of cores.

use neuron_core::ids::{CoreSet, DeviceSet};
use neuron_core::occupancy::Occupancy;
use neuron_core::placement::{Refusal, fits};
use neuron_core::topology::{Policy, Topology};
use rstest::rstest;

use super::support::{Role, node_at, pod};

/// A role, devices and cores.
type Requested = (Role, u32, u32);

/// Most containers that are promised to be decided.
const CONTAINERS: usize = 4;

/// What one container may ask for, in every role; kubelet starts app containers last.
fn kinds(topology: &Topology) -> Vec<Requested> {
    let cores = |device| topology.cores_of(device).len();
    let device = topology.all_devices().iter().next().map(DeviceSet::single);
    let of_device = cores(device.unwrap());
    let mut core_counts: Vec<u32> = vec![1, of_device - 1, of_device, of_device + 1];
    core_counts.sort_unstable();
    core_counts.dedup();
    core_counts.retain(|count| !topology.core_sets(*count).is_empty());
    let devices =
        topology.device_counts().iter().map(|count| (u32::from(*count), 0)).filter(|(count, _)| *count > 0);
    let amounts: Vec<_> = devices.chain(core_counts.into_iter().map(|count| (0, count))).collect();
    let of_role = |role: Role| amounts.iter().map(move |(devices, cores)| (role, *devices, *cores));
    [Role::Init, Role::Sidecar, Role::App].into_iter().flat_map(of_role).collect()
}

/// Calls `check` with every choice of up to `left` more containers, of kinds from `first` on, beside those chosen.
fn each_shape(
    kinds: &[Requested],
    first: usize,
    left: usize,
    chosen: &mut Vec<Requested>,
    check: &mut dyn FnMut(&[Requested]),
) {
    for (at, kind) in kinds.iter().enumerate().skip(first) {
        chosen.push(*kind);
        check(chosen);
        if left > 1 {
            each_shape(kinds, at, left - 1, chosen, check);
        }
        chosen.pop();
    }
}

/// One core of each device is held but for every third: most devices cannot be given whole, and what is left is in pieces.
fn in_pieces(mut node: Occupancy) -> Occupancy {
    let devices = node.topology().all_devices();
    for device in devices.iter().filter(|device| device % 3 != 0) {
        let cores = node.topology().cores_of(DeviceSet::single(device));
        let held: CoreSet = cores.iter().take(1).collect();
        node.hold(held);
    }
    node
}

#[rstest]
fn up_to_four_containers_are_decided(
    #[values(("inf1.24xlarge", 1), ("inf2.48xlarge", 1), ("trn1.32xlarge", 1), ("trn2.48xlarge", 1), ("trn2.48xlarge", 2))]
    machine: (&str, u8),
    #[values(false, true)] is_in_pieces: bool,
) {
    let (instance_type, lnc) = machine;
    let empty = node_at(instance_type, lnc, Policy::Documented, "", "");
    let node = if is_in_pieces { in_pieces(empty) } else { empty };
    let kinds = kinds(node.topology());
    let mut shapes = 0;
    each_shape(&kinds, 0, CONTAINERS, &mut Vec::new(), &mut |shape| {
        shapes += 1;
        let answer = fits(&pod(shape), &node);
        assert!(!matches!(answer, Err(Refusal::NotDecided { .. })), "{instance_type}, {shape:?}: {answer:?}");
    });
    assert!(shapes > 2000, "{shapes} shapes");
}
