//! The LNC at which pods already hold cores. Their ids count the logical cores of that LNC, so the node stays at it until
//! those pods have ended and the plugin has started again. Read by `run` before discovery.

use neuron_core::catalog::InstanceType;
use neuron_core::ids::{CoreSet, DeviceSet};
use neuron_core::report::NodeReport;
use runtime::reached;

use crate::allocation::cross_resource::CrossResource;
use crate::kubelet::checkpoint::Held;
use crate::ledger::Life;
use crate::pods::Pods;

/// The LNC that running pods fix for this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldLnc {
    /// By the node's last report.
    Reported {
        /// The instance type that the LNC belongs to.
        instance_type: String,
        /// 1 or 2.
        lnc: u8,
    },
    /// By what kubelet alone knows: at LNC 1 a device has twice as many logical cores as at LNC 2.
    ByKubelet {
        /// The highest id of a logical core that it knows.
        highest_core: u8,
        /// What it offers; none where cores may be withdrawn (`--cross-resource`) that are a device's own.
        offered: Option<Offered>,
    },
}

/// What kubelet offers under both names. Of a device that is unhealthy it lists neither the device nor a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offered {
    devices: DeviceSet,
    cores: CoreSet,
    /// Whether a device whose cores it lists may be withdrawn.
    may_lack_devices: bool,
}

impl Offered {
    fn of(held: &Held, cross_resource: CrossResource) -> Option<Self> {
        let may_lack_devices = cross_resource == CrossResource::Withdraw;
        let is_whole = !(may_lack_devices && held.devices);
        let (devices, cores) = (held.devices_offered, held.cores_offered);
        is_whole.then_some(Offered { devices, cores, may_lack_devices })
    }

    /// Whether these can be the cores of these devices where a device has so many.
    fn fits(self, cores_per_device: u8) -> bool {
        let mut all = CoreSet::EMPTY;
        for device in self.devices.iter() {
            let Some(first) = device.checked_mul(cores_per_device) else { return false };
            let cores = CoreSet::run(first, cores_per_device);
            if cores.len() != u32::from(cores_per_device) {
                return false;
            }
            all = all.union(cores);
        }
        if self.may_lack_devices { all.is_subset(self.cores) } else { all == self.cores }
    }
}

impl HeldLnc {
    /// The LNC of the node's last report while a living pod holds Neuron ids by that report or by kubelet's checkpoint; none if
    /// nobody does. Where the API server did not tell the report, every pod in the checkpoint counts as living, and the ids that
    /// kubelet knows tell the LNC; so they do where there is no report.
    pub async fn read(
        last: &Result<Option<NodeReport>, String>,
        node: &str,
        pods: &Pods,
        held: &Held,
        cross_resource: CrossResource,
    ) -> Option<HeldLnc> {
        let offered = Offered::of(held, cross_resource);
        let report = match last {
            Ok(report) => report,
            Err(reason) => return HeldLnc::without_api(held, offered, node, reason),
        };
        let read = pods.read_live().await;
        if let Err(error) = &read {
            tracing::warn!(node, reason = %error, "the pods could not be read; holders may have ended");
        }
        let lives = |uid: &String| match pods.life(uid) {
            Life::Lives => true,
            Life::Ended | Life::Gone => false,
            // What a live list does not show is gone, but for a static pod: its UID is a hash without hyphens, and it may have no
            // mirror yet.
            Life::Unseen => read.is_err() || !uid.contains('-'),
        };
        // A pod's own annotations decide nothing about the whole node; the report is the plugin's.
        let Some(report) = report else {
            let highest_core = held.highest_core.filter(|_| held.uids.iter().any(lives))?;
            return Some(HeldLnc::ByKubelet { highest_core, offered });
        };
        let reported = report.holders.iter().map(|holder| &holder.uid);
        let is_held = held.uids.iter().chain(reported).any(lives);
        is_held.then(|| HeldLnc::Reported { instance_type: report.instance_type.clone(), lnc: report.lnc })
    }

