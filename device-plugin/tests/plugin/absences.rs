//! What has been away for too long is named by `/healthz`, and kubelet waits for none of it.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use fake_cluster::Version::{self, V1_34, V1_37};
use rstest::rstest;
use testkit_support::eventually;

use crate::node::{Node, asks, get};

/// How long something may be away.
const LIMIT: Duration = Duration::from_millis(300);

#[tokio::test]
async fn an_api_server_that_is_away_for_too_long() {
    let mut node = Node::new("inf2.xlarge");
    node.config.absence_limit = LIMIT;
    let address = node.listen();
    let nobody = kube::Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
    let _plugin = node.plugin_with(nobody);
    let why = "API server: the node report could not be written for 300ms";
    eventually("the reason", async || get(address, "/healthz").await.filter(|answer| answer.contains(why)))
        .await;
}

#[tokio::test]
async fn an_api_server_that_goes_away_for_too_long_and_comes_back() {
    let mut node = Node::new("inf2.xlarge");
    (node.config.report_interval, node.config.absence_limit) = (LIMIT / 3, LIMIT);
    let address = node.listen();
    let _kubelet = node.kubelet().await;
    let _plugin = node.plugin();
    let answers = async |what: &str| {
        eventually(what, async || get(address, "/healthz").await.filter(|answer| answer.contains(what))).await
    };
    answers("HTTP/1.1 200").await;
    node.api.set_available(false);
    answers("API server: the node report could not be written for 300ms").await;
    node.api.set_available(true);
    answers("HTTP/1.1 200").await;
}

#[tokio::test]
async fn a_checkpoint_that_says_nothing_for_too_long() {
    let mut node = Node::new("inf2.xlarge");
    node.config.absence_limit = LIMIT;
    node.config.report_interval = LIMIT / 3;
    let address = node.listen();
    let _kubelet = node.kubelet().await;
    let _plugin = node.plugin();
    node.shows("aws.amazon.com/neuroncore", 2).await;
    let answers = async |what: &str| {
        eventually(what, async || get(address, "/healthz").await.filter(|answer| answer.contains(what))).await
    };
    answers("HTTP/1.1 200").await;

    let file = node.socket("kubelet_internal_checkpoint");
    let before = std::fs::read(&file).unwrap();
    std::fs::write(&file, "garbled").unwrap();
    let answer = answers("checkpoint: it has said nothing for 300ms: kubelet's checkpoint ").await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    let unreadable =
        async |is: u8| metric(address, &format!("neuron_device_plugin_checkpoint_unreadable {is}")).await;
    unreadable(1).await;
    std::fs::write(&file, &before).unwrap();
    answers("HTTP/1.1 200").await;
    unreadable(0).await;

    std::fs::remove_file(&file).unwrap();
    let answer = answers("checkpoint: it has said nothing for 300ms: kubelet has written none").await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    std::fs::write(&file, before).unwrap();
    answers("HTTP/1.1 200").await;
}

async fn metric(address: std::net::SocketAddr, line: &str) {
    let shown =
        async || get(address, "/metrics").await.filter(|text| text.lines().any(|shown| shown == line));
    eventually(line, shown).await;
}

/// kubelet 1.37 tells its own pods, an older one does not.
#[rstest]
#[tokio::test]
async fn a_hung_api_server_holds_kubelet_up_for_one_timeout_a_question(
    #[values(V1_34, V1_37)] version: Version,
) {
    let mut node = Node::of(version, "inf2.xlarge");
    node.config.api_timeout = Duration::from_secs(1);
    node.config.holder_timeout = Duration::from_millis(300);
    let address = node.listen();
    let _kubelet = node.kubelet().await;
    // The kernel accepts connections to it, and nobody answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let hung = kube::Client::try_from(kube::Config::new(url.parse().unwrap())).unwrap();
    let _plugin = node.plugin_with(hung);
    node.shows("aws.amazon.com/neuron", 1).await;
    let began = Instant::now();
    node.place("p", asks("neuron", 1), &[]).await;
    node.phase("p", "Running").await;
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    let waited = "neuron_device_plugin_holder_wait_seconds_total{call=\"GetPreferredAllocation\"} ";
    let text = get(address, "/metrics").await.unwrap();
    let waited = text.lines().find_map(|line| line.strip_prefix(waited)).unwrap();
    assert_eq!(waited.parse::<f64>().unwrap() >= 1.0, version == V1_34, "the metric says {waited} s");
}
