//! The two API calls of a bind: the Binding itself, and the look at the pod where its outcome is not clear.
//! Called by the binder.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::{HeaderValue, header};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{GetParams, PostParams};
use kube::core::{Request, Resource as _};
use neuron_core::pod::BoundPod;
use runtime::protobuf::{MEDIA_TYPE, wrap};
use runtime::{CallError, Protobuf};
use tokio::time::{Instant, timeout_at};

use crate::index::SeenPod;
use crate::protobuf::messages::{self, Binding, ObjectMeta, ObjectReference};
use crate::protobuf::seen_pod;

/// Which pod goes where; `annotations` are empty for a pod without Neuron hardware.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// Namespace of the pod.
    pub(crate) namespace: String,
    /// Name of the pod.
    pub(crate) name: String,
    /// UID of the pod: another pod of the same name is never bound.
    pub(crate) uid: String,
    /// The node.
    pub(crate) node: String,
    /// The allocation record.
    pub(crate) annotations: Arc<BTreeMap<String, String>>,
}

/// What became of a Binding.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The pod is bound, with its record.
    Bound,
    /// The API server did nothing; why.
    Refused(String),
    /// The pod was bound or deleted before; why.
    Conflict(String),
    /// Perhaps it is bound, perhaps not, perhaps it will be; why that is not known.
    Unclear(String),
}

/// A pod as the API server has it now.
#[derive(Debug)]
pub(crate) struct LivePod {
    /// The node it is bound to.
    pub(crate) node: Option<String>,
    /// What is kept of it.
    pub(crate) pod: BoundPod,
}

/// Writes record and binding in one request, with the pod's UID as a precondition.
pub(crate) async fn post(client: &Client, order: &Order, until: Instant) -> Outcome {
    let body = body(order);
    let mut request =
        match pods(&order.namespace).create_subresource("binding", &order.name, &PostParams::default(), body)
        {
            Ok(request) => request,
            Err(error) => return Outcome::Refused(error.to_string()),
        };
    request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    // kube repeats a request that meets 429, 503 or 504 by itself, for many minutes: the deadline ends that.
    match timeout_at(until, runtime::write(client, request, MEDIA_TYPE)).await {
        Ok(Ok(())) => Outcome::Bound,
        Ok(Err(CallError::Status { code, message })) => match code {
            409 => Outcome::Conflict(message),
            400..500 if code != 408 => Outcome::Refused(message),
            _ => Outcome::Unclear(message),
        },
        Ok(Err(error)) => Outcome::Unclear(error.to_string()),
        Err(_) => Outcome::Unclear("the API server did not answer in time".to_owned()),
    }
}

/// The pod of this name, whatever its UID; `None` if there is none. An error says why it could not be read.
pub(crate) async fn read(
    client: &Client,
    namespace: &str,
    name: &str,
    until: Instant,
) -> Result<Option<LivePod>, String> {
    let request = match pods(namespace).get(name, &GetParams::default()) {
        Ok(request) => request,
        Err(error) => return Err(error.to_string()),
    };
    match timeout_at(until, runtime::read(client, request, &Protobuf)).await {
        Ok(Ok(pod)) => {
            let pod: messages::Pod = pod;
            let SeenPod { node, pod, .. } = seen_pod(pod);
            Ok(Some(LivePod { node, pod }))
        }
        Ok(Err(CallError::Status { code: 404, .. })) => Ok(None),
        Ok(Err(CallError::Status { message, .. })) => Err(message),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the API server did not answer in time".to_owned()),
    }
}

fn pods(namespace: &str) -> Request {
    Request::new(Pod::url_path(&(), Some(namespace)))
}

/// The Binding in protobuf: to read one with a record as JSON takes the API server 0.08 ms (docs/performance.md).
fn body(order: &Order) -> Vec<u8> {
    let Order { namespace, name, uid, node, annotations } = order.clone();
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
        let order = Order {
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
        assert_eq!(body(&order), wanted.concat());
    }
}
