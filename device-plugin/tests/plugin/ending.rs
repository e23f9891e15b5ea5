//! A plugin that is to end first answers what kubelet has asked.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use serde_json::json;
use testkit_support::{eventually, within};

use crate::manual_kubelet::{ManualKubelet, node_object, request};
use crate::node::{Node, asks, get};

/// Longer than a server had to end before.
const HOLDER_TIMEOUT: Duration = Duration::from_secs(6);

#[tokio::test]
async fn an_allocate_that_waits_is_answered_before_the_plugin_ends() {
    let mut node = Node::new("inf2.24xlarge");
    node.config.holder_timeout = HOLDER_TIMEOUT;
    let address = node.listen();
    node_object(&node).await;
    let kubelet = ManualKubelet::start(&node);
    let plugin = node.plugin();
    kubelet.registered(1).await;
    node.place("holder", asks("neuron", 1), &[("main", "0", "")]).await;
    let running = json!({"status": {"phase": "Running", "containerStatuses": [
        {"name": "main", "image": "none", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {}}},
    ]}});
    node.pods().patch_status("holder", &PatchParams::default(), &Patch::Merge(&running)).await.unwrap();
    node.report("the holder", |report| report["holders"] != json!([])).await;
    let mut devices = kubelet.devices().await;
    let waits = tokio::spawn(async move { devices.allocate(request(&["neuron0".to_owned()])).await });
    let open = async || {
        let waited = "neuron_device_plugin_holder_wait_seconds_total{call=\"Allocate\"} ";
        let text = get(address, "/metrics").await?;
        text.lines().find_map(|line| line.strip_prefix(waited)).filter(|seconds| *seconds != "0.0").map(drop)
    };
    eventually("the Allocate to wait", open).await;
    plugin.stop().await;
    let refused = within("the answer", waits).await.unwrap().unwrap_err();
    assert!(refused.message().contains("pod default/holder holds neuron0"), "{}", refused.message());
}
