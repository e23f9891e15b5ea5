//! Whether every device that nobody holds can be had after a scenario of the fault tier. Called by [`super::run`].

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use neuron_core::ids::{CoreSet, DeviceSet};
use neuron_core::names;
use neuron_core::topology::Topology;
use serde_json::{Value, json};

use super::apply::sign;
use super::collect::{self, Reports};
use crate::cluster::wait::until;
use crate::cluster::{Cluster, NAMESPACE};
use crate::invariants::{self, hardware, topology};
use crate::outcome::{Outcome, PodOutcome};
use crate::scenario::Scenario;

/// Asks on every node for everything that nobody holds there, and says what could not be had or is no longer as it
/// must be; empty if all is well. The pods that asked stay.
pub(super) async fn unusable<C: Cluster>(
    cluster: &C,
    scenario: &Scenario,
    outcome: &Outcome,
) -> anyhow::Result<Vec<String>> {
    let mut asked = BTreeMap::new();
    for (place, node) in cluster.node_names().iter().enumerate() {
        let shown = format!("n{}", place + 1);
        let Some(topology) = topology(scenario, &shown) else { continue };
        let free = topology.all_cores().difference(held_on(outcome, &shown, &topology));
        if !free.is_empty() {
            let name = format!("asks-for-the-rest-of-{shown}");
            let mut manifest = asker(&name, node, cluster, &topology, free);
            sign(&mut manifest);
            let pods: Api<Pod> = Api::namespaced(cluster.client(), NAMESPACE);
            pods.create(&PostParams::default(), &serde_json::from_value(manifest)?).await?;
            asked.insert(name, (topology, free));
        }
    }
    let mut failures = Vec::new();
    // What containers say now, not what they said before.
    let reports = Reports::default();
    let looked = until(cluster, "every free device to be had", async || {
        let now = collect::outcome(cluster, scenario, &reports).await?;
        failures = invariants::failures(scenario, &with_deleted(&now, outcome), cluster.scheduler_texts());
        failures.extend(reports.lives.held_at_one_time(scenario));
        for (name, (topology, free)) in &asked {
            failures.extend(now.pods.get(name).and_then(|pod| unlike(name, pod, topology, *free)));
        }
        Ok(failures.is_empty())
    })
    .await;
    match looked {
        Err(error) if failures.is_empty() => Err(error),
        _ => Ok(failures),
    }
}

/// The cores that running pods see on a node.
fn held_on(outcome: &Outcome, node: &str, topology: &Topology) -> CoreSet {
    let here = outcome.pods.values().filter(|pod| pod.is_running() && pod.node.as_deref() == Some(node));
    here.fold(CoreSet::EMPTY, |all, pod| all.union(hardware(pod, topology)))
}

/// Pods that steps deleted are only in the document that was taken before.
fn with_deleted(now: &Outcome, before: &Outcome) -> Outcome {
    let mut all = before.clone();
    all.pods.retain(|_, pod| pod.deleted || pod.phase == "Refused");
    all.pods.extend(now.pods.clone());
    all
}

/// A pod for one node with a container for each wholly free device and one for each other free core.
fn asker<C: Cluster>(name: &str, node: &str, cluster: &C, topology: &Topology, free: CoreSet) -> Value {
    let devices: DeviceSet = topology
        .all_devices()
        .iter()
        .filter(|id| topology.cores_of(DeviceSet::single(*id)).is_subset(free))
        .collect();
    let single = free.difference(topology.cores_of(devices));
    let image = cluster.workload_image();
    let container = |name: String, resource: &str| json!({"name": name, "image": image, "resources": {"limits": {resource: 1}}});
    let containers: Vec<Value> = devices
        .iter()
        .map(|id| container(format!("device-{id}"), names::NEURON))
        .chain(single.iter().map(|id| container(format!("core-{id}"), names::NEURONCORE)))
        .collect();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "schedulerName": cluster.scheduler_name(),
            "terminationGracePeriodSeconds": 1,
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]},
            ]}}},
            "containers": containers,
        },
    })
}

/// What is wrong with a pod that asked for these cores.
fn unlike(name: &str, pod: &PodOutcome, topology: &Topology, free: CoreSet) -> Option<String> {
    let why = pod.failure.as_ref().or(pod.failed_scheduling.as_ref()).map_or("", String::as_str);
    if !pod.is_running() {
        return Some(format!("cores {free} cannot be had: pod {name} is {}: {why}", pod.phase));
    }
    let got = hardware(pod, topology);
    (got != free).then(|| format!("pod {name} got cores {got}, free were {free}"))
}
