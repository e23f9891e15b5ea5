//! The API server in memory, served over loopback from a thread of this process. Used by what measures.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use http::Method;
use http::header::CONTENT_TYPE;
use runtime::system::Address;
use runtime::{Protocol, Server, System};
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::ServiceExt as _;

/// Routes that are served; no longer when dropped.
pub(crate) struct Served {
    /// Where.
    pub(crate) address: SocketAddr,
    _end: DropGuard,
}

impl Served {
    /// Serves the routes on the runtime's thread.
    pub(crate) fn on(thread: &Runtime, routes: Router) -> Self {
        let _inside = thread.enter();
        let system = System::real();
        let any = Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
        let listener = system.listen(&any).expect("a port of loopback");
        let address = listener.address().to_string().parse().expect("a TCP address");
        let end = CancellationToken::new();
        let server = Server::new(system.clone(), Protocol::Http1, routes, Duration::ZERO);
        drop(system.spawn(server.run(listener, end.clone())));
        Self { address, _end: end.drop_guard() }
    }
}

/// The routes, where a Binding is carried out only after so long.
pub(crate) fn with_slow_bindings(routes: Router, takes: Duration) -> Router {
    async fn later(State(takes): State<Duration>, request: Request, next: Next) -> Response {
        if request.uri().path().ends_with("/binding") {
            tokio::time::sleep(takes).await;
        }
        next.run(request).await
    }
    if takes.is_zero() { routes } else { routes.layer(from_fn_with_state(takes, later)) }
}

/// Creates an object in the collection; what the API server has made of it.
pub(crate) async fn create(api: &Router, collection: &str, object: &Value) -> Bytes {
    write(api, Method::POST, collection, "application/json", object).await
}

/// Merges something into an object.
pub(crate) async fn merge(api: &Router, path: &str, patch: &Value) {
    write(api, Method::PATCH, path, "application/merge-patch+json", patch).await;
}

async fn write(api: &Router, method: Method, path: &str, kind: &str, body: &Value) -> Bytes {
    let request = http::Request::builder().method(method).uri(path).header(CONTENT_TYPE, kind);
    let request = request.body(Body::from(body.to_string())).expect("a request");
    let answer = api.clone().oneshot(request).await.unwrap_or_else(|never| match never {});
    let (status, body) = (answer.status(), answer.into_body());
    let body = to_bytes(body, usize::MAX).await.expect("an answer");
    assert!(status.is_success(), "{path}: {}", String::from_utf8_lossy(&body));
    body
}
