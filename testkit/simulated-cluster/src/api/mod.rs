//! Each process' own way to the API server: over links that can be slow or cut, with answers that go wrong. Requests are
//! handed over as messages, not as bytes; what a program sees of it are the errors of its HTTP client.

mod conditions;
mod request;
mod watch_body;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use fake_cluster::ApiServer;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use kube::client::retry::RetryPolicy;
use simulator::network::Link;
use simulator::random::Rng;
use simulator::{Process, Simulation};
use tower::retry::RetryLayer;
use tower::{BoxError, Layer as _, Service};

pub(crate) use self::conditions::Conditions;
use self::request::Call;
use crate::plan::Place;
use crate::watcher::Watcher;

/// What all ways to the API server share.
pub(crate) struct ApiServerHost {
    pub(crate) simulation: Simulation,
    /// Carries out what its sender may not wait for.
    pub(crate) harness: Process,
    pub(crate) routes: Router,
    /// The server itself, which may also show an older state where Kubernetes allows that.
    pub(crate) api: ApiServer,
    pub(crate) conditions: Arc<Conditions>,
    /// Learns which Bindings are late.
    pub(crate) watcher: Arc<Watcher>,
}

/// Whose requests: both kinds of parts have rates of their own at which answers go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Whose {
    /// The suite's programs'.
    Suite,
    /// kubelets', scheduler's and controllers'.
    Cluster,
}

/// The way of one process.
#[derive(Clone)]
struct Way {
    api: Arc<ApiServerHost>,
    part: Arc<str>,
    place: Place,
    whose: Whose,
    /// To the API server, and back.
    links: [Arc<Link>; 2],
    draws: Arc<Mutex<Rng>>,
}

impl ApiServerHost {
    /// A client for a process at `place`. It repeats requests as kube's own does.
    pub(crate) fn client(
        self: &Arc<Self>,
        process: &Process,
        place: Place,
        links: [Arc<Link>; 2],
        whose: Whose,
    ) -> kube::Client {
        let part: Arc<str> = process.part().into();
        let draws = self.simulation.stream(&format!("API {part} at {place} {}", process.number()));
        let draws = Arc::new(Mutex::new(draws));
        let api = Arc::clone(self);
        let way = Way { api, part, place, whose, links, draws };
        kube::Client::new(RetryLayer::new(RetryPolicy::default()).layer(way), "default")
    }
}

impl Way {
    fn draws(&self) -> MutexGuard<'_, Rng> {
        self.draws.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service<Request<kube::client::Body>> for Way {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let (way, request) = (self.clone(), request.map(Body::new));
        Call::new(way, request).answer().boxed()
    }
}
