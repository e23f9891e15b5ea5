//! The discovered machine: a topology that stays as it is, and the health of each device, which changes. Made by
//! `discovery`, kept up to date by `monitor`, read by everybody.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::stream::{FuturesUnordered, Stream, StreamExt as _};
use neuron_core::ids::{CoreSet, DeviceSet};
use neuron_core::topology::Topology;
use runtime::System;

use crate::hardware::health::{Fault, fault};
use crate::hardware::sysfs::DeviceFiles;

/// A machine whose devices are known.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Its devices, cores and candidate sets.
    pub topology: Arc<Topology>,
    /// Links by device id, as the driver shows them; for the node report.
    pub links: Arc<[DeviceSet]>,
    /// The devices that could not be read when the machine was discovered. Each is unhealthy until its links can be.
    pub unread: DeviceSet,
    /// The files of each device, by which its health is known.
    pub files: Arc<[DeviceFiles]>,
    /// Why a device may not be given out, by device id. Healthy devices are absent.
    pub faults: BTreeMap<u8, Fault>,
}

impl Machine {
    /// Looks at all devices at once, and tells of each as soon as it is known whether something is wrong with it: one whose
    /// files hang makes no other wait.
    pub fn looks<'a>(&'a self, system: &'a System) -> impl Stream<Item = (u8, Option<Fault>)> + use<'a> {
        let look = async |files: &'a DeviceFiles| {
            (files.id, fault(system, files, self.unread.contains(files.id)).await)
        };
        self.files.iter().map(look).collect::<FuturesUnordered<_>>()
    }

    /// What is wrong now, by device id.
    pub async fn look(&self, system: &System) -> BTreeMap<u8, Fault> {
        let faulty = self.looks(system).filter_map(async |(id, fault)| Some((id, fault?)));
        faulty.collect::<Vec<_>>().await.into_iter().collect()
    }

    /// The devices that may not be given out.
    pub fn unhealthy(&self) -> DeviceSet {
        self.faults.keys().copied().collect()
    }

    /// The cores of the devices that may be given out.
    pub fn healthy_cores(&self) -> CoreSet {
        self.topology.all_cores().difference(self.topology.cores_of(self.unhealthy()))
    }
}
