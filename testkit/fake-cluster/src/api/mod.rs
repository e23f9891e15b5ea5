//! The in-memory Kubernetes API server that tests and fake components talk to, through kube or over HTTP.
//!
//! It serves pods, nodes, namespaces, events (core and events.k8s.io) and leases as Kubernetes 1.34 does, with
//! the same texts and codes. Left out: field ownership, dry runs, finalizers, deletion of namespaces and of
//! collections, and pages of lists (`limit` is read as "everything", which Kubernetes allows). Protobuf is answered for
//! pods and nodes, with the fields that Neuron's components read; for others, where nothing else is accepted, 406.

mod binding;
mod deletion;
mod error;
mod event;
mod object;
mod patch;
mod pod;
mod protobuf;
mod read;
mod reply;
mod resource;
mod resources;
mod routes;
mod selector;
mod store;
mod watch;
mod write;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use store::{Key, Store};

/// An API server whose objects live in memory. Clones share the objects.
#[derive(Clone, Debug)]
pub struct ApiServer {
    clock: Clock,
    store: Arc<Store>,
}

impl ApiServer {
    /// A server with the namespaces that every cluster has (`default`, `kube-system`, `kube-public`,
    /// `kube-node-lease`) and nothing else.
    pub fn new(clock: Clock) -> Self {
        let server = Self { clock, store: Arc::new(Store::new()) };
        for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            let namespace = json!({"metadata": {"name": name}, "spec": {"finalizers": ["kubernetes"]}});
            let mut state = server.store.lock();
            // A new store has no namespace of these names, so this cannot be refused.
            let _ = write::insert_new(&server, &mut state, &resource::NAMESPACES, "", namespace);
        }
        server
    }

    /// The clock that every timestamp comes from.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// A client that talks to this server without a socket. Its default namespace is `default`. Must be called
    /// inside a tokio runtime.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.router(), "default")
    }

    /// The server as an axum router, for a kube client or a listener.
    pub fn router(&self) -> Router {
        routes::router(self, &CancellationToken::new())
    }

    /// Serves HTTP on `listener` until `shutdown`, which also ends the watches opened through it.
    pub async fn serve(self, listener: TcpListener, shutdown: CancellationToken) {
        let router = routes::router(&self, &shutdown);
        if let Err(error) =
            axum::serve(listener, router).with_graceful_shutdown(shutdown.cancelled_owned()).await
        {
            tracing::error!(%error, "the fake API server stopped listening");
        }
    }

    /// Forgets the past: a watch that starts from an earlier resourceVersion than the newest now gets 410 Gone.
    /// Open watches go on.
    pub fn compact(&self) {
        self.store.lock().compact();
    }

    /// With `false` every request is answered 503 and open watches end, until called with `true`.
    pub fn set_available(&self, available: bool) {
        self.store.set_available(available);
    }

    /// Stores the whole text that `GET .../pods/{pod}/log?container={container}` answers. Goes away with the pod.
    pub fn set_log(&self, namespace: &str, pod: &str, container: &str, text: &str) {
        self.store.lock().set_log(Key::new(namespace, pod), container, text);
    }

    /// Now, as Kubernetes writes times: RFC 3339 in UTC, in whole seconds.
    fn timestamp(&self) -> String {
        self.timestamp_after(Duration::ZERO)
    }

    /// The time `span` from now, in whole seconds.
    fn timestamp_after(&self, span: Duration) -> String {
        let later =
            SignedDuration::try_from(span).ok().and_then(|span| self.clock.now().checked_add(span).ok());
        let seconds = later.unwrap_or(Timestamp::MAX).as_second();
        Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX).to_string()
    }
}
