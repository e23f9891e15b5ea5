use std::sync::Arc;

use axum::routing::{MethodRouter, get};
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::bytes::Bytes;
use rstest::rstest;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;

use super::*;
use crate::system::Address;

mod exposed;

const GRACE: Duration = Duration::from_secs(10);

/// A server on a free port, with what ends it and what tells that it has ended.
struct Served {
    address: std::net::SocketAddr,
    shutdown: CancellationToken,
    ended: crate::system::Task<()>,
}

fn serve(protocol: Protocol, routes: Router) -> Served {
    serve_until_replaced(protocol, routes, watch::Sender::default().subscribe())
}

fn serve_until_replaced(protocol: Protocol, routes: Router, replaced: watch::Receiver<u64>) -> Served {
    let system = System::real();
    let listener = system.listen(&Address::Tcp(([127, 0, 0, 1], 0).into())).unwrap();
    let Address::Tcp(address) = listener.address() else { panic!("no TCP address") };
    let shutdown = CancellationToken::new();
    let server = Server::new(system.clone(), protocol, routes, GRACE).until_replaced(replaced);
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

/// The other end of the only connection of a server, which is exposed or not.
fn serve_one(protocol: Protocol, routes: Router, is_exposed: bool) -> DuplexStream {
    let (client, server) = tokio::io::duplex(1024);
    let system = System::real();
    let server_of_one = Server::new(system.clone(), protocol, routes, GRACE);
    let server_of_one = if is_exposed { server_of_one.exposed() } else { server_of_one };
    let listener = Box::new(Once(Some(Connection::new(server, "client"))));
    drop(system.spawn(server_of_one.run(listener, CancellationToken::new())));
    client
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn a_connection_may_be_idle_for_as_long_as_clients_keep_theirs(
    #[values(false, true)] is_exposed: bool,
) {
    let mut client =
        serve_one(Protocol::Http1, Router::new().route("/", get(|| async { "hello" })), is_exposed);
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
            let greeted = Prepared { connection, protocol: Protocol::Http1, routes };
            if first == *b"!" { Ok(greeted) } else { Err(io::Error::other("no greeting")) }
        }
        .boxed()
    };
    let shutdown = CancellationToken::new();
    let server = Server::prepared_by(system.clone(), Box::new(prepare), GRACE);
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

type Call = Box<dyn FnMut(&str) -> BoxFuture<'static, String>>;

/// A client with one connection: calls a path, and waits for the connection's end.
struct Caller {
    call: Call,
    closed: crate::system::Task<()>,
}

impl Caller {
    async fn connect(address: std::net::SocketAddr, protocol: Protocol) -> Caller {
        let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
        let request =
            |path: &str| Request::get(format!("http://h{path}")).body(Empty::<Bytes>::new()).unwrap();
        async fn text(answer: hyper::Response<hyper::body::Incoming>) -> String {
            String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
        }
        match protocol {
            Protocol::Http1 => {
                let (mut sender, connection) = conn::http1::handshake(stream).await.unwrap();
                let closed = System::real().spawn(connection.map(drop));
                let call = move |path: &str| {
                    let answer = sender.send_request(request(path));
                    async move { text(answer.await.unwrap()).await }.boxed()
                };
                Caller { call: Box::new(call), closed }
            }
            Protocol::Http2 => {
                let (mut sender, connection) =
                    conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
                let closed = System::real().spawn(connection.map(drop));
                let call = move |path: &str| {
                    let answer = sender.send_request(request(path));
                    async move { text(answer.await.unwrap()).await }.boxed()
                };
                Caller { call: Box::new(call), closed }
            }
        }
    }
}

/// A handler that answers `late` once it is told to go on: itself, what tells that it was asked, and what tells it.
fn held() -> (MethodRouter, Arc<Notify>, Arc<Notify>) {
    let (asked, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, wait) = (Arc::clone(&asked), Arc::clone(&go_on));
    let answer = move || async move {
        tell.notify_one();
        wait.notified().await;
        "late"
    };
    (get(answer), asked, go_on)
}

#[rstest]
#[tokio::test]
async fn connections_close_when_they_are_replaced_and_new_ones_are_served(
    #[values(Protocol::Http1, Protocol::Http2)] protocol: Protocol,
) {
    let (held, asked, go_on) = held();
    let routes = Router::new().route("/", get(|| async { "hello" })).route("/held", held);
    let replaced = watch::Sender::new(0);
    let served = serve_until_replaced(protocol, routes, replaced.subscribe());
    for round in 1..3 {
        let mut idle = Caller::connect(served.address, protocol).await;
        assert_eq!((idle.call)("/").await, "hello");
        let mut busy = Caller::connect(served.address, protocol).await;
        let call = tokio::spawn((busy.call)("/held"));
        asked.notified().await;

        replaced.send_replace(round);
        idle.closed.await.unwrap();
        assert!(!busy.closed.is_finished());
        go_on.notify_one();
        assert_eq!(call.await.unwrap(), "late");
        busy.closed.await.unwrap();
    }
    drop(replaced);
    let mut last = Caller::connect(served.address, protocol).await;
    assert_eq!((last.call)("/").await, "hello", "nobody can replace it any more");
    served.shutdown.cancel();
    served.ended.await.unwrap();
}

#[rstest]
#[tokio::test]
async fn a_connection_closes_after_its_last_call_and_what_is_under_way_is_answered(
    #[values(Protocol::Http1, Protocol::Http2)] protocol: Protocol,
) {
    let (held, asked, go_on) = held();
    let routes = Router::new()
        .route("/", get(|| async { "hello" }))
        .route("/last", get(|| async { (axum::Extension(LastCall), "last") }))
        .route("/held", held);
    let served = serve(protocol, routes);
    let mut caller = Caller::connect(served.address, protocol).await;
    assert_eq!((caller.call)("/").await, "hello");
    let under_way = match protocol {
        Protocol::Http1 => None,
        Protocol::Http2 => {
            let call = tokio::spawn((caller.call)("/held"));
            asked.notified().await;
            Some(call)
        }
    };
    assert_eq!((caller.call)("/last").await, "last");
    if let Some(call) = under_way {
        assert!(!caller.closed.is_finished());
        go_on.notify_one();
        assert_eq!(call.await.unwrap(), "late");
    }
    caller.closed.await.unwrap();
    let mut next = Caller::connect(served.address, protocol).await;
    assert_eq!((next.call)("/").await, "hello");
    served.shutdown.cancel();
    served.ended.await.unwrap();
}
