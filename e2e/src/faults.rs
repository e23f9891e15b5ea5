//! What must hold after every scenario of the fault tier, whatever broke meanwhile: no pod failed that kubelet would
//! not fail anyway, and every device that nobody holds can be had. Called by [`crate::run`] and [`crate::verdict`].

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use neuron_core::ids::{CoreSet, DeviceSet};
use neuron_core::names;
use neuron_core::topology::Topology;
use serde_json::{Value, json};

use crate::apply::sign;
use crate::cluster::Cluster;
use crate::collect::{self, Reports};
use crate::outcome::{Outcome, PodOutcome};
use crate::run::NAMESPACE;
use crate::scenario::{Scenario, Step};
use crate::verdict::{self, hardware, topology};
use crate::wait::until;

/// Pods that are missing, still wait, or failed with words that neither the scenario nor kubelet accounts for.
pub fn broken(scenario: &Scenario, outcome: &Outcome) -> Vec<String> {
    let mut failures = Vec::new();
    let (mut wanted, mut deleted) = (BTreeSet::new(), BTreeSet::new());
    applied(&scenario.steps, &mut wanted, &mut deleted);
    for name in wanted.difference(&deleted).filter(|name| !outcome.pods.contains_key(**name)) {
        failures.push(format!("pod {name} is lost"));
    }
    let late = created_after_faults(scenario);
    for (name, pod) in outcome.pods.iter().filter(|(name, _)| !scenario.expect.contains_key(*name)) {
        let why = pod.failure.as_ref().or(pod.failed_scheduling.as_ref()).map_or("", String::as_str);
        let may_be_said = || scenario.kubelet_may_say.iter().any(|words| why.contains(words.as_str()));
        let excused = || !late.contains(name.as_str()) && may_be_said();
        match pod.phase.as_str() {
            "Running" | "Succeeded" | "Refused" => {}
            "Failed" if excused() => {}
            phase => failures.push(format!("pod {name} is {phase}: {why}")),
        }
    }
    failures
}

/// The names of pods that were created once the parts they met were back: nothing excuses these.
fn created_after_faults(scenario: &Scenario) -> BTreeSet<&str> {
    let last = scenario.steps.iter().filter_map(|step| match step {
        Step::Amid(amid) => Some(amid.groups()[2]),
        _ => None,
    });
    last.flatten().filter_map(|manifest| manifest["metadata"]["name"].as_str()).collect()
}

/// The names of pods that these steps apply, and of those that they force away.
fn applied<'a>(steps: &'a [Step], wanted: &mut BTreeSet<&'a str>, deleted: &mut BTreeSet<&'a str>) {
    for step in steps {
        if let Step::ForceDelete(names) = step {
            deleted.extend(names.iter().map(String::as_str));
        }
        let (manifests, inner) = step.applies();
        wanted.extend(manifests.iter().filter_map(|manifest| manifest["metadata"]["name"].as_str()));
        applied(inner, wanted, deleted);
    }
}

/// Asks on every node for everything that nobody holds there, and says what could not be had or is no longer as it
/// must be; empty if all is well. The pods that asked stay.
pub async fn unusable<C: Cluster>(
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
            sign(cluster, &mut manifest);
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
        failures = verdict::failures(scenario, &with_deleted(&now, outcome), cluster.scheduler_texts());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library;

    const FORTY: &str = "about: x
invariants_only: x
kubelet_may_say: [is away]
nodes: [{type: inf2.24xlarge}]
steps:
- amid:
    bound: 1
    apply:
    - repeat: {number: 8}
      steps:
      - {apiVersion: v1, kind: Pod, metadata: {name: \"p${number}\"}, spec: {containers: []}}
    steps: [{restart: {part: plugin}}]
";

    #[test]
    fn a_pod_created_once_the_part_is_back_has_no_excuse() {
        let mut scenario = library::parse("forty", FORTY).unwrap().remove(0);
        scenario.tier = crate::scenario::Tier::Faults;
        let pod = |phase: &str, failure: &str| PodOutcome {
            phase: phase.into(),
            failure: Some(failure.into()),
            ..PodOutcome::default()
        };
        let mut outcome = Outcome { version: 1, pods: BTreeMap::new() };
        for number in 1..=8 {
            outcome.pods.insert(format!("p{number}"), pod("Running", ""));
        }
        assert_eq!(broken(&scenario, &outcome), Vec::<String>::new());
        outcome.pods.insert("p1".into(), pod("Failed", "the plugin is away"));
        outcome.pods.insert("p7".into(), pod("Failed", "the plugin is away"));
        outcome.pods.insert("p8".into(), pod("Failed", "the plugin is away"));
        assert_eq!(broken(&scenario, &outcome), ["pod p8 is Failed: the plugin is away"]);
    }
}
