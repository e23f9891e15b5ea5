//! What users read of the plugin: events on pods and on the node. An event that cannot be written is logged; nothing
//! waits for it.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use neuron_core::pod::BoundPod;

/// Writes events (events.k8s.io/v1).
#[derive(Clone)]
pub struct Voice {
    client: Client,
    node: String,
    deadline: Duration,
}

impl Voice {
    /// Speaks as the device plugin of `node`.
    pub fn new(client: Client, node: &str, deadline: Duration) -> Self {
        Voice { client, node: node.to_owned(), deadline }
    }

    /// A pod's record was made to say what kubelet gave it.
    pub async fn corrected(&self, pod: &BoundPod, note: String) {
        self.say(EventType::Normal, "AllocationCorrected", "Correct", note, pod_reference(pod)).await;
    }

    /// An Allocate was refused; on the pod it was for, or on the node if that is not known.
    pub async fn refused(&self, pod: Option<ObjectReference>, note: String) {
        let node = || ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(self.node.clone()),
            uid: Some(self.node.clone()),
            ..ObjectReference::default()
        };
        let about = pod.unwrap_or_else(node);
        self.say(EventType::Warning, "AllocationRefused", "Allocate", note, about).await;
    }

    async fn say(&self, type_: EventType, reason: &str, action: &str, note: String, about: ObjectReference) {
        // The API server refuses notes above 1,024 bytes.
        let note: String = note.chars().take(1000).collect();
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(note),
            action: action.to_owned(),
            secondary: None,
        };
        // A recorder of its own for each event: one that is shared counts events of one reason as repetitions of the
        // first and drops the later notes.
        let reporter =
            Reporter { controller: "neuron-device-plugin".to_owned(), instance: Some(self.node.clone()) };
        let recorder = Recorder::new(self.client.clone(), reporter);
        match tokio::time::timeout(self.deadline, recorder.publish(&event, &about)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!("event {reason} could not be written: {error}"),
            Err(_) => tracing::warn!("event {reason} could not be written within {:?}", self.deadline),
        }
    }
}

/// How events point at a pod.
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
