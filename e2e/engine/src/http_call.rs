//! One HTTP call to an address, over the sockets of a [`System`] and on a connection of its own. Used by the proxy and by the
//! embedded cluster.

use std::net::SocketAddr;

use anyhow::ensure;
use axum::body::{Body, Bytes, to_bytes};
use axum::http::header::HOST;
use axum::http::{HeaderValue, Request, Response};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use runtime::System;
use runtime::system::Address;

/// Largest body that is read, in bytes: 5,000 full nodes are some 100 MB.
pub(crate) const LARGEST_BODY: usize = 256 << 20;

/// Sends the request to `server` and reads the whole answer. The host of its address is replaced.
///
/// # Errors
/// Nobody listens there, the connection breaks, or the answer is larger than [`LARGEST_BODY`].
pub(crate) async fn call(
    system: &System,
    server: SocketAddr,
    mut request: Request<Body>,
) -> anyhow::Result<Response<Bytes>> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = path.parse()?;
    request.headers_mut().insert(HOST, HeaderValue::try_from(server.to_string())?);
    let stream = system.connect(&Address::Tcp(server)).await?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    // Its errors are the call's. It ends with the sender, so also where nobody waits for the answer any more.
    drop(system.spawn(connection));
    let (head, body) = sender.send_request(request).await?.into_parts();
    Ok(Response::from_parts(head, to_bytes(Body::new(body), LARGEST_BODY).await?))
}

/// What a program at this address shows at `/metrics`.
///
/// # Errors
/// As [`call`], or it shows none.
pub(crate) async fn metrics_of(system: &System, server: SocketAddr) -> anyhow::Result<String> {
    let answer = call(system, server, Request::get("/metrics").body(Body::empty())?).await?;
    ensure!(answer.status().is_success(), "{server} answers /metrics with {}", answer.status());
    Ok(String::from_utf8(answer.into_body().to_vec())?)
}
