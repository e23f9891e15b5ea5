//! The API server's host, and the way of every process there and back: over links that take a moment, so that what happens at
//! one time on real clusters does so here.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use fake_cluster::api::ApiServer;
use futures::StreamExt as _;
use kube::Client;
use simulator::network::Link;
use simulator::{Host, Simulation};
use tower::{ServiceExt as _, service_fn};

use super::held_bindings::HeldBindings;
use crate::cluster::NAMESPACE;

/// Parts of an answer that are under way at one time. Those that come after them wait, as for a full window of TCP.
const UNDER_WAY: usize = 64;

/// The API server on its host.
#[derive(Clone)]
pub(super) struct ApiHost {
    pub(super) server: ApiServer,
    /// What of a process' calls waits before it is carried out.
    pub(super) bindings: Arc<HeldBindings>,
    routes: Router,
    simulation: Simulation,
    host: Host,
}

impl ApiHost {
    pub(super) fn new(simulation: &Simulation, server: ApiServer) -> Self {
        let (routes, host) = (server.router(), simulation.host("api-server"));
        let bindings = Arc::new(HeldBindings::none());
        Self { server, bindings, routes, simulation: simulation.clone(), host }
    }

    /// A client for the harness: its requests take no time.
    pub(super) fn client(&self) -> Client {
        Client::new(self.routes.clone(), NAMESPACE)
    }

    /// A client for a process on this host.
    pub(super) fn client_on(&self, host: &Host) -> Client {
        let there = self.simulation.link(host, &self.host);
        let back = self.simulation.link(&self.host, host);
        let (routes, bindings) = (self.routes.clone(), Arc::clone(&self.bindings));
        let call = move |request: Request<kube::client::Body>| {
            let (routes, there, back) = (routes.clone(), Arc::clone(&there), Arc::clone(&back));
            let bindings = Arc::clone(&bindings);
            async move {
                there.pass().await;
                let holder = bindings.holder_of(request.uri().path());
                let request = request.map(Body::new);
                let answer = match holder {
                    Some(holder) => bindings.answer(holder, routes, request).await,
                    None => {
                        let Ok(answer) = routes.oneshot(request).await;
                        answer
                    }
                };
                Ok::<Response<Body>, Infallible>(answer.map(|body| over(back, body)))
            }
        };
        Client::new(service_fn(call), NAMESPACE)
    }
}

/// The body of an answer, each part of which takes the link's time. A watch has no end.
fn over(link: Arc<Link>, body: Body) -> Body {
    let parts = body.into_data_stream().map(move |part| {
        let link = Arc::clone(&link);
        async move {
            link.pass().await;
            part
        }
    });
    Body::from_stream(parts.buffered(UNDER_WAY))
}
