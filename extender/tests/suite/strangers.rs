//! Callers that are no scheduler, or a broken one.

use http::Method;
use kube::ResourceExt as _;
use serde_json::{Value, json};
use testkit_support::within;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::logs::Log;
use crate::support::{World, pod};
use crate::tls::{Ca, Secret, world as secured};

/// Opens a connection and sends a call's head; its body would have this length.
async fn announce(world: &World, path: &str, length: usize) -> TcpStream {
    let address = world.address().trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

fn error(answer: &str) -> String {
    let answer: Value = serde_json::from_str(answer).unwrap();
    answer["Error"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_binding_that_is_longer_than_any_is_refused() {
    let world = World::with_nodes(&[("n1", "inf2.24xlarge")]).await;
    let pod = world.pod("one", "neuron", 1).await;
    let args = json!({
        "PodName": "one", "PodNamespace": "default", "PodUID": pod.uid().unwrap(), "Node": "n1",
        "Filler": "x".repeat(300 << 10),
    });
    let expected = "the body of /bind is longer than 64 KiB; send no more nodes or pods in one call";
    assert_eq!(error(&world.post("/bind", args).await), expected);
    assert_eq!(world.placed("one").await, (None, None));
    assert_eq!(world.bind(&pod, "n1").await, "");
}

#[tokio::test]
async fn of_what_is_sent_no_more_is_made_than_there_may_be() {
    let world = World::with_nodes(&[("n1", "inf2.24xlarge")]).await;
    let many = |entry: &str, count: usize| vec![entry; count].join(",");
    let filter = async |pod: String| {
        error(&world.post("/filter", format!("{{\"Pod\":{pod},\"NodeNames\":[\"n1\"]}}")).await)
    };
    let is_not = "the body of /filter is not what kube-scheduler sends: ";
    // A hundred times as long in memory as here.
    let containers = format!("{{\"spec\":{{\"containers\":[{}]}}}}", many("{}", 1_000_000));
    let why = filter(containers).await;
    assert!(why.starts_with(&format!("{is_not}more than 32768 containers")), "{why:.2000}");
    let quantity = format!("{{\"limits\":{{\"aws.amazon.com/neuron\":[{}]}}}}", many("0", 1_000_000));
    let why = filter(format!("{{\"spec\":{{\"containers\":[{{\"resources\":{quantity}}}]}}}}")).await;
    assert!(why.starts_with(&format!("{is_not}invalid type: sequence, expected a quantity")), "{why:.2000}");
    let name = format!("{{\"spec\":{{\"containers\":[{{\"name\":\"{}\"}}]}}}}", "n".repeat(1_000_000));
    let why = filter(name).await;
    assert!(why.starts_with(&format!("{is_not}a text of more than 63 bytes")), "{why:.2000}");
    let victims = format!("{{\"n1\":{{\"Pods\":[{}]}}}}", many("{\"UID\":\"u\"}", 100_001));
    let args = format!("{{\"Pod\":{{\"spec\":{{}}}},\"NodeNameToMetaVictims\":{victims}}}");
    let (status, why) = world.call(Method::POST, "/preempt", args).await;
    assert_eq!(status, 400);
    let is_not = "the body of /preempt is not what kube-scheduler sends: ";
    assert!(why.starts_with(&format!("{is_not}more than 100000 victims")), "{why:.2000}");
    // A pod of many containers of which few ask is understood all the same.
    let mut pod = pod("many", "neuron", 1);
    let asks = pod["spec"]["containers"][0].clone();
    pod["spec"]["containers"] =
        (0..1000).map(|number| json!({"name": format!("c{number}")})).chain([asks]).collect();
    let args = json!({"Pod": pod, "NodeNames": ["n1"]});
    let answer: Value = serde_json::from_str(&world.post("/filter", args).await).unwrap();
    assert_eq!((&answer["NodeNames"], &answer["Error"]), (&json!(["n1"]), &json!("")));
}

#[tokio::test]
async fn bodies_that_never_come_hold_up_neither_bind_nor_probes() {
    let world = World::with_nodes(&[("n1", "inf2.24xlarge")]).await;
    let pod = world.pod("one", "neuron", 1).await;
    let _held = announce(&world, "/filter", 256 << 20).await;
    let mut refused = announce(&world, "/preempt", 128 << 20).await;
    let expected = "there was no room for the body of /filter for 3s, for other calls' bodies; try again";
    assert_eq!(world.filter(&pod, &["n1"]).await["Error"], expected);
    let mut answer = String::new();
    within("an answer", refused.read_to_string(&mut answer)).await.unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 503 ") && answer.contains("the body of /preempt for 3s"),
        "{answer}"
    );
    assert_eq!(world.get("/healthz").await.0, 200);
    assert_eq!(world.bind(&pod, "n1").await, "");
}

#[tokio::test]
async fn verbs_that_are_open_are_told_of() {
    let (log, _guard) = Log::start();
    let open = "neuron_extender_verbs_open";
    let shown = async |world: &World| {
        let (_, text) = world.get("/metrics").await;
        text.lines().find(|line| line.starts_with(open)).unwrap().to_owned()
    };
    let servers = Ca::new("servers");
    let closed = Secret::new(&servers.server(), Some(&Ca::new("clients")));
    assert_eq!(shown(&secured(&closed, &servers, true).await).await, format!("{open} 0"));
    assert_eq!(log.lines("the verbs are open"), [""; 0]);
    assert_eq!(shown(&secured(&closed, &servers, false).await).await, format!("{open} 1"));
    assert_eq!(shown(&World::with_nodes(&[]).await).await, format!("{open} 1"));
    let lines = log.lines("the verbs are open");
    assert_eq!(lines.len(), 2, "once each: {lines:?}");
    let ways_out =
        ["--client-ca", "deploy/https-extender-patch.yml", "deploy/k8s-neuron-scheduler-networkpolicy.yml"];
    assert!(lines[0].starts_with("WARN") && ways_out.iter().all(|way| lines[0].contains(way)), "{lines:?}");
}
