use std::sync::Arc;

use axum::routing::get;
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use prost::bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::*;
use crate::system::Address;

const GRACE: Duration = Duration::from_secs(10);

/// A server on a free port, with what ends it and what tells that it has ended.
struct Served {
    address: std::net::SocketAddr,
    shutdown: CancellationToken,
    ended: crate::system::Task<()>,
}

fn serve(protocol: Protocol, routes: Router) -> Served {
    let system = System::real();
    let listener = system.listen(&Address::Tcp(([127, 0, 0, 1], 0).into())).unwrap();
    let Address::Tcp(address) = listener.address() else { panic!("no TCP address") };
    let shutdown = CancellationToken::new();
    let server = Server::new(system.clone(), protocol, routes, GRACE);
    let ended = system.spawn(server.run(listener, shutdown.clone()));
    Served { address, shutdown, ended }
}

async fn body(address: std::net::SocketAddr, http2: bool) -> String {
    let client = Client::builder(TokioExecutor::new()).http2_only(http2).build_http();
    let request = Request::get(format!("http://{address}/")).body(Empty::<Bytes>::new()).unwrap();
    let answer = client.request(request).await.unwrap().into_body().collect().await.unwrap();
    String::from_utf8(answer.to_bytes().to_vec()).unwrap()
}

#[tokio::test]
async fn both_protocols_are_answered() {
    for (protocol, http2) in [(Protocol::Http1, false), (Protocol::Http2, true)] {
        let served = serve(protocol, Router::new().route("/", get(|| async { "hello" })));
        assert_eq!(body(served.address, http2).await, "hello");
        served.shutdown.cancel();
        served.ended.await.unwrap();
    }
}

#[tokio::test]
async fn a_call_that_is_open_at_the_end_is_answered_and_an_idle_connection_does_not_hold_it_up() {
    let (asked, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, wait) = (Arc::clone(&asked), Arc::clone(&go_on));
    let answer = move || async move {
        tell.notify_one();
        wait.notified().await;
        "late"
    };
    let served = serve(Protocol::Http1, Router::new().route("/", get(answer)));
    let mut idle = TcpStream::connect(served.address).await.unwrap();
    let call = tokio::spawn(body(served.address, false));
    asked.notified().await;
    served.shutdown.cancel();
    go_on.notify_one();
    assert_eq!(call.await.unwrap(), "late");
    served.ended.await.unwrap();
    assert_eq!(idle.read(&mut [0]).await.unwrap(), 0, "it was closed");
}

#[tokio::test]
async fn dropping_the_server_ends_its_connections() {
    let served = serve(Protocol::Http1, Router::new().route("/", get(std::future::pending::<()>)));
    let mut open = TcpStream::connect(served.address).await.unwrap();
    open.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();
    served.ended.abort();
    // Closed, or reset where the request was not read yet.
    assert!(matches!(open.read(&mut [0]).await, Ok(0) | Err(_)));
}

/// Gives the connection that it has, and never another.
struct Once(Option<Connection>);

impl Listener for Once {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Connection>> {
        match self.0.take() {
            Some(connection) => std::future::ready(Ok(connection)).boxed(),
            None => std::future::pending().boxed(),
        }
    }

    fn address(&self) -> Address {
        Address::Unix("/once".into())
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_may_be_idle_for_as_long_as_clients_keep_theirs() {
    let (mut client, server) = tokio::io::duplex(1024);
    let system = System::real();
    let routes = Router::new().route("/", get(|| async { "hello" }));
    let server_of_one = Server::new(system.clone(), Protocol::Http1, routes, GRACE);
    let listener = Box::new(Once(Some(Connection::new(server, "client"))));
    drop(system.spawn(server_of_one.run(listener, CancellationToken::new())));
    for _ in 0..2 {
        client.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"hello") {
            assert_ne!(client.read_buf(&mut answer).await.unwrap(), 0, "it was closed");
        }
        sleep(Duration::from_secs(90)).await;
    }
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0, "a silent client is not kept for ever");
}

#[tokio::test]
async fn a_connection_that_is_not_prepared_is_closed_and_others_go_on() {
    let system = System::real();
    let listener = system.listen(&Address::Tcp(([127, 0, 0, 1], 0).into())).unwrap();
    let Address::Tcp(address) = listener.address() else { panic!("no TCP address") };
    let routes = Router::new().route("/", get(|| async { "hello" }));
    let prepare = move |mut connection: Connection| {
        let routes = routes.clone();
        async move {
            let mut first = [0];
            connection.read_exact(&mut first).await?;
            if first == *b"!" { Ok((connection, routes)) } else { Err(io::Error::other("no greeting")) }
        }
        .boxed()
    };
    let shutdown = CancellationToken::new();
    let server = Server::prepared_by(system.clone(), Protocol::Http1, Box::new(prepare), GRACE);
    drop(system.spawn(server.run(listener, shutdown.clone())));

    let mut silent = TcpStream::connect(address).await.unwrap();
    let mut wrong = TcpStream::connect(address).await.unwrap();
    wrong.write_all(b"?").await.unwrap();
    assert!(matches!(wrong.read(&mut [0]).await, Ok(0) | Err(_)));
    let mut right = TcpStream::connect(address).await.unwrap();
    right.write_all(b"!GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    right.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("hello"), "{answer}");
    shutdown.cancel();
    assert_eq!(silent.read(&mut [0]).await.unwrap(), 0, "it was closed at the end");
}