    fn without_api(held: &Held, offered: Option<Offered>, node: &str, reason: &str) -> Option<HeldLnc> {
        reached("plugin: node not read");
        tracing::warn!(
            node,
            reason,
            "the node could not be read; the LNC in force is told by kubelet's checkpoint"
        );
        let highest_core = held.highest_core.filter(|_| !held.uids.is_empty())?;
        Some(HeldLnc::ByKubelet { highest_core, offered })
    }

    /// The LNC of a machine of this type; none where nothing fixes it.
    pub fn of(&self, name: &str, known: Option<&InstanceType>) -> Option<u8> {
        match self {
            HeldLnc::Reported { instance_type, lnc } => (instance_type == name).then_some(*lnc),
            HeldLnc::ByKubelet { highest_core, offered } => {
                let known = known.filter(|known| known.generation.logical_core_sizes().contains(&2))?;
                let physical = u16::from(known.devices) * u16::from(known.cores_per_device);
                if u16::from(*highest_core) >= physical / 2 {
                    return Some(1);
                }
                let offered = (*offered)?;
                let [at_1, at_2] = [1, 2].map(|lnc| offered.fits(known.cores_per_device / lnc));
                (at_1 != at_2).then_some(if at_1 { 1 } else { 2 })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use neuron_core::catalog::Catalog;

    use super::*;

    /// The LNC of a trn2.48xlarge, with 128 physical cores of 16 devices, by what kubelet offers of it.
    fn of(devices: Range<u8>, cores: Range<u8>, cross_resource: CrossResource) -> Option<u8> {
        let held = Held {
            devices_offered: devices.collect(),
            cores_offered: cores.clone().collect(),
            ..Held::default()
        };
        known(cores.last().unwrap_or_default(), Offered::of(&held, cross_resource))
    }

    fn known(highest_core: u8, offered: Option<Offered>) -> Option<u8> {
        let name = "trn2.48xlarge";
        HeldLnc::ByKubelet { highest_core, offered }.of(name, Catalog::embedded().find(name))
    }

    #[test]
    fn cores_and_devices_tell_the_lnc_whichever_devices_are_unhealthy() {
        let of = |devices, cores| of(devices, cores, CrossResource::Refuse);
        assert_eq!([of(0..16, 0..64), of(0..16, 0..128)], [Some(2), Some(1)]);
        assert_eq!(of(0..15, 0..60), Some(2), "the last one is");
        assert_eq!(of(0..8, 0..64), Some(1), "half of them are");
        assert_eq!([of(2..3, 8..12), of(2..3, 16..24)], [Some(2), Some(1)], "all but one are");
        assert_eq!(of(15..16, 60..64), Some(2));
        assert_eq!(of(0..0, 0..0), None, "all are");
        assert_eq!(of(0..16, 0..0), None, "the cores have not been told yet");
        assert_eq!(of(0..15, 0..64), None, "one was lost between two lists");
    }

    #[test]
    fn a_list_that_may_lack_cores_says_nothing_of_a_low_highest_core() {
        assert_eq!([known(63, None), known(64, None)], [None, Some(1)]);
        let held = Held { devices: true, devices_offered: DeviceSet::run(0, 16), ..Held::default() };
        assert_eq!(Offered::of(&held, CrossResource::Withdraw), None, "whole devices are held");
    }

    #[test]
    fn a_list_that_may_lack_devices_tells_the_lnc_by_those_that_are_there() {
        let of = |devices, cores| of(devices, cores, CrossResource::Withdraw);
        assert_eq!(of(8..15, 0..60), Some(2));
        // At LNC 2 with cores of devices 8 to 15 held kubelet lists these, and at LNC 1 with those devices unhealthy.
        assert_eq!(of(0..8, 0..64), None);
        assert_eq!(of(0..8, 0..128), Some(1));
    }
}
