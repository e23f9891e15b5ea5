//! Kubernetes events about pods and the node. An event that cannot be written is logged, and nothing waits for it.
//! Written by `allocation` (refusals), `report` (corrections) and `kubelet` (registrations).

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use neuron_core::pod::BoundPod;

/// Writes events (events.k8s.io/v1).
#[derive(Clone)]
pub struct Events {
    client: Client,
    node: String,
    timeout: Duration,
}

impl Events {
    /// Events of the device plugin on `node`.
    pub fn new(client: Client, node: &str, timeout: Duration) -> Self {
        Events { client, node: node.to_owned(), timeout }
    }

    /// A record was corrected to what kubelet gave the pod.
    pub async fn corrected(&self, pod: &BoundPod, note: String) {
        self.write(EventType::Normal, "AllocationCorrected", "Correct", note, pod_reference(pod)).await;
    }

    /// An Allocate was refused. The event is about the pod, or about the node if the pod is not known.
    pub async fn refused(&self, pod: Option<ObjectReference>, note: String) {
        let about = pod.unwrap_or_else(|| self.node_reference());
        self.write(EventType::Warning, "AllocationRefused", "Allocate", note, about).await;
    }

    /// kubelet refused a registration because it still held the path of the socket.
    pub async fn already_connected(&self, note: String) {
        let about = self.node_reference();
        self.write(EventType::Warning, "NeuronPluginAlreadyConnected", "Register", note, about).await;
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

    async fn write(
        &self,
        type_: EventType,
        reason: &str,
        action: &str,
        note: String,
        about: ObjectReference,
    ) {
        // The API server refuses notes above 1,024 bytes.
        let note: String = note.chars().take(1000).collect();
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(note),
            action: action.to_owned(),
            secondary: None,
        };
        // A shared recorder counts events of one reason as repetitions of the first and drops the later notes.
        let reporter =
            Reporter { controller: "neuron-device-plugin".to_owned(), instance: Some(self.node.clone()) };
        let recorder = Recorder::new(self.client.clone(), reporter);
        let error = match tokio::time::timeout(self.timeout, recorder.publish(&event, &about)).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {:?}", self.timeout),
        };
        tracing::warn!(node = %self.node, event = reason, reason = %error, "an event could not be written");
    }
}

/// The pod that an event is about.
pub fn pod_reference(pod: &BoundPod) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(pod.namespace.clone()),
        name: Some(pod.name.clone()),
        uid: Some(pod.uid.clone()),
        ..ObjectReference::default()
    }
}
