//! Kubernetes events about pods and the node. An event that cannot be written is logged, and nothing waits for it.
//! Written by `allocation` (refusals), `report` (corrections), `kubelet` (registrations) and `hardware` (health).

mod limit;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use neuron_core::pod::BoundPod;
use runtime::{System, event_name, reached};
use tokio::time::Instant;

use self::limit::EventLimit;

/// Who writes the events.
const REPORTER: &str = "neuron-device-plugin";

/// Writes events (events.k8s.io/v1).
#[derive(Clone)]
pub struct Events {
    system: System,
    client: Client,
    node: String,
    timeout: Duration,
    limit: Arc<Mutex<EventLimit>>,
}

impl Events {
    /// Events of the device plugin on `node`.
    pub fn new(system: System, client: Client, node: &str, timeout: Duration) -> Self {
        Events { system, client, node: node.to_owned(), timeout, limit: Arc::default() }
    }

    /// A record was corrected to what kubelet gave the pod.
    pub async fn corrected(&self, pod: &BoundPod, note: String) {
        self.write("Normal", "AllocationCorrected", "Correct", note, pod_reference(pod)).await;
    }

    /// An Allocate was refused. The event is about the pod, or about the node if the pod is not known.
    pub async fn refused(&self, pod: Option<ObjectReference>, note: String) {
        let about = pod.unwrap_or_else(|| self.node_reference());
        self.write("Warning", "AllocationRefused", "Allocate", note, about).await;
    }

    /// Devices were given to a pod that a process of a gone pod has open. The event is about the pod, or about the node if the pod is
    /// not known.
    pub async fn still_open(&self, pod: Option<ObjectReference>, note: String) {
        let about = pod.unwrap_or_else(|| self.node_reference());
        self.write("Warning", "NeuronDeviceStillOpen", "Allocate", note, about).await;
    }

    /// kubelet refused a registration because it still held the path of the socket.
    pub async fn already_connected(&self, note: String) {
        let about = self.node_reference();
        self.write("Warning", "NeuronPluginAlreadyConnected", "Register", note, about).await;
    }

    /// kubelet's checkpoint cannot be read.
    pub async fn checkpoint_unreadable(&self, note: String) {
        let about = self.node_reference();
        self.write("Warning", "NeuronCheckpointUnreadable", "Allocate", note, about).await;
    }

    /// Devices have become unhealthy, healthy again, or their health is not known.
    pub async fn health_changed(&self, note: String) {
        let about = self.node_reference();
        let is_well = !note.contains(" is unhealthy: ") && !note.contains(" is served: ");
        let (severity, reason) =
            if is_well { ("Normal", "NeuronDeviceHealthy") } else { ("Warning", "NeuronDeviceHealth") };
        self.write(severity, reason, "Watch", note, about).await;
    }

    fn limit(&self) -> MutexGuard<'_, EventLimit> {
        self.limit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn node_reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(self.node.clone()),
            uid: Some(self.node.clone()),
            ..ObjectReference::default()
        }
    }

    async fn write(&self, severity: &str, reason: &str, action: &str, note: String, about: ObjectReference) {
        let uid = about.uid.clone().unwrap_or_default();
        if !self.limit().admits(&uid, reason, &note, Instant::now()) {
            reached("plugin: event left out");
            tracing::debug!(node = %self.node, event = reason, note, "an event is left out: there were the same or many of late");
            return;
        }
        let namespace = about.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let event = self.event(severity, reason, action, note.clone(), about);
        let events: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        let params = PostParams::default();
        let error = match tokio::time::timeout(self.timeout, events.create(&params, &event)).await {
            Ok(Ok(_)) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {:?}", self.timeout),
        };
        reached("plugin: event not written");
        self.limit().failed(&uid, reason, &note);
        tracing::warn!(node = %self.node, event = reason, reason = %error, "an event could not be written");
    }

    /// One event each time: a series would count those of one reason as repetitions of the first, and drop the later notes.
    fn event(
        &self,
        severity: &str,
        reason: &str,
        action: &str,
        note: String,
        about: ObjectReference,
    ) -> Event {
        let name = about.name.as_deref().unwrap_or(&self.node);
        Event {
            metadata: ObjectMeta {
                name: Some(event_name(name, self.system.random())),
                namespace: about.namespace.clone(),
                ..ObjectMeta::default()
            },
            // A clock beyond the year 9999 gives no time.
            event_time: Timestamp::try_from(self.system.now()).ok().map(MicroTime),
            type_: Some(severity.to_owned()),
            reason: Some(reason.to_owned()),
            action: Some(action.to_owned()),
            // The API server refuses notes above 1,024 bytes.
            note: Some(note.chars().take(1000).collect()),
            reporting_controller: Some(REPORTER.to_owned()),
            reporting_instance: Some(self.node.clone()),
            regarding: Some(about),
            ..Event::default()
        }
    }
}

/// The pod that an event is about.
pub fn pod_reference(pod: &BoundPod) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(pod.namespace().to_owned()),
        name: Some(pod.name().to_owned()),
        uid: Some(pod.uid.to_string()),
        ..ObjectReference::default()
    }
}
