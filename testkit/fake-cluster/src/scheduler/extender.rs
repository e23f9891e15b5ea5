//! One HTTP extender: when it is asked, what it is sent, and what its answers mean. Texts of errors are
//! kube-scheduler's (Go's), because they end in the pod's event.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use k8s_openapi::api::core::v1::{Container, Pod};
use serde::Serialize;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::cache::NodeView;
use super::config::ExtenderConfig;
use super::wire::{self, BindingArgs, ExtenderArgs, FilterResult, NodeList};

/// kube-scheduler's DefaultExtenderTimeout.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// A configured extender and its connections.
pub(super) struct Extender {
    config: ExtenderConfig,
    http: Client<HttpConnector, Full<Bytes>>,
}

/// Why a call gave no answer; the texts are kube-scheduler's.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExtenderError {
    #[error("Post {url:?}: context deadline exceeded (Client.Timeout exceeded while awaiting headers)")]
    NoHeaders { url: String },
    #[error("context deadline exceeded (Client.Timeout or context cancellation while reading body)")]
    NoBody,
    #[error("Post {url:?}: {cause}")]
    Transport { url: String, cause: String },
    #[error("failed {verb} with extender at URL {url}, code {code}")]
    Status { verb: String, url: String, code: u16 },
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    #[error("{0}")]
    Said(String),
    #[error("extender {url:?} claims a filtered node {node:?} which is not found in the input node list")]
    ForeignNode { url: String, node: String },
}

/// What filter left: the nodes that passed and the texts for those that did not.
pub(super) struct Filtered {
    pub(super) passed: Vec<NodeView>,
    pub(super) failed: BTreeMap<String, String>,
    pub(super) unresolvable: BTreeMap<String, String>,
}

impl Extender {
    pub(super) fn new(config: ExtenderConfig) -> Self {
        Self { config, http: Client::builder(TokioExecutor::new()).build_http() }
    }

    pub(super) fn is_ignorable(&self) -> bool {
        self.config.ignorable
    }

    pub(super) fn is_binder(&self) -> bool {
        self.config.bind_verb.is_some()
    }

    /// kube-scheduler's IsInterested: a managed resource in requests or limits of any container.
    pub(super) fn is_interested(&self, pod: &Pod) -> bool {
        let managed = &self.config.managed_resources;
        let asks = |container: &Container| {
            let resources = container.resources.clone().unwrap_or_default();
            let mut named = resources.requests.into_iter().chain(resources.limits).flatten();
            named.any(|(name, _)| managed.iter().any(|resource| resource.name == name))
        };
        let Some(spec) = &pod.spec else { return managed.is_empty() };
        managed.is_empty() || spec.containers.iter().chain(spec.init_containers.iter().flatten()).any(asks)
    }

    /// Asks which of `nodes` take the pod. A named node that was not asked about is an error.
    pub(super) async fn filter(&self, pod: &Pod, nodes: Vec<NodeView>) -> Result<Filtered, ExtenderError> {
        let Some(verb) = &self.config.filter_verb else {
            return Ok(Filtered { passed: nodes, failed: BTreeMap::new(), unresolvable: BTreeMap::new() });
        };
        let answer = FilterResult::decode(&self.send(verb, &self.args(pod, &nodes)).await?)?;
        if !answer.error.is_empty() {
            return Err(ExtenderError::Said(answer.error));
        }
        let names = if self.config.node_cache_capable { answer.node_names } else { None };
        let mut passed = Vec::new();
        for name in names.or(answer.nodes).unwrap_or_default() {
            let Some(view) = nodes.iter().find(|view| view.name == name) else {
                return Err(ExtenderError::ForeignNode { url: self.config.url_prefix.clone(), node: name });
            };
            passed.push(view.clone());
        }
        Ok(Filtered { passed, failed: answer.failed, unresolvable: answer.failed_and_unresolvable })
    }

    /// Scores by node, already times weight and times 10 (0..=100 per weight).
    pub(super) async fn prioritize(
        &self,
        pod: &Pod,
        nodes: &[NodeView],
    ) -> Result<Vec<(String, i64)>, ExtenderError> {
        let Some(verb) = &self.config.prioritize_verb else { return Ok(Vec::new()) };
        let scores = wire::decode_scores(&self.send(verb, &self.args(pod, nodes)).await?)?;
        let weighted = |score: i64| score.saturating_mul(self.config.weight).saturating_mul(10);
        Ok(scores.into_iter().map(|(node, score)| (node, weighted(score))).collect())
    }

    /// Asks the extender to bind the pod.
    pub(super) async fn bind(&self, args: &BindingArgs<'_>) -> Result<(), ExtenderError> {
        let verb = self.config.bind_verb.as_deref().unwrap_or_default();
        let error = wire::decode_error(&self.send(verb, args).await?)?;
        if error.is_empty() { Ok(()) } else { Err(ExtenderError::Said(error)) }
    }

    fn args(&self, pod: &Pod, nodes: &[NodeView]) -> ExtenderArgs {
        let names = || nodes.iter().map(|view| view.name.clone()).collect();
        let by_name = self.config.node_cache_capable;
        ExtenderArgs {
            pod: wire::pod_json(pod),
            nodes: (!by_name).then(|| NodeList::of(nodes.iter().map(|view| view.node.as_ref()))),
            node_names: by_name.then(names),
        }
    }

    async fn send(&self, verb: &str, body: &impl Serialize) -> Result<Value, ExtenderError> {
        let limit = self.config.http_timeout;
        let deadline = Instant::now() + if limit.is_zero() { DEFAULT_TIMEOUT } else { limit };
        let url = format!("{}/{verb}", self.config.url_prefix.trim_end_matches('/'));
        let transport = |cause: String| ExtenderError::Transport { url: url.clone(), cause };
        let request = Request::builder()
            .method(Method::POST)
            .uri(&url)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, "Go-http-client/1.1")
            .body(Full::new(Bytes::from(serde_json::to_vec(body)?)))
            .map_err(|error| transport(error.to_string()))?;
        let response = timeout_at(deadline, self.http.request(request))
            .await
            .map_err(|_| ExtenderError::NoHeaders { url: url.clone() })?
            .map_err(|error| transport(go_cause(&error, &url)))?;
        if response.status() != StatusCode::OK {
            let code = response.status().as_u16();
            return Err(ExtenderError::Status { verb: verb.to_owned(), url, code });
        }
        let body = timeout_at(deadline, response.into_body().collect())
            .await
            .map_err(|_| ExtenderError::NoBody)?
            .map_err(|_| ExtenderError::Said("unexpected EOF".into()))?
            .to_bytes();
        // Go's decoder reads the first value of the body and leaves the rest.
        let mut values = serde_json::Deserializer::from_slice(&body).into_iter::<Value>();
        values.next().unwrap_or_else(|| Err(serde::de::Error::custom("EOF"))).map_err(ExtenderError::from)
    }
}

/// The innermost cause in Go's words where a test is likely to meet it.
fn go_cause(error: &hyper_util::client::legacy::Error, url: &str) -> String {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        if let Some(io) = source.downcast_ref::<std::io::Error>()
            && io.kind() == std::io::ErrorKind::ConnectionRefused
        {
            let host = url.split('/').nth(2).unwrap_or_default();
            return format!("dial tcp {host}: connect: connection refused");
        }
        innermost = source;
    }
    if error.is_connect() { innermost.to_string() } else { "EOF".to_owned() }
}
