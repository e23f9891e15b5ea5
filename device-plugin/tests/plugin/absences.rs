//! What has been away for too long is named by `/healthz`, and kubelet waits for none of it.

use std::net::TcpListener;
use std::time::{Duration, Instant};

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
async fn a_checkpoint_that_cannot_be_read_for_too_long() {
    let mut node = Node::new("inf2.xlarge");
    node.config.absence_limit = LIMIT;
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
    let answer = answers("checkpoint: it could not be read for 300ms: ").await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    std::fs::write(&file, before).unwrap();
    answers("HTTP/1.1 200").await;
}

#[tokio::test]
async fn a_hung_api_server_holds_kubelet_up_for_one_timeout_a_question() {
    let mut node = Node::new("inf2.xlarge");
    node.config.api_timeout = Duration::from_secs(1);
    node.config.holder_timeout = Duration::from_millis(300);
    let _kubelet = node.kubelet().await;
    // The kernel accepts connections to it, and nobody answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", silent.local_addr().unwrap());
    let hung = kube::Client::try_from(kube::Config::new(address.parse().unwrap())).unwrap();
    let _plugin = node.plugin_with(hung);
    node.shows("aws.amazon.com/neuron", 1).await;
    let began = Instant::now();
    node.place("p", asks("neuron", 1), &[]).await;
    node.phase("p", "Running").await;
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}
