//! A server whose clients need not mean well.

use super::*;

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
async fn a_head_that_does_not_end_is_refused_before_it_takes_much() {
    let mut client = serve_one(Protocol::Http1, Router::new(), true);
    let began = Instant::now();
    // The server is gone before it has taken all of it.
    let _cut = client.write_all(format!("GET / HTTP/1.1\r\nx: {}", "x".repeat(100 << 10)).as_bytes()).await;
    let mut told = Vec::new();
    client.read_to_end(&mut told).await.unwrap();
    assert!(told.starts_with(b"HTTP/1.1 431"), "{}", String::from_utf8_lossy(&told));
    assert!(began.elapsed() < Duration::from_secs(1), "it does not wait for the rest");
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

/// Gives the connections that are sent to it.
struct Dialled(mpsc::UnboundedReceiver<Connection>);

impl Listener for Dialled {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Connection>> {
        async {
            match self.0.recv().await {
                Some(connection) => Ok(connection),
                None => pending().await,
            }
        }
        .boxed()
    }

    fn address(&self) -> Address {
        Address::Unix("/dialled".into())
    }
}

/// Makes connections to an exposed server of its own.
fn serve_dialled(routes: Router) -> impl Fn() -> DuplexStream {
    let (dial, dialled) = mpsc::unbounded_channel();
    let system = System::real();
    let server = Server::new(system.clone(), Protocol::Http1, routes, GRACE).exposed();
    drop(system.spawn(server.run(Box::new(Dialled(dialled)), CancellationToken::new())));
    move || {
        let (client, server) = tokio::io::duplex(1024);
        dial.send(Connection::new(server, "client")).unwrap();
        client
    }
}

async fn ask(client: &mut DuplexStream, path: &str) {
    client.write_all(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()).await.unwrap();
}

/// Reads an answer that ends with this text.
async fn read_to(client: &mut DuplexStream, end: &str) {
    let mut answer = Vec::new();
    while !answer.ends_with(end.as_bytes()) {
        assert_ne!(client.read_buf(&mut answer).await.unwrap(), 0, "it was closed");
    }
}

/// A second is no time for a connection to become too quiet.
const SOON: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn an_exposed_server_has_so_many_connections_at_once_and_no_more() {
    let (began, mut begun) = mpsc::unbounded_channel();
    let go_on = Arc::new(Notify::new());
    let wait = Arc::clone(&go_on);
    let held = move || async move {
        began.send(()).unwrap();
        wait.notified().await;
        "late"
    };
    let dial = serve_dialled(Router::new().route("/held", get(held)));
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS + 2 {
        let mut client = dial();
        ask(&mut client, "/held").await;
        open.push(client);
    }
    for _ in 0..CONNECTIONS {
        timeout(SOON, begun.recv()).await.unwrap();
    }
    let a_while = Duration::from_secs(5);
    assert!(timeout(a_while, begun.recv()).await.is_err(), "none is closed that has a call under way");
    drop(open.remove(0));
    timeout(SOON, begun.recv()).await.unwrap();
    assert!(timeout(a_while, begun.recv()).await.is_err(), "one has gone, one has come");
    go_on.notify_one();
    timeout(SOON, begun.recv()).await.expect("one has become idle, one has come");
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_is_answered_though_idle_connections_hold_all_places() {
    let (held, asked, go_on) = held();
    let routes = Router::new().route("/healthz", get(|| async { "ok" })).route("/held", held);
    let dial = serve_dialled(routes);
    let mut busy = dial();
    ask(&mut busy, "/held").await;
    asked.notified().await;
    let mut idle = Vec::new();
    for _ in 1..CONNECTIONS {
        let mut client = dial();
        ask(&mut client, "/healthz").await;
        read_to(&mut client, "ok").await;
        idle.push(client);
        sleep(Duration::from_millis(1)).await;
    }
    // No longer the one that has been idle longest.
    ask(&mut idle[0], "/healthz").await;
    read_to(&mut idle[0], "ok").await;
    // Neither has these, which never call: they have just come.
    let mut silent = dial();
    let mut probe = dial();
    ask(&mut probe, "/healthz").await;
    timeout(SOON, read_to(&mut probe, "ok")).await.expect("the probe is answered at once");

    let mut closed = Vec::new();
    for (number, client) in idle.iter_mut().enumerate() {
        if let Ok(ended) = timeout(Duration::from_millis(1), client.read(&mut [0])).await {
            assert_eq!(ended.unwrap(), 0);
            closed.push(number);
        }
    }
    assert_eq!(closed, [1, 2], "those idle longest, one for each that has come");
    assert!(timeout(Duration::from_millis(1), silent.read(&mut [0])).await.is_err(), "it is still open");
    go_on.notify_one();
    read_to(&mut busy, "late").await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_still_being_taken_is_not_cut_for_a_new_connection() {
    let routes = Router::new()
        .route("/", get(|| async { "x".repeat(4096) }))
        .route("/healthz", get(|| async { "ok" }));
    let dial = serve_dialled(routes);
    let mut slow = dial();
    ask(&mut slow, "/").await;
    sleep(SOON).await;
    let mut idle = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut client = dial();
        ask(&mut client, "/healthz").await;
        timeout(SOON, read_to(&mut client, "ok")).await.unwrap();
        idle.push(client);
    }
    read_to(&mut slow, &"x".repeat(4096)).await;
}

#[tokio::test(start_paused = true)]
async fn who_takes_an_answer_byte_by_byte_is_gone_in_a_minute() {
    let long = Router::new().route("/", get(|| async { "x".repeat(1 << 20) }));
    let mut client = serve_one(Protocol::Http1, long, true);
    ask(&mut client, "/").await;
    for _ in 0..5 {
        sleep(Duration::from_secs(11)).await;
        client.read_exact(&mut [0]).await.unwrap();
    }
    client.write_all(b"G").await.unwrap();
    sleep(Duration::from_secs(6)).await;
    assert_eq!(client.write_all(b"E").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}

#[tokio::test(start_paused = true)]
async fn who_takes_no_answer_over_http2_is_gone_in_minutes() {
    // More than a client takes of itself.
    const SIZE: usize = 8 << 20;
    let long = Router::new().route("/", get(|| async { "x".repeat(SIZE) }));
    let client = serve_one(Protocol::Http2, long, true);
    let (mut sender, connection) =
        conn::http2::handshake(TokioExecutor::new(), TokioIo::new(client)).await.unwrap();
    let closed = System::real().spawn(connection.map(drop));
    let request = || Request::get("http://h/").body(Empty::<Bytes>::new()).unwrap();
    let taken = sender.send_request(request()).await.unwrap().into_body().collect().await.unwrap();
    assert_eq!(taken.to_bytes().len(), SIZE);
    let began = Instant::now();
    let _never_read = sender.send_request(request()).await.unwrap();
    timeout(Duration::from_secs(600), closed).await.expect("it is still open").unwrap();
    assert_eq!(began.elapsed().as_secs(), 60 + 32, "a minute, and what 8 MiB need over a slow link");
}

/// A replica that does not lead ends its connections with their calls.
#[tokio::test(start_paused = true)]
async fn who_takes_no_answer_over_http2_is_gone_in_minutes_also_where_it_is_the_last_one() {
    const SIZE: usize = 8 << 20;
    let last = Router::new().route("/", get(|| async { (axum::Extension(LastCall), "x".repeat(SIZE)) }));
    let client = serve_one(Protocol::Http2, last, true);
    let (mut sender, connection) =
        conn::http2::handshake(TokioExecutor::new(), TokioIo::new(client)).await.unwrap();
    let closed = System::real().spawn(connection.map(drop));
    let began = Instant::now();
    let request = Request::get("http://h/").body(Empty::<Bytes>::new()).unwrap();
    let _never_read = sender.send_request(request).await.unwrap();
    timeout(Duration::from_secs(600), closed).await.expect("it is still open").unwrap();
    assert_eq!(began.elapsed().as_secs(), 60 + 32);
}

#[tokio::test(start_paused = true)]
async fn an_answer_may_take_minutes_over_a_slow_link() {
    const SECOND: usize = 256 << 10;
    const SIZE: usize = 120 * SECOND;
    let mut client =
        serve_one(Protocol::Http1, Router::new().route("/", get(|| async { vec![b'x'; SIZE] })), true);
    ask(&mut client, "/").await;
    let (began, mut taken) = (Instant::now(), vec![0; SECOND]);
    for _ in 0..120 {
        sleep(Duration::from_secs(1)).await;
        client.read_exact(&mut taken).await.unwrap();
    }
    assert_eq!(began.elapsed().as_secs(), 120);
}
