//! The LNC at which pods already hold cores. Their ids count the logical cores of that LNC, so the node stays at it until
//! those pods have ended and the plugin has started again. Read by `run` before discovery.

use neuron_core::catalog::InstanceType;
use neuron_core::report::NodeReport;
use runtime::reached;

use crate::allocation::cross_resource::CrossResource;
use crate::kubelet::checkpoint::{CheckpointFile, Held};
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
    /// By kubelet alone: the highest id of a logical core that it knows. At LNC 1 there are twice as many as at LNC 2.
    HighestCore {
        /// The id.
        core: u8,
        /// The highest device that it offers with cores; none where cores may be withdrawn (`--cross-resource`). Of a device that is
        /// unhealthy it lists none, so that a low highest core says something only where the last device is among them.
        last_device: Option<u8>,
    },
}

impl HeldLnc {
    /// The LNC of the node's last report while a living pod holds Neuron ids by that report or by kubelet's checkpoint; none if
    /// nobody does. Where the API server did not tell the report, every pod in the checkpoint counts as living, and the ids that
    /// kubelet knows tell the LNC; so they do where there is no report.
    pub async fn read(
        last: &Result<Option<NodeReport>, String>,
        node: &str,
        pods: &Pods,
        checkpoint: &CheckpointFile,
        cross_resource: CrossResource,
    ) -> Option<HeldLnc> {
        let held = checkpoint.held().await;
        let is_whole = cross_resource == CrossResource::Refuse || !held.devices;
        let last_device = held.highest_device_offered.filter(|_| held.offers_cores && is_whole);
        let report = match last {
            Ok(report) => report,
            Err(reason) => return HeldLnc::without_api(&held, last_device, node, reason),
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
            let core = held.highest_core.filter(|_| held.uids.iter().any(lives))?;
            return Some(HeldLnc::HighestCore { core, last_device });
        };
        let reported = report.holders.iter().map(|holder| &holder.uid);
        let is_held = held.uids.iter().chain(reported).any(lives);
        is_held.then(|| HeldLnc::Reported { instance_type: report.instance_type.clone(), lnc: report.lnc })
    }

    fn without_api(held: &Held, last_device: Option<u8>, node: &str, reason: &str) -> Option<HeldLnc> {
        reached("plugin: node not read");
        tracing::warn!(
            node,
            reason,
            "the node could not be read; the LNC in force is told by kubelet's checkpoint"
        );
        let core = held.highest_core.filter(|_| !held.uids.is_empty())?;
        Some(HeldLnc::HighestCore { core, last_device })
    }

    /// The LNC of a machine of this type; none where nothing fixes it.
    pub fn of(&self, name: &str, known: Option<&InstanceType>) -> Option<u8> {
        match self {
            HeldLnc::Reported { instance_type, lnc } => (instance_type == name).then_some(*lnc),
            HeldLnc::HighestCore { core, last_device } => {
                let known = known.filter(|known| known.generation.logical_core_sizes().contains(&2))?;
                let physical = u16::from(known.devices) * u16::from(known.cores_per_device);
                let is_lower = u16::from(*core) < physical / 2;
                let is_sure = last_device.is_some_and(|device| device + 1 == known.devices);
                (!is_lower || is_sure).then_some(if is_lower { 2 } else { 1 })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use neuron_core::catalog::Catalog;

    use super::*;

    #[test]
    fn a_list_that_may_lack_cores_says_nothing_of_a_low_highest_core() {
        let name = "trn2.48xlarge";
        let of = |core, last_device| {
            HeldLnc::HighestCore { core, last_device }.of(name, Catalog::embedded().find(name))
        };
        // 128 physical cores of 16 devices.
        assert_eq!([of(63, Some(15)), of(64, Some(15))], [Some(2), Some(1)]);
        assert_eq!([of(63, None), of(64, None)], [None, Some(1)]);
        // At LNC 1 with devices 8 to 15 unhealthy kubelet lists these, too.
        assert_eq!(of(63, Some(7)), None);
    }
}
