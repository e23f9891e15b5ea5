//! `/healthz`: 200 while the plugin serves, 503 with the reasons while it does not. Started by `run`.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::status::Status;

/// Serves until `shutdown`.
///
/// # Errors
/// The listener fails.
pub async fn serve(
    listener: TcpListener,
    status: Arc<Status>,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    let router = Router::new().route("/healthz", get(healthz)).with_state(status);
    axum::serve(listener, router).with_graceful_shutdown(shutdown.cancelled_owned()).await
}

async fn healthz(State(status): State<Arc<Status>>) -> (StatusCode, String) {
    match status.text() {
        Ok(text) => (StatusCode::OK, text),
        Err(reasons) => (StatusCode::SERVICE_UNAVAILABLE, reasons),
    }
}
