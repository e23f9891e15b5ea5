//! The calls of one connection, from its first to its last, and how long it may be without any. Called by [`super::Server`].

use std::future::pending;
use std::pin::{Pin, pin};
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::time::timeout;

use super::calls::Calls;
use super::{Prepared, Protocol};
use crate::system::Executor;

/// How long a connection may be without a call, or a call's head be on its way. Longer than the 90 s for which Go's
/// clients keep a connection, kube-scheduler and kubelet among them: who closes first must be the one who calls, or calls get lost.
const IDLE: Duration = Duration::from_secs(120);

/// How long after it is ready a connection to an exposed server may be without its first call. Who connects has something to say;
/// who has not is gone soon, so that such connections do not pile up.
const FIRST_CALL: Duration = Duration::from_secs(10);

/// HTTP/2: calls at once on one connection. Go's clients open another one beyond.
const STREAMS: u32 = 128;

/// HTTP/2: the longest head of a call, in bytes. Those of kube-scheduler have some 200.
const HEAD: u32 = 16 << 10;

/// Bytes of a connection to an exposed server that are kept before a call takes them, a head that is not complete or the begin of a body:
/// strangers may have hundreds of connections.
const UNREAD_HTTP1: usize = 64 << 10;
const UNREAD_HTTP2: u32 = 256 << 10;

/// HTTP/2: a client that was silent for so long is asked whether it is there..
const PING: Duration = Duration::from_secs(30);

/// ..and is gone when it has not said so for so long. kubelet, on the machine itself, may be frozen longer and is not asked.
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a connection has to go, though nobody ends the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quiet {
    /// It has never called.
    FromTheStart,
    /// It has called, and has not for [`IDLE`].
    Since,
    /// It takes an answer too slowly.
    WithAnAnswer,
}

/// Serves until the other side closes or is too quiet, until a [`super::LastCall`], or until `close`: then calls that are under way are
/// answered and no others taken.
pub(super) async fn serve(
    prepared: Prepared,
    calls: Calls,
    executor: Executor,
    is_exposed: bool,
    close: impl Future<Output = ()>,
) {
    let Prepared { connection, protocol, routes } = prepared;
    let (stream, service) = (TokioIo::new(connection), calls.counted(routes, protocol));
    let close = async {
        tokio::select! {
            biased;
            () = close => {}
            () = calls.last() => {}
        }
    };
    let quiet = async { if is_exposed { too_quiet(&calls, protocol).await } else { pending().await } };
    // Over HTTP/1.1 the limit of stalls looks after it.
    let too_slow = async {
        match protocol {
            Protocol::Http2 if is_exposed => calls.too_slow().await,
            _ => pending().await,
        }
    };
    match protocol {
        Protocol::Http1 => {
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).auto_date_header(false).header_read_timeout(IDLE);
            if is_exposed {
                http.max_buf_size(UNREAD_HTTP1);
            }
            let connection = http.serve_connection(stream, service);
            drive(connection, |connection| connection.graceful_shutdown(), close, quiet, too_slow).await;
        }
        Protocol::Http2 => {
            let mut http = http2::Builder::new(executor);
            http.timer(TokioTimer::new()).auto_date_header(false);
            http.max_concurrent_streams(STREAMS).max_header_list_size(HEAD);
            if is_exposed {
                http.keep_alive_interval(PING).keep_alive_timeout(PING_TIMEOUT);
                http.initial_connection_window_size(UNREAD_HTTP2).initial_stream_window_size(UNREAD_HTTP2);
            }
            let connection = http.serve_connection(stream, service);
            drive(connection, |connection| connection.graceful_shutdown(), close, quiet, too_slow).await;
        }
    }
}

async fn drive<C: Future>(
    connection: C,
    close_gracefully: fn(Pin<&mut C>),
    close: impl Future<Output = ()>,
    quiet: impl Future<Output = Quiet>,
    too_slow: impl Future<Output = ()>,
) {
    let mut connection = pin!(connection);
    tokio::select! {
        biased;
        () = close => {}
        quiet = quiet => match quiet {
            // A head may have begun, which a graceful end would wait for.
            Quiet::FromTheStart | Quiet::WithAnAnswer => return,
            Quiet::Since => {}
        },
        // A client that breaks off is no news.
        _ = connection.as_mut() => return,
    }
    close_gracefully(connection.as_mut());
    tokio::select! {
        biased;
        () = too_slow => {}
        _ = connection => {}
    }
}

async fn too_quiet(calls: &Calls, protocol: Protocol) -> Quiet {
    if timeout(FIRST_CALL, calls.first()).await.is_err() {
        return Quiet::FromTheStart;
    }
    match protocol {
        // hyper looks after it: the next head has to come within IDLE. So does the limit of stalls.
        Protocol::Http1 => pending().await,
        Protocol::Http2 => tokio::select! {
            biased;
            () = calls.too_slow() => Quiet::WithAnAnswer,
            () = calls.none_for(IDLE) => Quiet::Since,
        },
    }
}
