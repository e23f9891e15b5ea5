//! `/healthz`: 200 while the plugin serves, 503 with the reasons while it does not; `/metrics` beside it. Started by `run`.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use runtime::{Protocol, Server, System};

use crate::metrics::Metrics;
use crate::status::Status;

/// How long an open call may take once the plugin is to end. Both are answered at once.
const GRACE: Duration = Duration::from_secs(1);

/// Serves both.
pub fn server(system: System, status: Arc<Status>, metrics: Arc<Metrics>) -> Server {
    let routes = Router::new()
        .route("/healthz", get(healthz).with_state(status))
        .route("/metrics", get(prometheus).with_state(metrics));
    Server::new(system, Protocol::Http1, routes, GRACE)
}

async fn healthz(State(status): State<Arc<Status>>) -> (StatusCode, String) {
    match status.text() {
        Ok(text) => (StatusCode::OK, text),
        Err(reasons) => (StatusCode::SERVICE_UNAVAILABLE, reasons),
    }
}

async fn prometheus(State(metrics): State<Arc<Metrics>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], metrics.text())
}
