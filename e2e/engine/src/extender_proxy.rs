//! A proxy between a scheduler and the extender, so that a step can fall between two calls. The scheduler is
//! configured with the proxy's address; the extender behind it may stop and come back at another one. Used by every
//! cluster.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::State;
use axum::http::{Request, Response, StatusCode};
use runtime::system::Address;
use runtime::{Protocol, Server, System};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::hold_point::HoldPoint;
use crate::http_call::{LARGEST_BODY, call};
use crate::scenario::{Moment, Verb};

/// How long calls may go on that are open when it ends.
const GRACE: Duration = Duration::from_secs(5);

/// A running proxy; it ends when dropped.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    _stop: DropGuard,
}

struct Shared {
    system: System,
    /// Where the extender listens now; none while it is down.
    target: watch::Sender<Option<SocketAddr>>,
    moments: HashMap<Moment, HoldPoint>,
}

impl Proxy {
    /// Starts a proxy on a free port of an IP address of this machine, such as `172.18.0.1`. Must be called inside a tokio
    /// runtime.
    ///
    /// # Errors
    /// No port is free, or the address is not this machine's.
    pub fn on_this_machine(ip: &str) -> anyhow::Result<Self> {
        let ip = ip.parse().with_context(|| format!("proxy: {ip} is no IP address"))?;
        Self::start(&System::real(), ip)
    }

    /// Starts a proxy on a free port of an address of the system.
    ///
    /// # Errors
    /// No port is free, or the address is not this system's.
    pub fn start(system: &System, ip: IpAddr) -> anyhow::Result<Self> {
        let listener = system.listen(&Address::Tcp((ip, 0).into()));
        let listener = listener.with_context(|| format!("proxy: no free port of {ip}"))?;
        let Address::Tcp(address) = listener.address() else { bail!("proxy: it listens on no port") };
        let shared = Arc::new(Shared {
            system: system.clone(),
            target: watch::Sender::new(None),
            moments: Moment::ALL.into_iter().map(|at| (at, HoldPoint::released())).collect(),
        });
        let stop = CancellationToken::new();
        let routes = Router::new().fallback(pass_on).with_state(Arc::clone(&shared));
        let server = Server::new(system.clone(), Protocol::Http1, routes, GRACE);
        drop(system.spawn(server.run(listener, stop.clone())));
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

    /// Where calls go now.
    pub fn target(&self) -> Option<SocketAddr> {
        *self.shared.target.borrow()
    }

    /// Calls wait at this moment from now on (`true`) or go on (`false`).
    pub fn set_held(&self, at: Moment, held: bool) {
        if let Some(point) = self.shared.moments.get(&at) {
            point.set_held(held);
        }
    }

    /// Whether a call waits there now.
    pub fn is_held(&self, at: Moment) -> bool {
        self.shared.moments.get(&at).is_some_and(HoldPoint::is_waited_at)
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
    let (head, body) = request.into_parts();
    let body: Bytes = to_bytes(body, LARGEST_BODY).await?;
    let request = Request::from_parts(head, Body::from(body));
    // The whole answer is read: one that is held must not keep the extender from ending.
    Ok(call(&shared.system, target, request).await?.map(Body::from))
}
