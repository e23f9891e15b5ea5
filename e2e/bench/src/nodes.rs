//! The nodes: API objects that kwok keeps alive, with everything on them that the extender decides from, as the device
//! plugin of a real node writes it.

use std::path::Path;

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Node;
use kind_driver::WAIT;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use neuron_core::catalog::{Catalog, InstanceType};
use neuron_core::names;
use neuron_core::report::{DeviceReport, Health, NodeReport, REPORT_VERSION};
use serde_json::{Value, json};
use tokio::process::Command;

use super::running::Running;

/// What every node is: 16 devices, 32 cores.
pub(super) const INSTANCE_TYPE: &str = "trn1.32xlarge";
/// Label of the nodes that kwok keeps alive.
const LABEL: &str = "type=kwok";
/// What kwok does with them: it has no stages of its own.
const STAGES: &str = include_str!("kwok-stages.yml");
/// Requests to the API server at the same time.
const AT_ONCE: usize = 16;

/// kwok; it ends when dropped.
pub(super) struct Kwok {
    _program: Running,
}

impl Kwok {
    /// Starts kwok and makes the nodes, and waits until all of them are ready.
    pub(super) async fn start(
        client: &Client,
        kubeconfig: &str,
        folder: &Path,
        count: usize,
    ) -> anyhow::Result<Self> {
        let stages = folder.join("kwok-stages.yml");
        tokio::fs::write(&stages, STAGES).await.with_context(|| format!("writing {}", stages.display()))?;
        let log = folder.join("kwok.log");
        let mut kwok = Command::new("kwok");
        kwok.args(["--kubeconfig", kubeconfig, "--manage-nodes-with-label-selector", LABEL])
            .arg("--config")
            .arg(&stages)
            .args(["--node-lease-duration-seconds", "40"]);
        let mut program = Running::start("kwok", kwok, &log)?;
        program.while_it_runs("all nodes were ready", make(client, count)).await?;
        Ok(Self { _program: program })
    }
}

/// Makes the nodes and waits until all of them are ready.
async fn make(client: &Client, count: usize) -> anyhow::Result<()> {
    let of_type = Catalog::embedded().find(INSTANCE_TYPE).context("the catalog lacks the nodes' type")?;
    let nodes: Api<Node> = Api::all(client.clone());
    futures::stream::iter(0..count)
        .map(|index| {
            let (nodes, manifest) = (nodes.clone(), manifest(index, of_type));
            async move {
                let node: Node = serde_json::from_value(manifest)?;
                nodes.create(&PostParams::default(), &node).await?;
                anyhow::Ok(())
            }
        })
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await
        .context("making the nodes")?;
    WAIT.until("kwok to make all nodes ready", async || {
        let listed = nodes.list(&ListParams::default().labels(LABEL)).await?;
        Ok(listed.items.iter().filter(|node| is_ready(node)).count() == count)
    })
    .await
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True");
    // The node controller takes this taint away some time after the node has become ready.
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    ready && !taints.into_iter().any(|taint| taint.key.starts_with("node.kubernetes.io/"))
}

fn manifest(index: usize, of_type: &InstanceType) -> Value {
    let name = format!("trn-{index:03}");
    let devices = u32::from(of_type.devices);
    let cores = devices * u32::from(of_type.cores_per_device) / u32::from(of_type.default_lnc);
    let resources = json!({
        "cpu": of_type.vcpus.to_string(),
        "memory": format!("{}Gi", of_type.host_memory_gib),
        "pods": "247",
        names::NEURON: devices.to_string(),
        names::NEURONCORE: cores.to_string(),
    });
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            // The cluster's own DaemonSets stay away from nodes without the label of the operating system.
            "labels": {
                "type": "kwok",
                names::INSTANCE_TYPE_LABEL: of_type.name,
                "kubernetes.io/hostname": name,
                "topology.kubernetes.io/zone": "us-west-2a",
            },
            "annotations": {
                "kwok.x-k8s.io/node": "fake",
                names::NODE_REPORT: report(of_type).to_json(),
            },
        },
        "spec": {"taints": [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}]},
        "status": {"allocatable": resources, "capacity": resources},
    })
}

/// What the device plugin reports of such a machine at rest.
fn report(of_type: &InstanceType) -> NodeReport {
    let device = |(id, links): (u8, &Vec<u8>)| DeviceReport {
        id,
        links: links.iter().copied().collect(),
        health: Health::Healthy,
        reason: None,
    };
    NodeReport {
        v: REPORT_VERSION,
        time: None,
        rules: None,
        instance_type: of_type.name.clone(),
        lnc: of_type.default_lnc,
        cores_per_device: Some(of_type.cores_per_device / of_type.default_lnc),
        devices: (0..).zip(&of_type.driver_links).map(device).collect(),
        holders: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_advertises_and_reports_sixteen_devices() {
        let node = manifest(7, Catalog::embedded().find(INSTANCE_TYPE).unwrap());
        assert_eq!(node["status"]["allocatable"][names::NEURON], "16");
        assert_eq!(node["status"]["allocatable"][names::NEURONCORE], "32");
        let text = node["metadata"]["annotations"][names::NODE_REPORT].as_str().unwrap();
        assert_eq!(NodeReport::parse(text).unwrap().device_ids().len(), 16);
    }
}
