//! How a pod that asks for Neuron devices fares: why it waits for a node, what keeps it from running, why it failed.

use k8s_openapi::api::core::v1::{Event, Pod};
use neuron_core::names::Resource;
use neuron_core::pod::{BoundPod, PodSpec, PodStatus};
use neuron_core::request::{PodRequest, RequestError};
use serde::Serialize;
use serde::de::DeserializeOwned;

use neuron_e2e_engine::observe::{is_bound, phase};
use neuron_e2e_engine::outcome::redaction::without_preemption;

/// A pod without a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Waiting {
    /// The pod as `namespace/name`.
    pub pod: String,
    /// What it asks for, or why that cannot be read.
    pub asks: String,
    /// The scheduler it names.
    pub scheduler: String,
    /// Why it waits: what the extender last said of it, and its scheduler.
    pub why: Vec<String>,
}

/// A pod that kubelet failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failed {
    /// The pod as `namespace/name`.
    pub pod: String,
    /// The name of the node whose kubelet failed it.
    pub node: Option<String>,
    /// kubelet's reason and message.
    pub why: String,
}

/// The pods that ask for Neuron devices, live and have no node.
pub(super) fn waiting(pods: &[Pod]) -> impl Iterator<Item = &Pod> {
    pods.iter().filter(|pod| !is_bound(pod) && phase(pod) == "Pending" && asks(pod))
}

impl Waiting {
    pub(super) fn of(pod: &Pod, events: &[Event]) -> Self {
        let scheduler = pod.spec.as_ref().and_then(|spec| spec.scheduler_name.clone()).unwrap_or_default();
        let ours = last(pod, events, |event| event.reporting_component.as_deref() == Some("neuron-extender"));
        let failed = |event: &Event| event.reason.as_deref() == Some("FailedScheduling");
        let theirs = refusal(pod).or_else(|| last(pod, events, failed));
        let said = [ours, theirs].into_iter().flatten();
        let mut why: Vec<String> = said.map(|text| without_preemption(&text).to_owned()).collect();
        if why.is_empty() {
            why.push(format!("Scheduler {scheduler} has not said anything of it yet"));
        }
        Self { pod: full_name(pod), asks: requested(&request(pod)), scheduler, why }
    }
}

impl Failed {
    /// None if the pod has not failed, or by its own program.
    pub(super) fn of(pod: &Pod) -> Option<Self> {
        let status = pod.status.as_ref().filter(|_| phase(pod) == "Failed" && asks(pod))?;
        // A program that ended with an error leaves no reason on the pod.
        let reason = status.reason.clone()?;
        let why = status.message.as_ref().map_or(reason.clone(), |message| format!("{reason}: {message}"));
        Some(Self { pod: full_name(pod), node: pod.spec.as_ref()?.node_name.clone(), why })
    }
}

/// The pod as the rules of who holds what see it.
pub(super) fn bound(pod: &Pod) -> BoundPod {
    let meta = &pod.metadata;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    BoundPod::new(
        text(&meta.namespace),
        text(&meta.name),
        text(&meta.uid),
        meta.annotations.clone().unwrap_or_default(),
        &read::<PodSpec>(pod.spec.as_ref()),
        Some(&read::<PodStatus>(pod.status.as_ref())),
    )
}

/// `Running`, or what keeps a pod that has a node from that.
pub(super) fn state(pod: &Pod) -> String {
    if pod.metadata.deletion_timestamp.is_some() {
        return "ending".to_owned();
    }
    let containers = pod.status.iter().flat_map(|status| {
        let init = status.init_container_statuses.iter().flatten();
        init.chain(status.container_statuses.iter().flatten())
    });
    let mut stuck = containers
        .filter_map(|container| container.state.as_ref()?.waiting.as_ref()?.reason.as_deref())
        // Every container waits for these when it starts.
        .filter(|reason| !matches!(*reason, "ContainerCreating" | "PodInitializing"));
    match (stuck.next(), phase(pod)) {
        (Some(reason), _) => reason.to_owned(),
        (None, "Pending") => "starting".to_owned(),
        (None, phase) => phase.to_owned(),
    }
}

fn asks(pod: &Pod) -> bool {
    !request(pod).is_ok_and(|request| request.is_empty())
}

fn request(pod: &Pod) -> Result<PodRequest, RequestError> {
    PodRequest::of(&read(pod.spec.as_ref()))
}

fn requested(request: &Result<PodRequest, RequestError>) -> String {
    let request = match request {
        Ok(request) => request,
        Err(error) => return error.to_string(),
    };
    let part = |resource: Resource| {
        let (count, noun) = (request.total(resource), resource.noun());
        let plural = if count == 1 { "" } else { "s" };
        (count > 0).then(|| format!("{count} {noun}{plural}"))
    };
    Resource::ALL.into_iter().filter_map(part).collect::<Vec<_>>().join(" and ")
}

/// The parts of a Kubernetes object that our rules read.
fn read<T: DeserializeOwned + Default>(whole: Option<&impl Serialize>) -> T {
    let value = whole.and_then(|whole| serde_json::to_value(whole).ok());
    value.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default()
}

/// What the pod's own condition says of why it has no node.
fn refusal(pod: &Pod) -> Option<String> {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.find(|known| known.type_ == "PodScheduled" && known.status == "False")?.message.clone()
}

/// The last event on the pod that is meant.
fn last(pod: &Pod, events: &[Event], meant: impl Fn(&Event) -> bool) -> Option<String> {
    let here = events.iter().filter(|event| event.involved_object.uid == pod.metadata.uid && meant(event));
    let version = |event: &&Event| {
        event.metadata.resource_version.as_ref().and_then(|version| version.parse::<u64>().ok())
    };
    here.max_by_key(version)?.message.clone()
}

fn full_name(pod: &Pod) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    format!("{}/{}", text(&pod.metadata.namespace), text(&pod.metadata.name))
}
