//! What a plugin does by kubelet's checkpoint while that says nothing: it has another form, or cannot be read.

use neuron_core::names::NEURONCORE;
use serde_json::json;
use testkit_support::eventually;

use crate::captured::Log;
use crate::manual_kubelet::{ManualKubelet, node_object, registered, request};
use crate::node::{Node, asks, get};

#[tokio::test]
async fn a_checkpoint_of_another_form_is_told_once_and_records_of_started_containers_still_count() {
    let log = Log::capture();
    let (node, kubelet, _plugin) = registered("inf2.24xlarge").await;
    node.place("p", asks("neuron", 1), &[("main", "0", "")]).await;
    let running = json!({"status": {"phase": "Running", "containerStatuses": [
        {"name": "main", "image": "none", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {}}},
    ]}});
    let params = kube::api::PatchParams::default();
    node.pods().patch_status("p", &params, &kube::api::Patch::Merge(&running)).await.unwrap();
    kubelet.write_text("{\"Data\":[]}");
    let event = async || {
        let told = node.events().await;
        told.iter()
            .any(|event| event.starts_with("n1: NeuronCheckpointUnreadable: kubelet's checkpoint "))
            .then_some(())
    };
    eventually("the event", event).await;
    let mut plugin = kubelet.devices().await;
    let refused = plugin.allocate(request(&["neuron0".to_owned()])).await.unwrap_err();
    assert!(refused.message().contains("pod default/p holds neuron0"), "{}", refused.message());
    plugin.allocate(request(&["neuron1".to_owned()])).await.unwrap();
    assert_eq!(log.lines("going on without kubelet's checkpoint").len(), 1);
}

/// It has no record and has not started, so nothing but the checkpoint says that it has a device.
#[tokio::test]
async fn a_pod_keeps_what_the_checkpoint_said_last_while_that_cannot_be_read() {
    let (node, kubelet, _plugin) = registered("inf2.24xlarge").await;
    node.place("p", asks("neuron", 1), &[]).await;
    let ids = kubelet.admit(&["neuron0"], 1).await;
    kubelet.write(&node, &[("p", &ids)]).await;
    node.report("the pod that has it", |report| report["holders"] != json!([])).await;
    kubelet.hide_checkpoint();
    let event = async || {
        let told = node.events().await;
        told.iter().any(|event| event.contains("NeuronCheckpointUnreadable")).then_some(())
    };
    eventually("the event", event).await;
    let mut cores = kubelet.plugin_of(NEURONCORE).await;
    let refused = cores.allocate(request(&["neuroncore0".to_owned()])).await.unwrap_err();
    assert!(refused.message().contains("pod default/p holds neuroncore0"), "{}", refused.message());
    let report = node.report("the holders", |report| !report["holders"].is_null()).await;
    assert_ne!(report["holders"], json!([]), "the report keeps the pod");
}

#[tokio::test]
async fn a_plugin_that_starts_serves_nothing_before_it_could_read_the_checkpoint() {
    let mut node = Node::new("inf2.24xlarge");
    let address = node.listen();
    node_object(&node).await;
    let kubelet = ManualKubelet::start(&node);
    node.place("p", asks("neuron", 1), &[]).await;
    kubelet.write(&node, &[("p", &["neuron0".to_owned()])]).await;
    let hidden = kubelet.hide_checkpoint();
    let _plugin = node.plugin();
    let said = async || {
        let answer = get(address, "/healthz").await?;
        answer.contains("checkpoint: kubelet's checkpoint ").then_some(answer)
    };
    let answer = eventually("why it does not serve", said).await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(kubelet.sockets().is_empty(), "it has registered");
    kubelet.show_checkpoint(hidden);
    kubelet.registered(1).await;
    let mut cores = kubelet.plugin_of(NEURONCORE).await;
    let refused = cores.allocate(request(&["neuroncore0".to_owned()])).await.unwrap_err();
    assert!(refused.message().contains("pod default/p holds neuroncore0"), "{}", refused.message());
}
