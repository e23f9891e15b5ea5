//! The node report: what it says, and its way to the Node's annotation. Called by `upkeep`.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::{Api, Client};
use neuron_core::names::NODE_REPORT;
use neuron_core::report::{DeviceReport, Health, HolderReport, NodeReport, REPORT_VERSION};

use crate::hardware::machine::Machine;
use crate::ledger::Ledger;
use crate::ledger::slot::Slot;

/// Writes the report of one node.
pub(super) struct Reporter {
    nodes: Api<PartialObjectMeta<Node>>,
    node: String,
    timeout: Duration,
}

impl Reporter {
    pub(super) fn new(client: Client, node: &str, timeout: Duration) -> Self {
        Reporter { nodes: Api::all(client), node: node.to_owned(), timeout }
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

/// What the annotation says of this machine and of the pods that hold its devices.
pub(super) fn node_report(machine: &Machine, ledger: &Ledger, slots: &[Slot]) -> NodeReport {
    let (topology, unhealthy) = (&machine.topology, machine.unhealthy());
    let device = |id: u8| DeviceReport {
        id,
        links: machine.links.get(usize::from(id)).copied().unwrap_or_default(),
        health: if unhealthy.contains(id) { Health::Unhealthy } else { Health::Healthy },
    };
    NodeReport {
        v: REPORT_VERSION,
        instance_type: topology.instance_type().to_owned(),
        lnc: topology.lnc(),
        cores_per_device: Some(topology.cores_per_device()),
        devices: topology.all_devices().iter().map(device).collect(),
        holders: holders(ledger, slots),
    }
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
