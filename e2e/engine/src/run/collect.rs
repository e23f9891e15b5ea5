//! Makes the outcome document from what the API server, the events and the containers' own output say.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::{ContainerStatus, Node, Pod, PodStatus};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams, LogParams};
use neuron_core::names;
use neuron_workload::{DeviceNode, Report};

use super::reports::Reports;
use crate::cluster::{Cluster, NAMESPACE};
use crate::invariants::record;
use crate::outcome::redaction::{REDACTED, Redaction, scheduling_text};
use crate::outcome::{Outcome, PodOutcome};
use crate::scenario::Scenario;

/// The programs whose events are ours.
const OUR_REPORTERS: [&str; 2] = ["neuron-extender", "neuron-device-plugin"];

/// The document of all pods that are there now.
///
/// # Errors
/// The API server does not answer, or a container's output cannot be read yet.
pub async fn outcome<C: Cluster>(
    cluster: &C,
    scenario: &Scenario,
    reports: &Reports,
) -> anyhow::Result<Outcome> {
    let pods: Api<Pod> = Api::namespaced(cluster.client(), NAMESPACE);
    let pods = pods.list(&ListParams::default()).await.context("listing pods")?.items;
    reports.history.begin_look();
    let mut outcome = Outcome { version: 1, pods: BTreeMap::new() };
    let collector = Collector::new(cluster, scenario, reports, &pods).await?;
    for pod in &pods {
        let name = pod.metadata.name.clone().unwrap_or_default();
        outcome.pods.insert(name, collector.pod(pod).await?);
    }
    Ok(outcome)
}

/// The part of the document about one pod.
///
/// # Errors
/// As [`outcome`], or there is no such pod.
pub async fn pod<C: Cluster>(
    cluster: &C,
    scenario: &Scenario,
    reports: &Reports,
    name: &str,
) -> anyhow::Result<PodOutcome> {
    let pods: Api<Pod> = Api::namespaced(cluster.client(), NAMESPACE);
    let pod = pods.get(name).await.with_context(|| format!("reading pod {name}"))?;
    Collector::new(cluster, scenario, reports, std::slice::from_ref(&pod)).await?.pod(&pod).await
}

/// Whether every running container of the pod has printed what it got.
///
/// # Errors
/// As [`pod`].
pub async fn has_printed<C: Cluster>(
    cluster: &C,
    scenario: &Scenario,
    reports: &Reports,
    name: &str,
) -> anyhow::Result<bool> {
    let pods: Api<Pod> = Api::namespaced(cluster.client(), NAMESPACE);
    let pod = pods.get(name).await.with_context(|| format!("reading pod {name}"))?;
    let collector = Collector::new(cluster, scenario, reports, std::slice::from_ref(&pod)).await?;
    Ok(!is_silent(&pod, &collector.pod(&pod).await?))
}

/// Whether every running container of every pod has printed what it got and, where a plugin runs that would correct it,
/// the pod's record agrees: its kubelet is no longer needed for either.
///
/// # Errors
/// As [`outcome`].
pub async fn all_settled<C: Cluster>(
    cluster: &C,
    scenario: &Scenario,
    reports: &Reports,
    plugin_runs: bool,
) -> anyhow::Result<bool> {
    let pods: Api<Pod> = Api::namespaced(cluster.client(), NAMESPACE);
    let pods = pods.list(&ListParams::default()).await.context("listing pods")?.items;
    let collector = Collector::new(cluster, scenario, reports, &pods).await?;
    for pod in &pods {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let now = collector.pod(pod).await?;
        if is_silent(pod, &now)
            || (plugin_runs && now.is_running() && !record::mismatches_of(name, &now).is_empty())
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a container of the pod runs that has not printed what it got.
fn is_silent(pod: &Pod, now: &PodOutcome) -> bool {
    let mut running = statuses(pod).filter(|one| one.state.as_ref().is_some_and(|s| s.running.is_some()));
    running.any(|container| !now.containers.contains_key(&container.name))
}

/// Whether the container has begun and kubelet knows where it is: a container that kubelet could not find again has no log.
fn has_a_log(container: &ContainerStatus) -> bool {
    let state = container.state.clone().unwrap_or_default();
    let lost = |reason: &Option<String>| reason.as_deref() == Some("ContainerStatusUnknown");
    state.running.is_some() || state.terminated.is_some_and(|ended| !lost(&ended.reason))
}

fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    pod.status.iter().flat_map(|status| {
        let init = status.init_container_statuses.iter().flatten();
        init.chain(status.container_statuses.iter().flatten())
    })
}

struct Collector<'a, C> {
    cluster: &'a C,
    nodes: usize,
    events: Vec<Event>,
    types: BTreeMap<String, String>,
    redaction: Redaction,
    reports: &'a Reports,
}

impl<'a, C: Cluster> Collector<'a, C> {
    async fn new(
        cluster: &'a C,
        scenario: &Scenario,
        reports: &'a Reports,
        pods: &[Pod],
    ) -> anyhow::Result<Self> {
        let events: Api<Event> = Api::namespaced(cluster.client(), NAMESPACE);
        let events = events.list(&ListParams::default()).await.context("listing events")?.items;
        let nodes: Api<Node> = Api::all(cluster.client());
        let mut types = BTreeMap::new();
        for name in cluster.node_names() {
            let node = nodes.get(name).await.with_context(|| format!("reading node {name}"))?;
            let label =
                node.metadata.labels.as_ref().and_then(|labels| labels.get(names::INSTANCE_TYPE_LABEL));
            types.extend(label.map(|label| (name.clone(), label.clone())));
        }
        let uids = pods.iter().filter_map(|pod| pod.metadata.uid.as_deref());
        let redaction = Redaction::new(cluster.node_names().iter().map(String::as_str), uids);
        Ok(Self { cluster, nodes: scenario.nodes.len(), events, types, redaction, reports })
    }

