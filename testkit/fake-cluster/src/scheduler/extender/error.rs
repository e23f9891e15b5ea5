//! Why a call to an extender gave no answer, in kube-scheduler's (Go's) words, because they end in the pod's event.

use hyper_util::client::legacy;

/// Why a call gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExtenderError {
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
    /// The error that the extender answered, or Go's text for a body that ends too early.
    #[error("{0}")]
    Answered(String),
    /// Go prints where the UID is as well.
    #[error(
        "extender: {url} claims to preempt pod (UID: &{{{uid}}}) on node: {node}, but the pod is not found on that node"
    )]
    UnknownVictim { url: String, uid: String, node: String },
    #[error("nodeinfo not found for node name {node:?}")]
    NoNodeInfo { node: String },
    #[error("extender {url:?} claims a filtered node {node:?} which is not found in the input node list")]
    UnknownNode { url: String, node: String },
}

/// The innermost cause, in Go's words for the causes that a test is likely to meet.
pub(super) fn go_cause(error: &legacy::Error, url: &str) -> String {
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
