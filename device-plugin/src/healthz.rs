//! `/healthz`: 200 while the plugin serves, 503 with the reasons while it does not; `/metrics` beside it. Started by `run`.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::status::Status;

/// Serves until `shutdown`.
///
/// # Errors
/// The listener fails.
pub async fn serve(
    listener: TcpListener,
    status: Arc<Status>,
    metrics: Arc<Metrics>,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    let router = Router::new()
        .route("/healthz", get(healthz).with_state(status))
        .route("/metrics", get(prometheus).with_state(metrics));
    axum::serve(listener, router).with_graceful_shutdown(shutdown.cancelled_owned()).await
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
