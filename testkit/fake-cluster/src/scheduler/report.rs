//! What users read about a pod: events.k8s.io/v1 events and the PodScheduled condition. One task writes them in order, so
//! that a slow API server does not delay scheduling.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::choose_node::diagnosis::cut_note;
use crate::clock::{Clock, rfc3339};

/// Where the scheduling loop leaves its reports, and the watch says which pods are gone.
pub(crate) type Reports = UnboundedSender<Message>;

/// What the task is told.
pub(crate) enum Message {
    Write(Report),
    /// The pod of this UID is gone; nothing more is reported of it.
    Gone(String),
}

/// One event and, for failures, the condition that goes with it.
pub(crate) struct Report {
    pod: Arc<Pod>,
    /// Another pod that it is about, too.
    related: Option<Arc<Pod>>,
    at: Timestamp,
    type_: &'static str,
    reason: &'static str,
    action: &'static str,
    note: String,
    /// The condition's reason and message.
    condition: Option<(&'static str, String)>,
}

impl Report {
    /// `Successfully assigned ns/pod to node`.
    pub(crate) fn scheduled(pod: Arc<Pod>, node: &str, at: Timestamp) -> Self {
        let namespace = pod.namespace().unwrap_or_default();
        let note = format!("Successfully assigned {namespace}/{} to {node}", pod.name_any());
        let (reason, action) = ("Scheduled", "Binding");
        Self { pod, related: None, at, type_: "Normal", reason, action, note, condition: None }
    }

    /// No node takes the pod: FailedScheduling and PodScheduled=False, reason Unschedulable.
    pub(crate) fn unschedulable(pod: Arc<Pod>, message: String, at: Timestamp) -> Self {
        Self::failed(pod, "Unschedulable", message, at)
    }

    /// Scheduling or binding failed: FailedScheduling and PodScheduled=False, reason SchedulerError.
    pub(crate) fn error(pod: Arc<Pod>, message: String, at: Timestamp) -> Self {
        Self::failed(pod, "SchedulerError", message, at)
    }

    /// The pod is ended for another one: `Preempted by pod UID on node NODE`.
    pub(crate) fn preempted(pod: Arc<Pod>, by: &Arc<Pod>, node: &str, at: Timestamp) -> Self {
        let note = format!("Preempted by pod {} on node {node}", by.uid().unwrap_or_default());
        let (related, reason, action) = (Some(Arc::clone(by)), "Preempted", "Preempting");
        Self { pod, related, at, type_: "Normal", reason, action, note, condition: None }
    }

    /// The pod is being deleted and is left alone.
    pub(crate) fn skipped(pod: Arc<Pod>, at: Timestamp) -> Self {
        let namespace = pod.namespace().unwrap_or_default();
        let note = format!("skip schedule deleting pod: {namespace}/{}", pod.name_any());
        Self { condition: None, ..Self::failed(pod, "", note, at) }
    }

    fn failed(pod: Arc<Pod>, reason: &'static str, message: String, at: Timestamp) -> Self {
        Self {
            pod,
            related: None,
            at,
            type_: "Warning",
            reason: "FailedScheduling",
            action: "Scheduling",
            note: cut_note(&message),
            condition: Some((reason, message)),
        }
    }
}

/// Writes reports until the sender is gone. `scheduler` is the reporting controller.
pub(crate) async fn write(
    client: kube::Client,
    clock: Clock,
    scheduler: String,
    mut messages: UnboundedReceiver<Message>,
) {
    let mut writer = Writer { client, clock, scheduler, last: BTreeMap::new(), written: 0 };
    while let Some(message) = messages.recv().await {
        let report = match message {
            Message::Write(report) => report,
            Message::Gone(uid) => {
                writer.last.remove(&uid);
                continue;
            }
        };
        writer.event(&report).await;
        if let Some((reason, message)) = &report.condition {
            writer.condition(&report, reason, message).await;
        }
    }
}

fn reference(pod: &Pod) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        name: pod.metadata.name.clone(),
        namespace: pod.namespace(),
        uid: pod.uid(),
        resource_version: pod.resource_version(),
        ..ObjectReference::default()
    }
}

struct Writer {
    client: kube::Client,
    clock: Clock,
    scheduler: String,
    /// The pod's resourceVersion and the note of the last event, by pod UID. The same note about the same version makes no
    /// new object: kube-scheduler folds it into a series.
    last: BTreeMap<String, (Option<String>, String)>,
    written: i128,
}

impl Writer {
    async fn event(&mut self, report: &Report) {
        let pod = &report.pod;
        let event = (pod.resource_version(), report.note.clone());
        if self.last.insert(pod.uid().unwrap_or_default(), event.clone()).as_ref() == Some(&event) {
            return;
        }
        // The name's suffix is the time; while the clock stands still, only the count tells events apart.
        self.written += 1;
        let namespace = pod.namespace().unwrap_or_default();
        let event = Event {
            metadata: ObjectMeta {
                name: Some(format!("{}.{:x}", pod.name_any(), report.at.as_nanosecond() + self.written)),
                namespace: Some(namespace.clone()),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(report.at)),
            reporting_controller: Some(self.scheduler.clone()),
            reporting_instance: Some(format!("{}-fake-cluster", self.scheduler)),
            action: Some(report.action.to_owned()),
            reason: Some(report.reason.to_owned()),
            type_: Some(report.type_.to_owned()),
            note: Some(report.note.clone()),
            regarding: Some(reference(pod)),
            related: report.related.as_deref().map(reference),
            ..Event::default()
        };
        let events: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        if let Err(error) = events.create(&PostParams::default(), &event).await {
            tracing::debug!(pod = %pod.name_any(), %error, "the event was not written");
        }
    }

    /// Patches the condition if its reason or message is new.
    async fn condition(&self, report: &Report, reason: &str, message: &str) {
        let pod = &report.pod;
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref());
        let known = conditions.unwrap_or_default().iter().find(|condition| condition.type_ == "PodScheduled");
        let same = |text: &Option<String>, new: &str| text.as_deref().unwrap_or("") == new;
        if known.is_some_and(|condition| {
            condition.status == "False"
                && same(&condition.reason, reason)
                && same(&condition.message, message)
        }) {
            return;
        }
        let since = known.filter(|condition| condition.status == "False");
        let since = since.and_then(|condition| condition.last_transition_time.clone()).map(|time| time.0);
        let patch = json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [{
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastProbeTime": null,
            "lastTransitionTime": rfc3339(since.unwrap_or_else(|| self.clock.now())),
        }]}});
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
        let (name, patch) = (pod.name_any(), Patch::Strategic(patch));
        if let Err(error) = pods.patch_status(&name, &PatchParams::default(), &patch).await {
            tracing::debug!(pod = %name, %error, "the PodScheduled condition was not written");
        }
    }
}
