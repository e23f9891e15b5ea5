//! A proxy between a scheduler and the extender, so that a step can fall between two calls. The scheduler is
//! configured with the proxy's address; the extender behind it may stop and come back at another one. Used by every
//! cluster.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Request, Response, StatusCode, Uri, uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::scenario::{Moment, Verb};

/// Largest body passed on, in bytes: 5,000 full nodes are some 100 MB.
const LARGEST_BODY: usize = 256 << 20;

/// A running proxy; it ends when dropped.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    _stop: DropGuard,
}

struct Shared {
    /// Where the extender listens now; none while it is down.
    target: watch::Sender<Option<SocketAddr>>,
    moments: HashMap<Moment, HoldPoint>,
    client: Client<HttpConnector, Body>,
}

/// A moment at which calls can be held.
struct HoldPoint {
    is_held: watch::Sender<bool>,
    /// Calls that are there now.
    waiting: watch::Sender<usize>,
}

impl HoldPoint {
    fn released() -> Self {
        HoldPoint { is_held: watch::Sender::new(false), waiting: watch::Sender::new(0) }
    }

    /// Returns at once, or when calls are no longer held.
    async fn wait(&self) {
        self.waiting.send_modify(|waiting| *waiting += 1);
        let _one_fewer_at_the_end = WaitingCall(&self.waiting);
        // The only error is a sender that is gone, and `self` holds it.
        let _released = self.is_held.subscribe().wait_for(|is_held| !is_held).await.is_ok();
    }
}

/// A call that waits; it no longer does when this is dropped, also where the caller has hung up.
struct WaitingCall<'a>(&'a watch::Sender<usize>);

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting -= 1);
    }
}

impl Proxy {
    /// Starts a proxy on a free loopback port.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start() -> anyhow::Result<Self> {
        Self::start_at("127.0.0.1").await
    }

    /// Starts a proxy on a free port of an address of this host.
    ///
    /// # Errors
    /// No port is free, or the address is not this host's.
    pub async fn start_at(host: &str) -> anyhow::Result<Self> {
        let listener =
            TcpListener::bind((host, 0)).await.with_context(|| format!("proxy: no free port of {host}"))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            target: watch::Sender::new(None),
            moments: Moment::ALL.into_iter().map(|at| (at, HoldPoint::released())).collect(),
            client: Client::builder(TokioExecutor::new()).build(HttpConnector::new()),
        });
        let stop = CancellationToken::new();
        let router = Router::new().fallback(pass_on).with_state(Arc::clone(&shared));
        let server = axum::serve(listener, router).with_graceful_shutdown(stop.clone().cancelled_owned());
        tokio::spawn(async move { server.await });
        Ok(Self { address, shared, _stop: stop.drop_guard() })
    }

    /// Where schedulers reach it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Names the extender behind it; none while it is down.
    pub fn set_target(&self, target: Option<SocketAddr>) {
        self.shared.target.send_replace(target);
    }

    /// Calls wait at this moment from now on (`true`) or go on (`false`).
    pub fn set_held(&self, at: Moment, held: bool) {
        if let Some(point) = self.shared.moments.get(&at) {
            point.is_held.send_replace(held);
        }
    }

    /// Whether a call waits there now.
    pub fn is_held(&self, at: Moment) -> bool {
        self.shared.moments.get(&at).is_some_and(|point| *point.waiting.borrow() > 0)
    }
}

async fn pass_on(State(shared): State<Arc<Shared>>, request: Request<Body>) -> Response<Body> {
    let verb =
        [Verb::Filter, Verb::Bind].into_iter().find(|verb| request.uri().path().ends_with(verb.path()));
    let point = |moment: fn(Verb) -> Moment| verb.and_then(|verb| shared.moments.get(&moment(verb)));
    if let Some(point) = point(Moment::Before) {
        point.wait().await;
    }
    // An extender that goes away from here on has not answered, whatever it has done.
    let extenders = shared.target.subscribe();
    let mut answer = forward(&shared, request).await;
    if let (Ok(_), Some(point)) = (&answer, point(Moment::After)) {
        point.wait().await;
        if extenders.has_changed().unwrap_or(true) {
            answer = Err(anyhow!("the extender went away before it answered"));
        }
    }
    answer.unwrap_or_else(|error| {
        let mut response = Response::new(Body::from(format!("proxy: {error:#}")));
        *response.status_mut() = StatusCode::BAD_GATEWAY;
        response
    })
}

async fn forward(shared: &Shared, request: Request<Body>) -> anyhow::Result<Response<Body>> {
    let target = *shared.target.borrow();
    let target = target.context("the extender is down")?;
    let (mut parts, body) = request.into_parts();
    let mut uri = parts.uri.into_parts();
    uri.scheme = Some(uri::Scheme::HTTP);
    uri.authority = Some(target.to_string().parse()?);
    parts.uri = Uri::from_parts(uri)?;
    let body: Bytes = axum::body::to_bytes(body, LARGEST_BODY).await?;
    let response = shared.client.request(Request::from_parts(parts, Body::from(body))).await?;
    // The whole answer is read: one that is held must not keep the extender from ending.
    let (parts, body) = response.into_parts();
    Ok(Response::from_parts(parts, Body::from(axum::body::to_bytes(Body::new(body), LARGEST_BODY).await?)))
}
