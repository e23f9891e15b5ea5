//! The nodes: API objects that kwok keeps alive, with everything on them that the extender decides from, as the device
//! plugin of a real node writes it.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, bail};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use neuron_core::catalog::{Catalog, InstanceType};
use neuron_core::names;
use neuron_core::report::{DeviceReport, Health, NodeReport, REPORT_VERSION};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::kind::wait::until;

/// What every node is: 16 devices, 32 cores.
pub(super) const INSTANCE_TYPE: &str = "trn1.32xlarge";
/// Label of the nodes that kwok minds.
const LABEL: &str = "type=kwok";
/// What kwok does with them: it has no stages of its own.
const STAGES: &str = include_str!("kwok-stages.yml");
/// Requests to the API server at the same time.
const AT_ONCE: usize = 16;
/// Lines of kwok's log that an error shows.
const LINES_SHOWN: usize = 5;

/// kwok; it ends when dropped.
pub(super) struct Kwok {
    _program: Child,
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
        let mut program = spawn(kwok, &log)?;
        while_it_runs(&mut program, &log, make(client, count)).await?;
        Ok(Self { _program: program })
    }
}

/// Starts kwok; what it logs goes to the file.
fn spawn(mut kwok: Command, log: &Path) -> anyhow::Result<Child> {
    let file = File::create(log).with_context(|| format!("creating {}", log.display()))?;
    kwok.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file).kill_on_drop(true);
    kwok.spawn().context("cannot start kwok")
}

/// What comes of the work, which needs kwok: without it the nodes would be waited for in vain, and nobody told why.
async fn while_it_runs(
    kwok: &mut Child,
    log: &Path,
    work: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let status = tokio::select! {
        result = work => return result,
        ended = kwok.wait() => ended.context("waiting for kwok")?,
    };
    let log = tokio::fs::read_to_string(log).await.with_context(|| format!("reading {}", log.display()))?;
    let lines: Vec<&str> = log.lines().collect();
    let last = lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n");
    bail!("kwok ended ({status}) before all nodes were ready; cure what its last words name:\n{last}");
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
    until("kwok to make all nodes ready", || async {
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
            // Without the label of the operating system the cluster's own DaemonSets stay away.
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
    };
    NodeReport {
        v: REPORT_VERSION,
        instance_type: of_type.name.clone(),
        lnc: of_type.default_lnc,
        cores_per_device: Some(of_type.cores_per_device / of_type.default_lnc),
        devices: (0..).zip(&of_type.driver_links).map(device).collect(),
        holders: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    fn shell(script: &str, log: &Path) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        spawn(command, log).unwrap()
    }

    #[tokio::test]
    async fn a_kwok_that_ends_early_is_told_with_its_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("kwok.log");
        let mut kwok = shell("for n in 1 2 3 4 5 6; do echo line $n; done >&2; exit 3", &log);
        let error = while_it_runs(&mut kwok, &log, pending()).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "kwok ended (exit status: 3) before all nodes were ready; cure what its last words name:\n\
             line 2\nline 3\nline 4\nline 5\nline 6"
        );
        let mut kwok = shell("exec sleep 60", &log);
        while_it_runs(&mut kwok, &log, ready(Ok(()))).await.unwrap();
    }

    #[test]
    fn a_node_offers_and_reports_sixteen_devices() {
        let node = manifest(7, Catalog::embedded().find(INSTANCE_TYPE).unwrap());
        assert_eq!(node["status"]["allocatable"][names::NEURON], "16");
        assert_eq!(node["status"]["allocatable"][names::NEURONCORE], "32");
        let text = node["metadata"]["annotations"][names::NODE_REPORT].as_str().unwrap();
        assert_eq!(NodeReport::parse(text).unwrap().device_ids().len(), 16);
    }
}
