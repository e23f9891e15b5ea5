//! The node report: what it says, and its way to the Node's annotation. Called by `upkeep`.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::{Api, Client};
use neuron_core::ids::{CoreSet, DeviceSet};
use neuron_core::names::NODE_REPORT;
use neuron_core::report::{DeviceReport, Health, HolderReport, NodeReport, REPORT_VERSION};
use tokio::time::Instant;

use crate::hardware::health::DeviceHealth;
use crate::hardware::machine::Machine;
use crate::ledger::Ledger;
use crate::ledger::slot::Slot;

/// How long a device that is healthy again waits in the report for kubelet to offer it, at most.
const OFFERED: Duration = Duration::from_secs(30);
/// Why a device is not healthy yet that is.
const NOT_OFFERED: &str = "it is healthy again, and kubelet does not offer it yet";
/// Characters of a reason, at most.
const REASON_LENGTH: usize = 200;

/// Reads and writes the report of one node.
pub(crate) struct Reporter {
    nodes: Api<PartialObjectMeta<Node>>,
    node: String,
    timeout: Duration,
}

impl Reporter {
    pub(crate) fn new(client: Client, node: &str, timeout: Duration) -> Self {
        Reporter { nodes: Api::all(client), node: node.to_owned(), timeout }
    }

    /// The report that the node has; none where it has none that can be read.
    ///
    /// # Errors
    /// The API server is away, slow or refuses.
    pub(crate) async fn read(&self) -> Result<Option<NodeReport>, String> {
        let annotations = match tokio::time::timeout(self.timeout, self.nodes.get_metadata(&self.node)).await
        {
            Ok(Ok(object)) => object.metadata.annotations,
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err(format!("no answer within {:?}", self.timeout)),
        };
        let text = annotations.unwrap_or_default().remove(NODE_REPORT);
        Ok(text.and_then(|text| NodeReport::parse(&text).ok()))
    }

    pub(super) async fn write(&self, report: &NodeReport) -> Result<(), String> {
        let patch = serde_json::json!({"metadata": {"annotations": {NODE_REPORT: report.to_json()}}});
        let (patch, params) = (Patch::Merge(&patch), PatchParams::default());
        let written = self.nodes.patch_metadata(&self.node, &params, &patch);
        match tokio::time::timeout(self.timeout, written).await {
            Ok(answer) => answer.map(drop).map_err(|error| error.to_string()),
            Err(_) => Err(format!("no answer within {:?}", self.timeout)),
        }
    }
}

/// What the annotation says of this machine and of the pods that hold its devices, by these rules. `offered` are the cores that kubelet
/// offers, where its checkpoint could be read.
pub(super) fn node_report(
    machine: &Machine,
    ledger: &Ledger,
    slots: &[Slot],
    offered: Option<CoreSet>,
    rules: &str,
) -> NodeReport {
    let topology = &machine.topology;
    let device = |id: u8| {
        let (health, reason) = match machine.health(id) {
            DeviceHealth::Unhealthy(fault) => (Health::Unhealthy, Some(fault.to_string())),
            _ if is_withheld(machine, id, offered) => (Health::Unhealthy, Some(NOT_OFFERED.to_owned())),
            DeviceHealth::Unknown(unread) => (Health::Unknown, Some(unread.to_string())),
            DeviceHealth::Healthy => (Health::Healthy, None),
        };
        let links = machine.links.get(usize::from(id)).copied().unwrap_or_default();
        // A path can be long, and the report is read by everybody.
        let reason = reason.map(|reason| reason.chars().take(REASON_LENGTH).collect());
        DeviceReport { id, links, health, reason }
    };
    NodeReport {
        v: REPORT_VERSION,
        time: None,
        rules: Some(rules.to_owned()),
        instance_type: topology.instance_type().to_owned(),
        lnc: topology.lnc(),
        cores_per_device: Some(topology.cores_per_device()),
        devices: topology.all_devices().iter().map(device).collect(),
        holders: holders(ledger, slots),
    }
}

