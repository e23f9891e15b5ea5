//! Pods of DaemonSets that ask for nothing, the plugin's own among them, hold nothing, whatever they are allowed to do on the node (T13
//! of the conformance list; aws-neuron/aws-neuron-sdk#1300).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::node::{Node, asks};

/// A container that may do everything and sees every device, with these limits.
fn privileged(limits: &Value) -> Value {
    json!({
        "hostPID": true,
        "tolerations": [{"operator": "Exists"}],
        "volumes": [{"name": "dev", "hostPath": {"path": "/dev"}}],
        "containers": [{
            "name": "main",
            "image": "none",
            "securityContext": {"privileged": true},
            "volumeMounts": [{"name": "dev", "mountPath": "/dev"}],
            "resources": {"limits": limits, "requests": limits},
        }],
    })
}

#[tokio::test]
async fn pods_that_ask_for_nothing_hold_nothing_though_they_see_every_device() {
    let node = Node::new("inf2.24xlarge");
    let _kubelet = node.kubelet().await;
    let nothing = [("plugin", json!({"cpu": "10m"})), ("zero", json!({"aws.amazon.com/neuron": "0"}))];
    // Some were there before the plugin.
    for (name, limits) in &nothing {
        node.create(name, privileged(limits)).await;
        node.bind(name, &BTreeMap::new()).await;
        node.phase(name, "Running").await;
    }
    let plugin = node.plugin();
    node.shows("aws.amazon.com/neuron", 6).await;
    node.shows("aws.amazon.com/neuroncore", 12).await;
    node.place("monitor", privileged(&json!({})), &[]).await;
    node.phase("monitor", "Running").await;
    node.report("nobody", |report| report["holders"] == json!([])).await;

    node.place("all", asks("neuron", 6), &[("main", "0,1,2,3,4,5", "")]).await;
    node.phase("all", "Running").await;
    let is_only = |report: &Value| {
        let holders = report["holders"].as_array();
        holders.is_some_and(|all| all.len() == 1 && all[0]["pod"] == "default/all")
    };
    node.report("the pod that asked", is_only).await;
    for name in ["plugin", "zero", "monitor"] {
        node.phase(name, "Running").await;
        assert_eq!(node.annotation(name, "neuron-scheduler/allocation").await, None, "of {name}");
    }
    // A plugin that comes anew reads all of them from the API server and from kubelet's checkpoint.
    plugin.stop().await;
    node.shows("aws.amazon.com/neuron", 0).await;
    node.delete("all").await;
    let _plugin = node.plugin();
    node.shows("aws.amazon.com/neuron", 6).await;
    node.a_pod_runs(6).await;
    node.report("nobody", |report| report["holders"] == json!([])).await;
}
