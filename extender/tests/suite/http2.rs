//! HTTP/2 over HTTPS, which kube-scheduler's client speaks where it is offered.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use neuron_extender::{Config, LeaderElection};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use testkit_support::{eventually, within};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::logs::Log;
use crate::support::{Fault, World};
use crate::tls::{Ca, Pair, Secret, configured, question};

/// An extender that asks for client certificates, and the CAs.
struct Secured {
    world: World,
    servers: Ca,
    clients: Ca,
}

impl Secured {
    async fn start() -> Secured {
        Secured::configured(Config::default()).await
    }

    async fn configured(config: Config) -> Secured {
        let (servers, clients) = (Ca::new("servers"), Ca::new("clients"));
        let secret = Secret::new(&servers.server(), Some(&clients));
        let world = configured(config, &secret, &servers, true).await;
        Secured { world, servers, clients }
    }

    /// A connection of a client that speaks these protocols, the best first, and shows this certificate.
    async fn connect(&self, speaks: &[&str], identity: Option<&Pair>) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.servers.pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.unwrap().with_root_certificates(roots);
        let mut config = match identity {
            Some(Pair { certificate, key }) => {
                let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                config.with_client_auth_cert(vec![certificate], key).unwrap()
            }
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = speaks.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        let address = self.world.address().trim_start_matches("https://");
        let stream = TcpStream::connect(address).await.unwrap();
        TlsConnector::from(Arc::new(config)).connect("127.0.0.1".try_into().unwrap(), stream).await.unwrap()
    }
}

fn chosen(stream: &TlsStream<TcpStream>) -> Option<String> {
    stream.get_ref().1.alpn_protocol().map(|name| String::from_utf8(name.to_vec()).unwrap())
}

fn post(path: &str, body: impl ToString) -> Request<Full<Bytes>> {
    let body = Full::from(body.to_string());
    Request::post(format!("https://127.0.0.1{path}")).header("host", "127.0.0.1").body(body).unwrap()
}

async fn answered(answer: hyper::Result<http::Response<Incoming>>) -> (u16, Value) {
    let answer = answer.unwrap();
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

#[tokio::test]
async fn calls_share_one_connection_and_do_not_wait_for_each_other() {
    let secured = Secured::start().await;
    let world = &secured.world;
    let stream = secured.connect(&["h2", "http/1.1"], Some(&secured.clients.client_named("one"))).await;
    assert_eq!(chosen(&stream).as_deref(), Some("h2"));
    let (mut http, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);

    let pod = world.pod("one", "neuron", 1).await;
    let gate = Arc::new(Semaphore::new(0));
    world.faults.push(Fault::Held(gate.clone()));
    let args = json!({
        "PodName": "one", "PodNamespace": "default", "PodUID": pod.uid().unwrap(), "Node": "n1",
    });
    let bind = tokio::spawn(http.send_request(post("/bind", args)));
    let (status, answer) =
        within("filter", async { answered(http.send_request(post("/filter", question())).await).await })
            .await;
    assert_eq!((status, &answer["NodeNames"]), (200, &json!(["n1"])));
    assert!(!bind.is_finished());
    world.shut_down();
    gate.add_permits(1);
    let bound = within("the bind", bind).await.unwrap();
    assert_eq!(answered(bound).await, (200, json!({"Error": ""})));
    within("the connection's end", connection).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_client_that_speaks_http1_alone_is_served_as_before() {
    let secured = Secured::start().await;
    let identity = secured.clients.client_named("one");
    for speaks in [&["http/1.1"][..], &[]] {
        let stream = secured.connect(speaks, Some(&identity)).await;
        assert_eq!(chosen(&stream).as_deref(), speaks.first().copied());
        let (mut http, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let (status, answer) = answered(http.send_request(post("/filter", question())).await).await;
        assert_eq!((status, &answer["NodeNames"]), (200, &json!(["n1"])));
    }
}

#[tokio::test]
async fn a_call_without_a_certificate_is_refused() {
    let secured = Secured::start().await;
    let stream = secured.connect(&["h2"], None).await;
    let (mut http, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    for path in ["/filter", "/prioritize", "/preempt", "/bind"] {
        assert_eq!(answered(http.send_request(post(path, question())).await).await.0, 403, "{path}");
    }
}

/// Whom no certificate keeps away must not fill the memory: of thousands of nodes each answer is megabytes.
#[tokio::test]
async fn metrics_that_nobody_takes_are_few() {
    let secured = Secured::start().await;
    let world = &secured.world;
    let stream = secured.connect(&["h2"], None).await;
    let mut client = http2::Builder::new(TokioExecutor::new());
    client.initial_stream_window_size(1024);
    let (mut http, connection) = client.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut untaken = Vec::new();
    for _ in 0..4 {
        let request = Request::get("https://h/metrics").body(Full::<Bytes>::default()).unwrap();
        untaken.push(http.send_request(request).await.unwrap());
    }
    let (status, why) = world.get("/metrics").await;
    assert_eq!(status, 503, "{why}");
    assert!(why.ends_with("too slowly; try again"), "{why}");
    assert_eq!(world.get("/healthz").await.0, 200);
    drop(untaken);
    assert_eq!(world.get("/metrics").await.0, 200);
}

#[tokio::test]
async fn the_log_says_who_called() {
    let (log, _guard) = Log::start();
    let secured = Secured::start().await;
    let pod = secured.world.pod("one", "neuron", 1).await;
    let stream = secured.connect(&["h2"], Some(&secured.clients.client_named("zone-a scheduler"))).await;
    let (mut http, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let args = json!({
        "PodName": "one", "PodNamespace": "default", "PodUID": pod.uid().unwrap(), "Node": "n1",
    });
    assert_eq!(answered(http.send_request(post("/bind", args)).await).await.1, json!({"Error": ""}));
    let lines = log.lines("pod bound");
    let starts = "INFO call{client=\"zone-a scheduler\"}:bind{pod=\"default/one\" node=\"n1\"}: pod bound";
    assert!(lines.len() == 1 && lines[0].starts_with(starts), "{lines:?}");
}

#[tokio::test]
async fn a_leader_that_is_deposed_closes_connections_without_a_call() {
    let election = LeaderElection {
        namespace: "kube-system".to_owned(),
        lease: "k8s-neuron-scheduler".to_owned(),
        lease_duration: Duration::from_secs(15),
        pod: "a".to_owned(),
        labels_pod: false,
    };
    let config = Config { leader_election: Some(election), ..Config::default() };
    let secured = Secured::configured(config).await;
    let world = &secured.world;
    eventually("it leads", async || {
        world.get("/metrics").await.1.contains("\nneuron_extender_leader 1\n").then_some(())
    })
    .await;
    let stream = secured.connect(&["h2"], Some(&secured.clients.client_named("one"))).await;
    let (mut http, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    assert_eq!(answered(http.send_request(post("/filter", question())).await).await.0, 200);
    assert!(!connection.is_finished(), "it leads");
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), "kube-system");
    let patch = Patch::Merge(json!({"spec": {"holderIdentity": "another one"}}));
    leases.patch("k8s-neuron-scheduler", &PatchParams::default(), &patch).await.unwrap();
    within("the connection's end", connection).await.unwrap().unwrap();
}