/// Whether a device that is healthy again is not offered by kubelet yet: kubelet writes down each list that it gets. It is not waited
/// for without end, since a write of kubelet can fail.
fn is_withheld(machine: &Machine, id: u8, offered: Option<CoreSet>) -> bool {
    let (Some(offered), Some(since)) = (offered, machine.recovered.get(&id)) else { return false };
    let cores = machine.topology.cores_of(DeviceSet::single(id));
    !cores.is_subset(offered) && since.elapsed() < OFFERED
}

/// When the report waits no longer for kubelet to offer a device; nothing where it waits for none. Nobody else tells of that moment.
pub(super) fn waits_until(machine: &Machine, offered: Option<CoreSet>) -> Option<Instant> {
    let withheld = machine.recovered.iter().filter(|(id, _)| is_withheld(machine, **id, offered));
    withheld.map(|(_, since)| *since + OFFERED).min()
}

/// The pods that have devices.
fn holders(ledger: &Ledger, slots: &[Slot]) -> Vec<HolderReport> {
    let mut holders: Vec<HolderReport> = Vec::new();
    for slot in slots {
        let Some(cores) = ledger.cores_of(slot) else { continue };
        match holders.iter_mut().find(|holder| holder.uid == slot.uid) {
            Some(holder) => holder.cores = holder.cores.union(cores),
            None => holders.push(HolderReport { pod: slot.pod.clone(), uid: slot.uid.clone(), cores }),
        }
    }
    holders.sort_by(|a, b| (&a.pod, &a.uid).cmp(&(&b.pod, &b.uid)));
    holders
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use neuron_core::catalog::Catalog;
    use neuron_core::topology::{Policy, Topology};

    use super::*;
    use crate::hardware::driver::Driver;

    /// An inf2.24xlarge whose devices became healthy again at these times.
    fn machine(recovered: &[(u8, Instant)]) -> Machine {
        let model = Catalog::embedded().find("inf2.24xlarge").unwrap();
        let topology = Topology::of(model, 1, Policy::Documented).unwrap();
        Machine {
            links: Arc::from([]),
            shown: topology.all_devices(),
            is_known_type: true,
            default_lnc: 1,
            driver: Driver::NotShown,
            watches: Arc::from([]),
            topology: Arc::new(topology),
            faults: BTreeMap::new(),
            unknown: BTreeMap::new(),
            withheld: DeviceSet::EMPTY,
            recovered: recovered.iter().copied().collect(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_report_waits_for_the_device_that_kubelet_has_had_longest_to_offer() {
        let start = Instant::now();
        let later = start + Duration::from_secs(7);
        let machine = machine(&[(1, later), (2, start), (4, start)]);
        let all = machine.topology.all_cores();
        let without = |devices: &[u8]| {
            let missing: DeviceSet = devices.iter().copied().collect();
            Some(all.difference(machine.topology.cores_of(missing)))
        };
        tokio::time::advance(Duration::from_secs(7)).await;
        assert_eq!(waits_until(&machine, None), None, "what kubelet offers is not known");
        assert_eq!(waits_until(&machine, Some(all)), None, "kubelet offers all of it");
        assert_eq!(waits_until(&machine, without(&[5])), None, "that device was healthy all the time");
        assert_eq!(waits_until(&machine, without(&[1])), Some(later + OFFERED));
        assert_eq!(waits_until(&machine, without(&[1, 2])), Some(start + OFFERED), "the first to be over");

        tokio::time::advance(OFFERED - Duration::from_secs(7)).await;
        assert_eq!(waits_until(&machine, without(&[1, 2])), Some(later + OFFERED), "device 2 had its time");
        tokio::time::advance(Duration::from_secs(7)).await;
        assert_eq!(waits_until(&machine, without(&[1, 2])), None);
    }
}
