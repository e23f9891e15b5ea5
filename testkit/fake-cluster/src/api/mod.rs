//! The in-memory Kubernetes API server, reached through a kube client or over HTTP.
//!
//! It serves pods, nodes, namespaces, events (core and events.k8s.io), leases and `/version` as Kubernetes of its
//! [`Version`] does, with the same texts and codes. Not served: field ownership, dry runs, finalizers, deletion of
//! namespaces and of collections, and pages of lists (`limit` is read as "everything", which Kubernetes allows). Pods and
//! nodes are answered in protobuf where the client accepts nothing else; any other kind is then refused with 406.
//!
//! Events end an hour after their last write, as there. A resourceVersion counts the writes to all kinds.
//!
//! `routes` maps an address to one of `verbs`; `kinds` holds the rules of each kind; `store` holds the objects and the
//! changes that watches read.

mod deadline;
mod error;
mod kinds;
mod object;
pub(crate) mod protobuf;
mod reply;
mod routes;
mod store;
mod verbs;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use runtime::system::Listener;
use runtime::{Protocol, Server, System};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use self::kinds::table::NAMESPACES;
pub use self::object::text;
pub use self::protobuf::{continue_token, with_continue_token};
pub use self::store::Observed;
use self::store::{Key, Store};
use self::verbs::create;
use crate::clock::Clock;
use crate::version::Version;

/// How long requests that are open at the end of [`ApiServer::serve`] have to be answered.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// An API server whose objects live in memory. Clones share the objects.
#[derive(Clone, Debug)]
pub struct ApiServer {
    store: Arc<Store>,
}

impl ApiServer {
    /// A server with the namespaces that every cluster has (`default`, `kube-system`, `kube-public`,
    /// `kube-node-lease`) and nothing else, of the newest [`Version`]. Every timestamp comes from `clock`.
    pub fn new(clock: Clock) -> Self {
        Self::of_version(clock, Version::default())
    }

    fn of_version(clock: Clock, version: Version) -> Self {
        let store = Store::new(clock, version);
        for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            let namespace = json!({"metadata": {"name": name}, "spec": {"finalizers": ["kubernetes"]}});
            // A new store has no namespace of these names, so this cannot be refused.
            let _ = create::insert(&store, &mut store.lock(), &NAMESPACES, "", namespace);
        }
        Self { store: Arc::new(store) }
    }

    /// A new server of another version, with the same clock. Call it first: objects that were created before are not on it,
    /// since no cluster holds what two versions have written.
    #[must_use]
    pub fn with_version(self, version: Version) -> Self {
        Self::of_version(self.clock().clone(), version)
    }

    /// The version that it is. Kubelets and schedulers that are started on it follow it.
    pub fn version(&self) -> Version {
        self.store.version()
    }

    /// The clock that every timestamp comes from.
    pub fn clock(&self) -> &Clock {
        self.store.clock()
    }

    /// A client that calls this server without a socket. Its default namespace is `default`. Must be called inside a
    /// tokio runtime.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.router(), "default")
    }

    /// The server as an axum router, for a kube client or a listener.
    pub fn router(&self) -> Router {
        self.lagging_router(0)
    }

    /// As [`Self::router`], but lists with `resourceVersion=0`, and watches that begin there, show the state `lag` versions
    /// ago, as Kubernetes' may, which serves them from a cache. A watch then goes on from that state. It is later where the
    /// past is no longer kept that far, or was compacted.
    pub fn lagging_router(&self, lag: u64) -> Router {
        routes::router(&self.store, &CancellationToken::new(), lag)
    }

    /// Serves HTTP on `listener` until `shutdown`, which also ends the watches opened through it.
    pub fn serve(
        self,
        system: &System,
        listener: Box<dyn Listener>,
        shutdown: CancellationToken,
    ) -> impl Future<Output = ()> + Send + use<> {
        let router = routes::router(&self.store, &shutdown, 0);
        Server::new(system.clone(), Protocol::Http1, router, SHUTDOWN_GRACE).run(listener, shutdown)
    }

    /// Refuses old versions, as etcd does after a compaction: a new watch from a resourceVersion before the newest gets
    /// 410 Gone. Open watches continue.
    pub fn compact(&self) {
        self.store.lock().compact();
    }

    /// Answers every request 503 and ends open watches after `false`, until called with `true`.
    pub fn set_available(&self, available: bool) {
        self.store.set_available(available);
    }

    /// Calls `observer` inside every write, in the order of resourceVersions. It must not call the server.
    pub fn observe(&self, observer: Box<dyn Fn(&Observed<'_>) + Send + Sync>) {
        self.store.observe(observer);
    }

    /// Stores the whole text that `GET .../pods/{pod}/log?container={container}` answers. It is removed with the pod.
    pub fn set_log(&self, namespace: &str, pod: &str, container: &str, text: &str) {
        self.store.lock().set_log(Key::new(namespace, pod), container, text);
    }
}

impl Default for ApiServer {
    /// A server with a clock of its own.
    fn default() -> Self {
        Self::new(Clock::new())
    }
}
