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

#[rstest]
#[case::silent(Protocol::Http1, "")]
#[case::half_a_head(Protocol::Http1, "GET / HTT")]
#[case::silent_in_http2(Protocol::Http2, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")]
#[tokio::test(start_paused = true)]
async fn who_never_calls_an_exposed_server_is_gone_in_ten_seconds(
    #[case] protocol: Protocol,
    #[case] says: &str,
) {
    let mut client = serve_one(protocol, Router::new(), true);
    let began = Instant::now();
    client.write_all(says.as_bytes()).await.unwrap();
    client.read_to_end(&mut Vec::new()).await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn who_takes_no_answer_of_an_exposed_server_is_gone_in_half_a_minute() {
    let long = Router::new().route("/", get(|| async { "x".repeat(1 << 20) }));
    let mut client = serve_one(Protocol::Http1, long, true);
    client.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();
    sleep(Duration::from_secs(20)).await;
    let mut taken = [0; 1024];
    assert_eq!(client.read(&mut taken).await.unwrap(), taken.len(), "it has taken something");
    sleep(Duration::from_secs(29)).await;
    client.write_all(b"G").await.unwrap();
    sleep(Duration::from_secs(2)).await;
    assert_eq!(client.write_all(b"E").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}

#[tokio::test(start_paused = true)]
async fn an_http2_client_of_an_exposed_server_that_is_gone_is_noticed() {
    let (asked, mut gone) = mpsc::channel(1);
    let held = move || async move {
        let (hold, held) = oneshot::channel::<()>();
        asked.send(held).await.unwrap();
        let _hold = hold;
        pending::<()>().await;
    };
    let mut near = serve_one(Protocol::Http2, Router::new().route("/", get(held)), true);
    let (client, mut far) = tokio::io::duplex(1024);
    let cut = Arc::new(Notify::new());
    let link = Arc::clone(&cut);
    drop(System::real().spawn(async move {
        tokio::select! {
            _ = tokio::io::copy_bidirectional(&mut far, &mut near) => {}
            () = link.notified() => pending::<()>().await,
        }
    }));
    let (mut sender, connection) =
        conn::http2::handshake(TokioExecutor::new(), TokioIo::new(client)).await.unwrap();
    drop(System::real().spawn(connection.map(drop)));
    let mut call =
        std::pin::pin!(sender.send_request(Request::get("http://h/").body(Empty::<Bytes>::new()).unwrap()));
    let held = tokio::select! {
        _ = call.as_mut() => panic!("the call was answered"),
        held = gone.recv() => held.unwrap(),
    };
    // Neither side is told.
    cut.notify_one();
    let began = Instant::now();
    held.await.unwrap_err();
    assert_eq!(began.elapsed().as_secs(), 40);
}

#[tokio::test(start_paused = true)]
async fn an_http2_connection_to_an_exposed_server_may_be_idle_for_two_minutes() {
    let client = serve_one(Protocol::Http2, Router::new().route("/", get(|| async { "hello" })), true);
    let (mut sender, connection) =
        conn::http2::handshake(TokioExecutor::new(), TokioIo::new(client)).await.unwrap();
    let closed = System::real().spawn(connection.map(drop));
    for _ in 0..2 {
        sender.send_request(Request::get("http://h/").body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
        sleep(Duration::from_secs(90)).await;
        assert!(!closed.is_finished());
    }
    let began = Instant::now();
    closed.await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 30);
}

/// Gives ever new connections, whose other ends it hands out.
struct Many(mpsc::UnboundedSender<DuplexStream>);

impl Listener for Many {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Connection>> {
        let (client, server) = tokio::io::duplex(1024);
        self.0.send(client).unwrap();
        std::future::ready(Ok(Connection::new(server, "client"))).boxed()
    }

    fn address(&self) -> Address {
        Address::Unix("/many".into())
    }
}

#[tokio::test(start_paused = true)]
async fn an_exposed_server_has_so_many_connections_at_once_and_no_more() {
    let (accepted, mut clients) = mpsc::unbounded_channel();
    let system = System::real();
    let server = Server::new(system.clone(), Protocol::Http1, Router::new(), GRACE).exposed();
    drop(system.spawn(server.run(Box::new(Many(accepted)), CancellationToken::new())));
    let mut open = Vec::new();
    let a_while = Duration::from_secs(5);
    while let Ok(Some(client)) = timeout(a_while, clients.recv()).await {
        open.push(client);
    }
    assert_eq!(open.len(), CONNECTIONS);
    open.pop();
    open.push(timeout(a_while, clients.recv()).await.unwrap().unwrap());
    assert!(timeout(Duration::from_secs(1), clients.recv()).await.is_err(), "one has gone, one has come");
}
