//! The two API calls of a bind: the Binding itself, and the read of the pod where the Binding's outcome is not known.
//! Called by the binder.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::{HeaderValue, header};
use k8s_openapi::api::core::v1;
use kube::Client;
use kube::api::{GetParams, PostParams};
use kube::core::{Request, Resource as _};
use neuron_core::pod::BoundPod;
use runtime::protobuf::{MEDIA_TYPE, wrap};
use runtime::{CallError, Protobuf, reached};
use tokio::time::{Instant, timeout_at};

use crate::index::ObservedPod;
use crate::protobuf::messages::{Binding, ObjectMeta, ObjectReference, Pod};

/// Which pod goes where.
#[derive(Clone, Debug)]
pub(super) struct BindingRequest {
    /// The pod's namespace.
    pub(super) namespace: String,
    /// The pod's name.
    pub(super) name: String,
    /// Another pod of the same name is never bound.
    pub(super) uid: String,
    /// The node to bind it to.
    pub(super) node: String,
    /// The allocation record; empty for a pod without Neuron hardware.
    pub(super) annotations: Arc<BTreeMap<String, String>>,
}

/// What became of a Binding.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The pod is bound, with its record.
    Bound,
    /// The API server did nothing, for this reason.
    Refused(String),
    /// The pod was bound or deleted before.
    Conflict(String),
    /// Perhaps the pod is bound, perhaps not, perhaps it will be.
    Unknown(String),
}

/// A pod as it is now.
#[derive(Debug)]
pub(super) struct LivePod {
    /// The node it is bound to.
    pub(super) node: Option<String>,
    /// The device models that its author wants, as written; not known of a pod that the watch shows bound.
    pub(super) device_model: Option<String>,
    /// What it asks for and holds.
    pub(super) pod: Arc<BoundPod>,
}

/// Writes record and binding in one request, with the pod's UID as a precondition.
pub(super) async fn post(client: &Client, binding: &BindingRequest, until: Instant) -> Outcome {
    let (pods, body) = (pods(&binding.namespace), body(binding));
    let mut request = match pods.create_subresource("binding", &binding.name, &PostParams::default(), body) {
        Ok(request) => request,
        Err(error) => return Outcome::Refused(error.to_string()),
    };
    request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    // The next leader must not meet it, whether or not anybody can tell the API server that this one is gone.
    runtime::end_after(&mut request, until.saturating_duration_since(Instant::now()));
    // kube repeats a request that meets 429, 503 or 504 by itself, for many minutes: the deadline ends that.
    match timeout_at(until, runtime::write(client, request, MEDIA_TYPE)).await {
        Ok(Ok(())) => Outcome::Bound,
        Ok(Err(CallError::Status { code, message })) => match code {
            409 => Outcome::Conflict(message),
            400..500 if code != 408 => Outcome::Refused(message),
            _ => Outcome::Unknown(message),
        },
        Ok(Err(error)) => Outcome::Unknown(error.to_string()),
        Err(_) => {
            reached("extender: binding not answered in time");
            Outcome::Unknown(CallError::NotAnswered.to_string())
        }
    }
}

/// The pod of this name, whatever its UID; `None` if there is none.
///
/// # Errors
/// Why it could not be read.
pub(super) async fn read(
    client: &Client,
    namespace: &str,
    name: &str,
    until: Instant,
) -> Result<Option<LivePod>, String> {
    let request = pods(namespace).get(name, &GetParams::default()).map_err(|error| error.to_string())?;
    match timeout_at(until, runtime::read::<Pod, _>(client, request, &Protobuf)).await {
        Ok(Ok(pod)) => {
            let ObservedPod { node, device_model, pod, .. } = pod.into();
            Ok(Some(LivePod { node: node.map(|node| node.to_string()), device_model, pod }))
        }
        Ok(Err(CallError::Status { code: 404, .. })) => Ok(None),
        Ok(Err(CallError::Status { message, .. })) => Err(message),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => {
            reached("extender: pod not read in time");
            Err(CallError::NotAnswered.to_string())
        }
    }
}

fn pods(namespace: &str) -> Request {
    Request::new(v1::Pod::url_path(&(), Some(namespace)))
}

/// The Binding in protobuf: to read one with a record as JSON takes the API server 0.08 ms (docs/performance.md).
fn body(binding: &BindingRequest) -> Vec<u8> {
    let BindingRequest { namespace, name, uid, node, annotations } = binding.clone();
    // Planted: whatever pod has the name by then is bound.
    #[cfg(planted)]
    let uid = if runtime::is_planted("binding-without-uid") { String::new() } else { uid };
    let bytes = |(key, value): (&String, &String)| (key.clone(), value.clone().into_bytes());
    let annotations = annotations.iter().map(bytes).collect();
    let metadata = ObjectMeta { name, namespace, uid, annotations, ..ObjectMeta::default() };
    let target = ObjectReference { kind: "Node".to_owned(), name: node, api_version: "v1".to_owned() };
    wrap("Binding", &Binding { metadata, target })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binding_is_what_the_api_server_reads() {
        let binding = BindingRequest {
            namespace: "d".to_owned(),
            name: "p".to_owned(),
            uid: "u".to_owned(),
            node: "n".to_owned(),
            annotations: Arc::new(BTreeMap::from([("a".to_owned(), "1".to_owned())])),
        };
        // Each field is its number and kind in a byte (2: so many bytes follow), its length, and itself.
        let wanted = [
            b"k8s\0".as_slice(),
            b"\x0a\x0d\x0a\x02v1\x12\x07Binding",
            b"\x12\x22",
            b"\x0a\x11\x0a\x01p\x1a\x01d\x2a\x01u\x62\x06\x0a\x01a\x12\x011",
            b"\x12\x0d\x0a\x04Node\x1a\x01n\x2a\x02v1",
        ];
        assert_eq!(body(&binding), wanted.concat());
    }
}
