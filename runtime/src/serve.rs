//! Serves routes on a listener: the suite's only accept loop, for HTTP and for gRPC. Every connection and every HTTP/2 stream
//! is a task of the program's own [`System`], so that nothing of a program outlives it.

use std::io;
use std::time::Duration;

use axum::Router;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::system::{Connection, Listener, System};

/// Pause after a connection could not be taken, as where the process has no descriptors left.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// How long an HTTP/1.1 connection may be without a call, or a call's head be on its way. Longer than the 90 s for which Go's
/// clients keep a connection, kube-scheduler and kubelet among them: who closes first must be the one who calls, or calls get lost.
const IDLE: Duration = Duration::from_secs(120);

/// What is spoken on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 from the first byte, as gRPC without TLS speaks it.
    Http2,
}

/// Prepares a connection that was accepted, as by a TLS handshake, and gives the routes for it.
pub type Prepare = dyn Fn(Connection) -> BoxFuture<'static, io::Result<(Connection, Router)>> + Send + Sync;

/// Serves connections until `shutdown`.
pub struct Server {
    system: System,
    protocol: Protocol,
    prepare: Box<Prepare>,
    grace: Duration,
}

impl Server {
    /// Serves the same routes on every connection. At the end open calls have `grace` to be answered.
    pub fn new(system: System, protocol: Protocol, routes: Router, grace: Duration) -> Self {
        let prepare = move |connection| {
            let routes = routes.clone();
            async move { Ok((connection, routes)) }.boxed()
        };
        Self::prepared_by(system, protocol, Box::new(prepare), grace)
    }

    /// Has every connection prepared first, in its own task. One that is not ready in time, or fails, is closed.
    pub fn prepared_by(system: System, protocol: Protocol, prepare: Box<Prepare>, grace: Duration) -> Self {
        Self { system, protocol, prepare, grace }
    }

    /// Serves until `shutdown`, then takes no more connections and no more calls, and returns when those that were open are
    /// answered or the grace is over. Dropping the future ends all connections.
    pub async fn run(self, mut listener: Box<dyn Listener>, shutdown: CancellationToken) {
        let open = TaskTracker::new();
        // Cancelled when this future is dropped, too.
        let ending = CancellationToken::new();
        let _end = ending.clone().drop_guard();
        loop {
            let accepted = tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok(connection) => {
                    let life = self.life(connection, shutdown.clone());
                    let life = ending.clone().run_until_cancelled_owned(life).map(drop);
                    drop(self.system.spawn(open.track_future(life)));
                }
                Err(error) => {
                    tracing::warn!(reason = %error, "a connection could not be taken");
                    tokio::select! {
                        biased;
                        () = shutdown.cancelled() => break,
                        () = sleep(ACCEPT_RETRY) => {}
                    }
                }
            }
        }
        drop(listener);
        open.close();
        if timeout(self.grace, open.wait()).await.is_err() {
            tracing::warn!(grace = ?self.grace, "calls that are still open are cut off");
        }
    }

    fn life(
        &self,
        connection: Connection,
        shutdown: CancellationToken,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (protocol, executor) = (self.protocol, self.system.executor());
        let prepared = (self.prepare)(connection);
        async move {
            let prepared = tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                prepared = prepared => prepared,
            };
            let Ok((connection, routes)) = prepared else { return };
            let (stream, service) = (TokioIo::new(connection), TowerToHyperService::new(routes));
            // A client that breaks off is no news.
            match protocol {
                Protocol::Http1 => {
                    let mut http = http1::Builder::new();
                    let connection = http.timer(TokioTimer::new()).auto_date_header(false);
                    let connection = connection.header_read_timeout(IDLE);
                    let mut connection = std::pin::pin!(connection.serve_connection(stream, service));
                    tokio::select! {
                        biased;
                        () = shutdown.cancelled() => connection.as_mut().graceful_shutdown(),
                        _ = connection.as_mut() => return,
                    }
                    let _ = connection.await;
                }
                Protocol::Http2 => {
                    let mut http = http2::Builder::new(executor);
                    let connection = http.timer(TokioTimer::new()).auto_date_header(false);
                    let mut connection = std::pin::pin!(connection.serve_connection(stream, service));
                    tokio::select! {
                        biased;
                        () = shutdown.cancelled() => connection.as_mut().graceful_shutdown(),
                        _ = connection.as_mut() => return,
                    }
                    let _ = connection.await;
                }
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test asks the machine itself")]
mod tests;
