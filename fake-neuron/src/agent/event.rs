//! The event that tells a pod that nobody answers it any more. Sent by `fake-neuron agent`.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::ObjectMeta;

use super::Container;

/// The event (events.k8s.io/v1) about the pod of a container on `node` that nobody answers any more, at this time; `why` follows a colon.
pub fn lost_event(container: &Container, why: &str, node: &str, time: Timestamp) -> Event {
    let note = format!(
        "Each open and ioctl of container {} fails with ENOSYS. Delete the pod. No fake-neuron agent answers it: {why}",
        container.name
    );
    Event {
        metadata: ObjectMeta {
            // The API server refuses a beginning that ends in a dot.
            generate_name: Some(format!("{}-", container.pod)),
            namespace: Some(container.namespace.clone()),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(time)),
        reporting_controller: Some("fake-neuron-agent".to_owned()),
        reporting_instance: Some(node.to_owned()),
        action: Some("Answer".to_owned()),
        reason: Some("NeuronIoctlsLost".to_owned()),
        regarding: Some(ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(container.namespace.clone()),
            name: Some(container.pod.clone()),
            uid: Some(container.pod_uid.clone()),
            ..ObjectReference::default()
        }),
        note: Some(note),
        type_: Some("Warning".to_owned()),
        ..Event::default()
    }
}
