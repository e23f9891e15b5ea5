//! One bit set answers for cores and for devices: the two views never contradict.

use std::sync::Arc;

use neuron_core::catalog::{Catalog, InstanceType};
use neuron_core::ids::{CoreSet, DeviceSet};
use neuron_core::occupancy::Occupancy;
use neuron_core::topology::{Policy, Topology};
use proptest::prelude::*;

fn nodes() -> Vec<(&'static InstanceType, u8)> {
    let types = Catalog::embedded().types().iter();
    types.flat_map(|row| row.generation.logical_core_sizes().iter().map(move |&lnc| (row, lnc))).collect()
}

fn node() -> impl Strategy<Value = Arc<Topology>> {
    prop::sample::select(nodes())
        .prop_map(|(row, lnc)| Arc::new(Topology::of(row, lnc, Policy::Documented).unwrap()))
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn views_never_contradict(topology in node(), held in any::<u128>(), sick in any::<u64>()) {
        let mut occupancy = Occupancy::empty(topology.clone());
        occupancy.hold(CoreSet::from_bits(held));
        occupancy.set_unhealthy(DeviceSet::from_bits(sick));
        let (cores, devices) = (occupancy.free_cores(), occupancy.free_devices());

        // Every core of a free device is free, and a device all of whose cores are free is free.
        prop_assert!(topology.cores_of(devices).is_subset(cores));
        for device in topology.all_devices().iter() {
            let own = topology.cores_of(DeviceSet::single(device));
            prop_assert_eq!(own.len(), u32::from(topology.cores_per_device()));
            prop_assert_eq!(devices.contains(device), own.is_subset(cores));
            prop_assert!(!sick >> device & 1 == 1 || !own.intersects(cores));
        }
        // Every core is either free, held, or on an unhealthy device.
        let sick = topology.cores_of(occupancy.unhealthy());
        prop_assert_eq!(cores.union(occupancy.held()).union(sick), topology.all_cores());
        prop_assert!(!cores.intersects(occupancy.held()) && !cores.intersects(sick));
    }

    #[test]
    fn hold_then_release_is_the_identity(topology in node(), before in any::<u128>(), more in any::<u128>()) {
        let mut occupancy = Occupancy::empty(topology);
        occupancy.hold(CoreSet::from_bits(before));
        let (held, cores, devices) = (occupancy.held(), occupancy.free_cores(), occupancy.free_devices());

        let taken = CoreSet::from_bits(more).intersection(cores);
        occupancy.hold(taken);
        prop_assert_eq!(occupancy.free_cores(), cores.difference(taken));
        occupancy.release(taken);
        prop_assert_eq!(occupancy.held(), held);
        prop_assert_eq!(occupancy.free_cores(), cores);
        prop_assert_eq!(occupancy.free_devices(), devices);
    }
}

#[test]
fn a_device_with_one_core_taken_is_taken() {
    let row = Catalog::embedded().find("inf2.24xlarge").unwrap();
    let mut occupancy = Occupancy::empty(Arc::new(Topology::of(row, 1, Policy::Documented).unwrap()));
    occupancy.hold("3".parse().unwrap());
    occupancy.set_unhealthy("5".parse().unwrap());
    assert_eq!(occupancy.free_devices().to_string(), "0,2,3,4");
    assert_eq!(occupancy.free_cores().to_string(), "0,1,2,4,5,6,7,8,9");
    // Ids that the node does not have change nothing.
    occupancy.hold("12,127".parse().unwrap());
    occupancy.set_unhealthy("6,63".parse().unwrap());
    assert_eq!(occupancy.held().to_string(), "3");
    assert_eq!(occupancy.unhealthy().to_string(), "");
}
