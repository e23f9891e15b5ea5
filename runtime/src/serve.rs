//! Serves routes on a listener: the suite's only accept loop, for HTTP and for gRPC. Every connection and every HTTP/2 stream
//! is a task of the program's own [`System`], so that nothing of a program outlives it.

mod answers;
mod calls;
mod connection;
mod places;
mod stall;

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::calls::Calls;
pub use self::calls::LastCall;
use self::places::Places;
use self::stall::StallLimit;
use crate::system::{Connection, Listener, System};

/// Pause after a connection could not be taken, as where the process has no descriptors left.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Connections at once of a server that is exposed: half of the 1,024 descriptors that a process may count on, so that slow
/// clients leave it the other half. For a further one the connection is closed that has been idle longest, so that nobody keeps
/// others away by saying nothing; where none is idle it waits, as one that is closed is a call that has failed.
const CONNECTIONS: usize = 512;

/// What is spoken on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 from the first byte, as gRPC without TLS speaks it.
    Http2,
}

/// A connection that is ready for calls.
pub struct Prepared {
    /// The connection, as behind its handshake.
    pub connection: Connection,
    /// What is spoken on it.
    pub protocol: Protocol,
    /// Who answers its calls.
    pub routes: Router,
}

/// Prepares a connection that was accepted, as by a TLS handshake.
pub type Prepare = dyn Fn(Connection) -> BoxFuture<'static, io::Result<Prepared>> + Send + Sync;

/// Serves connections until `shutdown`.
pub struct Server {
    system: System,
    prepare: Box<Prepare>,
    grace: Duration,
    is_exposed: bool,
    replaced: watch::Receiver<u64>,
}

impl Server {
    /// Serves the same routes on every connection. At the end open calls have `grace` to be answered.
    pub fn new(system: System, protocol: Protocol, routes: Router, grace: Duration) -> Self {
        let prepare = move |connection| {
            let routes = routes.clone();
            async move { Ok(Prepared { connection, protocol, routes }) }.boxed()
        };
        Self::prepared_by(system, Box::new(prepare), grace)
    }

    /// Has every connection prepared first, in its own task. One that is not ready in time, or fails, is closed.
    pub fn prepared_by(system: System, prepare: Box<Prepare>, grace: Duration) -> Self {
        Self { system, prepare, grace, is_exposed: false, replaced: watch::Sender::default().subscribe() }
    }

    /// Serves clients that need not mean well: connections are bounded in number, and close where the other side does not say
    /// anything, takes no answer, takes it too slowly or is gone.
    pub fn exposed(self) -> Self {
        Self { is_exposed: true, ..self }
    }

    /// Whenever the value changes, the connections that are open then take no more calls, and close when those under way are
    /// answered. New ones are served as before.
    pub fn until_replaced(self, replaced: watch::Receiver<u64>) -> Self {
        Self { replaced, ..self }
    }

    /// Serves until `shutdown`, then takes no more connections and no more calls, and returns when those that were open are
    /// answered or the grace is over. Dropping the future ends all connections.
    pub async fn run(self, mut listener: Box<dyn Listener>, shutdown: CancellationToken) {
        let open = TaskTracker::new();
        let places = Arc::new(Places::new(if self.is_exposed { CONNECTIONS } else { usize::MAX }));
        // Cancelled when this future is dropped, too.
        let ending = CancellationToken::new();
        let _end = ending.clone().drop_guard();
        loop {
            // Only where somebody has come does another one have to go.
            let accept = async { Ok((listener.accept().await?, places.take().await)) };
            let accepted: io::Result<_> = tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                accepted = accept => accepted,
            };
            match accepted {
                Ok((connection, place)) => {
                    let life = self.life(connection, place.calls.clone(), shutdown.clone());
                    let life = place.wanted.clone().run_until_cancelled_owned(life);
                    let life = ending.clone().run_until_cancelled_owned(life).map(|_| drop(place));
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
        calls: Calls,
        shutdown: CancellationToken,
    ) -> BoxFuture<'static, ()> {
        let (is_exposed, executor) = (self.is_exposed, self.system.executor());
        let mut replaced = self.replaced.clone();
        replaced.mark_unchanged();
        let connection = if is_exposed { StallLimit::on(connection, calls.clone()) } else { connection };
        let prepared = (self.prepare)(connection);
        async move {
            let prepared = tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                prepared = prepared => prepared,
            };
            let Ok(prepared) = prepared else { return };
            let close = async move {
                tokio::select! {
                    biased;
                    () = shutdown.cancelled() => {}
                    () = change(replaced) => {}
                }
            };
            connection::serve(prepared, calls, executor, is_exposed, close).await;
        }
        .boxed()
    }
}

/// Waits for a change; without end where nobody is left to make one.
async fn change(mut value: watch::Receiver<u64>) {
    if value.changed().await.is_err() {
        pending().await
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test asks the machine itself")]
mod tests;
