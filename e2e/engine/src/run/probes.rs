//! Asks for everything that nobody holds after a scenario of the fault tier, to see that no device is lost. Called by
//! [`super::run`].

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use neuron_core::names;
use serde_json::{Value, json};

use super::apply::sign;
use super::collect;
use super::reports::Reports;
use crate::cluster::wait::until;
use crate::cluster::{Cluster, NAMESPACE};
use crate::invariants::Observed;
use crate::invariants::no_lost_device::Probe;
use crate::outcome::Outcome;
use crate::scenario::Scenario;

/// Creates a probe on every node that has free cores, and says what could not be had or is no longer as it must be; empty
/// if all is well. The probes stay.
pub(super) async fn failures<C: Cluster>(
    cluster: &C,
    scenario: &Scenario,
    before: &Outcome,
) -> anyhow::Result<Vec<String>> {
    let pods: Api<Pod> = Api::namespaced(cluster.client(), NAMESPACE);
    let mut probes = Vec::new();
    for (place, node) in cluster.node_names().iter().enumerate() {
        if let Some(probe) = Probe::of(scenario, before, &format!("n{}", place + 1)) {
            let manifest = serde_json::from_value(manifest(&probe, node, cluster))?;
            pods.create(&PostParams::default(), &manifest).await?;
            probes.push(probe);
        }
    }
    let mut failures = Vec::new();
    // What containers print now, not what they printed before.
    let reports = Reports::default();
    let looked = until(cluster, "every free device to be had", async || {
        let now = collect::outcome(cluster, scenario, &reports).await?;
        let outcome = with_deleted(&now, before);
        let observed = Observed { outcome: &outcome, history: &reports.history, probes: &probes };
        failures = super::failures(scenario, observed, cluster.scheduler_texts());
        Ok(failures.is_empty())
    })
    .await;
    match looked {
        Err(error) if failures.is_empty() => Err(error),
        _ => Ok(failures),
    }
}

/// Pods that steps deleted are only in the document that was taken before.
fn with_deleted(now: &Outcome, before: &Outcome) -> Outcome {
    let mut all = before.clone();
    all.pods.retain(|_, pod| pod.deleted || pod.phase == "Refused");
    all.pods.extend(now.pods.clone());
    all
}

/// A pod for one node with a container for each wholly free device and one for each other free core.
fn manifest<C: Cluster>(probe: &Probe, node: &str, cluster: &C) -> Value {
    let image = cluster.workload_image();
    let container = |name: String, resource: &str| json!({"name": name, "image": image, "resources": {"limits": {resource: 1}}});
    let devices = probe.devices.iter().map(|id| container(format!("device-{id}"), names::NEURON));
    let cores = probe.cores.iter().map(|id| container(format!("core-{id}"), names::NEURONCORE));
    let mut manifest = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": probe.pod},
        "spec": {
            "schedulerName": cluster.scheduler_name(),
            "terminationGracePeriodSeconds": 1,
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]},
            ]}}},
            "containers": devices.chain(cores).collect::<Vec<_>>(),
        },
    });
    sign(&mut manifest);
    manifest
}
