//! The two API calls of a bind: the Binding itself, and the look at the pod where its outcome is not clear.
//! Called by the binder.

mod protobuf;

use std::collections::BTreeMap;

use axum::http::{HeaderValue, header};
use kube::api::PostParams;
use kube::core::{Request, Resource as _, Status};
use kube::{Api, Client};
use neuron_core::pod::BoundPod;
use tokio::time::{Instant, timeout_at};

use crate::objects::ApiPod;

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
    pub(crate) annotations: BTreeMap<String, String>,
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
    let pods = Request::new(ApiPod::url_path(&(), Some(&order.namespace)));
    let body = protobuf::binding(order);
    let mut request = match pods.create_subresource("binding", &order.name, &PostParams::default(), body) {
        Ok(request) => request,
        Err(error) => return Outcome::Refused(error.to_string()),
    };
    request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(protobuf::CONTENT_TYPE));
    // kube repeats a request that meets 429, 503 or 504 by itself, for many minutes: the deadline ends that.
    let call = client.request::<Status>(request);
    match timeout_at(until, call).await {
        Ok(Ok(_)) => Outcome::Bound,
        Ok(Err(kube::Error::Api(status))) => match status.code {
            409 => Outcome::Conflict(status.message),
            400..500 if status.code != 408 => Outcome::Refused(status.message),
            _ => Outcome::Unclear(status.message),
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
    let api = pods(client, namespace);
    let pod = match timeout_at(until, api.get_opt(name)).await {
        Ok(Ok(Some(pod))) => pod,
        Ok(Ok(None)) => return Ok(None),
        Ok(Err(kube::Error::Api(status))) => return Err(status.message),
        Ok(Err(error)) => return Err(error.to_string()),
        Err(_) => return Err("the API server did not answer in time".to_owned()),
    };
    let metadata = pod.metadata;
    let kept = BoundPod::new(
        namespace,
        name,
        &metadata.uid.unwrap_or_default(),
        &metadata.annotations.unwrap_or_default(),
        &pod.spec,
        pod.status.as_ref(),
    );
    Ok(Some(LivePod { node: pod.spec.node_name.filter(|node| !node.is_empty()), pod: kept }))
}

fn pods(client: &Client, namespace: &str) -> Api<ApiPod> {
    Api::namespaced(client.clone(), namespace)
}
