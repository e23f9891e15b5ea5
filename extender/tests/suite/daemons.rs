//! The device plugin's own pod and other pods of DaemonSets ask for nothing, and never count as holders, whatever they are allowed to do
//! on the node (T13 of the conformance list; aws-neuron/aws-neuron-sdk#1300).

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use neuron_extender::Config;
use serde_json::{Value, json};
use testkit_support::eventually;

use crate::support::{World, bound, pod};

const PLUGIN: &str = include_str!("../../../deploy/k8s-neuron-device-plugin.yml");

/// The pod that the DaemonSet controller makes of a template for a node.
fn daemon(name: &str, template: &Value, node: &str) -> Value {
    let mut pod = json!({"metadata": template["metadata"], "spec": template["spec"]});
    pod["metadata"]["name"] = json!(name);
    pod["metadata"]["namespace"] = json!("kube-system");
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": name, "controller": true}]);
    pod["spec"]["nodeName"] = json!(node);
    pod
}

/// The template of the plugin as it is deployed.
fn plugin() -> Value {
    let objects: Vec<Value> = serde_saphyr::from_multiple(PLUGIN).unwrap();
    let daemon_set = objects.into_iter().find(|object| object["kind"] == "DaemonSet").unwrap();
    daemon_set["spec"]["template"].clone()
}

/// One that may do everything and sees every device, with these limits.
fn privileged(limits: Value) -> Value {
    json!({"metadata": {"labels": {"name": "monitor"}}, "spec": {
        "hostPID": true,
        "tolerations": [{"operator": "Exists"}],
        "volumes": [{"name": "dev", "hostPath": {"path": "/dev"}}],
        "containers": [{
            "name": "monitor",
            "image": "monitor",
            "securityContext": {"privileged": true},
            "volumeMounts": [{"name": "dev", "mountPath": "/dev"}],
            "resources": {"limits": limits, "requests": limits},
        }],
    }})
}

#[tokio::test]
async fn pods_that_ask_for_nothing_hold_nothing_though_they_see_every_device() {
    let event_delay = Duration::from_millis(100);
    let config = Config { event_delay, bind_deadline: Duration::from_secs(2), ..Config::default() };
    let nodes = [("n1", "inf2.xlarge"), ("n2", "inf2.xlarge")];
    let mut world = World::configured(config, &nodes).await;
    let daemons: Api<Pod> = Api::namespaced(world.client.clone(), "kube-system");
    for (name, template) in [
        ("plugin", plugin()),
        ("monitor", privileged(json!({"cpu": "10m"}))),
        ("zero", privileged(json!({"aws.amazon.com/neuron": "0", "aws.amazon.com/neuroncore": "0"}))),
    ] {
        let pod = serde_json::from_value(daemon(name, &template, "n1")).unwrap();
        daemons.create(&PostParams::default(), &pod).await.unwrap();
    }
    // It holds nobody knows what: its event shows that the watch has come so far, and that such events come.
    world.create(bound(pod("stray", "neuron", 1), "n2", json!({}))).await;
    eventually("the event of the stray", async || {
        (!world.notes("NeuronHolderUnknown").await.is_empty()).then_some(())
    })
    .await;
    let events = world.everything().await.remove(2).to_string();
    assert!(events.contains("Node n2") && !events.contains("Node n1"), "{events}");

    let whole = world.pod("whole", "neuron", 1).await;
    assert!(world.fits(&whole, "n1").await && !world.fits(&whole, "n2").await);
    let (_, metrics) = world.get("/metrics").await;
    let free = |line: &&str| {
        line.starts_with("neuron_extender_devices{") && line.contains("n1") && line.contains("state=\"free\"")
    };
    let line = metrics.lines().find(free).unwrap_or_default();
    assert!(line.ends_with(" 1"), "{line:?}");

    // As after a reinstallation: they are there before the extender is.
    world.stop().await;
    world.start().await;
    assert!(world.fits(&whole, "n1").await);
    assert_eq!(world.bind_after_start(&whole, "n1").await, "");
    assert_eq!(world.placed("whole").await, (Some("n1".into()), Some("0".into())));
}