    async fn pod(&self, pod: &Pod) -> anyhow::Result<PodOutcome> {
        let status = pod.status.clone().unwrap_or_default();
        let spec = pod.spec.clone().unwrap_or_default();
        let failure = match (&status.reason, &status.message) {
            (None, None) => not_started(&status),
            (reason, message) => {
                let parts = [reason.as_deref(), message.as_deref()];
                Some(parts.into_iter().flatten().collect::<Vec<_>>().join(": "))
            }
        };
        let failure = failure.map(|failure| self.redaction.apply(&failure));
        let node = spec.node_name.clone();
        let outcome = PodOutcome {
            phase: status.phase.unwrap_or_else(|| "Pending".into()),
            deleted: false,
            failure,
            node_type: node.as_ref().and_then(|node| self.types.get(node).cloned()),
            node: node.map(|node| self.redaction.apply(&node)),
            annotations: self.annotations(pod),
            containers: self.reports(pod).await?,
            events: self.our_events(pod),
            failed_scheduling: if spec.node_name.is_none() { self.failed_scheduling(pod) } else { None },
        };
        self.reports.history.add(pod, &outcome, statuses(pod));
        Ok(outcome)
    }

    fn annotations(&self, pod: &Pod) -> BTreeMap<String, String> {
        let shown = |(key, value): (&String, &String)| match key.as_str() {
            names::NEURON_ALLOC_TIME => (key.clone(), REDACTED.to_owned()),
            _ => (key.clone(), self.redaction.apply(value)),
        };
        pod.metadata.annotations.iter().flatten().map(shown).collect()
    }

    /// What every container that ran printed of itself.
    async fn reports(&self, pod: &Pod) -> anyhow::Result<BTreeMap<String, Report>> {
        let pods: Api<Pod> = Api::namespaced(self.cluster.client(), NAMESPACE);
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        // kubelet may drop the status of a container that ran, when it fails a pod that it cannot admit again.
        let mut reports = self.reports.of_pod(&uid);
        for container in statuses(pod).filter(|container| has_a_log(container)) {
            let run = (uid.clone(), container.name.clone(), container.restart_count);
            if let Some(report) = self.reports.get(&run) {
                reports.insert(container.name.clone(), report);
                continue;
            }
            let params = LogParams { container: Some(container.name.clone()), ..LogParams::default() };
            let log = pods
                .logs(name, &params)
                .await
                .with_context(|| format!("log of {name}/{}", container.name))?;
            // A container that has just started may not have printed yet; the next look finds it.
            if let Some(report) = log.lines().find_map(|line| serde_json::from_str::<Report>(line).ok()) {
                if let Some(wrong) = report.nodes.iter().find_map(DeviceNode::wrong) {
                    bail!("container {name}/{}: {wrong}", container.name);
                }
                let report = report.of_neuron();
                self.reports.add(run, &report);
                reports.insert(container.name.clone(), report);
            }
        }
        Ok(reports)
    }

    fn events_of<'e>(&'e self, pod: &'e Pod) -> impl Iterator<Item = &'e Event> {
        let about = move |event: &&Event| {
            event
                .regarding
                .as_ref()
                .is_some_and(|object| object.uid == pod.metadata.uid && object.name == pod.metadata.name)
        };
        self.events.iter().filter(about)
    }

    fn our_events(&self, pod: &Pod) -> Vec<String> {
        let ours = |event: &&Event| {
            event.reporting_controller.as_deref().is_some_and(|reporter| OUR_REPORTERS.contains(&reporter))
        };
        let text = |event: &Event| {
            let part = |text: &Option<String>| text.clone().unwrap_or_default();
            self.redaction.apply(&format!(
                "{} {}: {}",
                part(&event.type_),
                part(&event.reason),
                part(&event.note)
            ))
        };
        let mut texts: Vec<String> = self.events_of(pod).filter(ours).map(text).collect();
        texts.sort();
        texts.dedup();
        texts
    }

    fn failed_scheduling(&self, pod: &Pod) -> Option<String> {
        let failed = self.events_of(pod).filter(|event| event.reason.as_deref() == Some("FailedScheduling"));
        let version = |event: &&Event| {
            event.metadata.resource_version.as_ref().and_then(|text| text.parse::<u64>().ok())
        };
        let last = failed.max_by_key(version)?;
        let text = self.redaction.apply(last.note.as_deref().unwrap_or_default());
        Some(scheduling_text(&text, self.cluster.outside_reasons(), self.nodes))
    }
}

/// Why kubelet could not start a container of the pod, which the pod itself does not say.
fn not_started(status: &PodStatus) -> Option<String> {
    let containers = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    let ended = containers.filter_map(|container| container.state.as_ref()?.terminated.as_ref());
    let mut not_started = ended.filter(|ended| ended.reason.as_deref() == Some("StartError"));
    let message = not_started.next()?.message.as_deref().unwrap_or_default();
    Some(format!("StartError: {message}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_container_that_could_not_be_started_says_why_its_pod_failed() {
        let status = |reason: &str| {
            let ended = json!({"exitCode": 128, "reason": reason, "message": "context canceled"});
            let main = json!({"name": "main", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": {"terminated": ended}});
            serde_json::from_value::<PodStatus>(json!({"phase": "Failed", "containerStatuses": [main]}))
                .unwrap()
        };
        assert_eq!(not_started(&status("StartError")).as_deref(), Some("StartError: context canceled"));
        assert_eq!(not_started(&status("Error")), None, "its own exit code");
    }
}
