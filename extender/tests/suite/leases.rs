//! A node whose device plugin is silent takes no new pod: kubelet may go on to advertise what nobody answers for.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use neuron_extender::Config;
use serde_json::json;
use testkit_support::eventually;

use crate::support::World;

const SILENT: &str = "the node's Neuron device plugin has not renewed its Lease neuron-device-plugin-n1 for too long; the node takes no \
                      new Neuron pod until it does: look at the plugin's pod there, or delete the Lease of a plugin that was \
                      taken away";

fn leases(world: &World) -> Api<Lease> {
    Api::namespaced(world.client.clone(), "kube-system")
}

/// Creates the Lease of a plugin, which lasts a second.
async fn lease(world: &World, name: &str, renewed: &str) {
    let lease =
        json!({"metadata": {"name": name}, "spec": {"leaseDurationSeconds": 1, "renewTime": renewed}});
    let lease = serde_json::from_value(lease).unwrap();
    leases(world).create(&PostParams::default(), &lease).await.unwrap();
}

async fn world(grace: Option<Duration>) -> World {
    let config = Config { lease_grace: grace, ..Config::default() };
    World::configured(config, &[("n1", "inf2.xlarge"), ("n2", "inf2.xlarge"), ("other", "inf2.xlarge")]).await
}

#[tokio::test]
async fn a_node_takes_pods_while_its_plugin_renews_its_lease() {
    let world = world(Some(Duration::from_millis(200))).await;
    let one = world.pod("one", "neuron", 1).await;
    // The plugin's clock may say what it likes.
    lease(&world, "neuron-device-plugin-n1", "2000-01-01T00:00:00.000000Z").await;
    // A Lease of somebody else, whose name is that of a node.
    lease(&world, "other", "2000-01-01T00:00:00.000000Z").await;
    eventually("n1 to take no pod", async || {
        let answer = world.filter(&one, &["n1", "n2", "other"]).await;
        (answer["FailedNodes"] == json!({"n1": SILENT}))
            .then(|| assert_eq!(answer["NodeNames"], json!(["n2", "other"])))
    })
    .await;
    let nodes = json!({"n1": {"Pods": [], "NumPDBViolations": 0}});
    let args = json!({"Pod": one, "NodeNameToMetaVictims": nodes});
    assert_eq!(
        world.post("/preempt", args).await,
        r#"{"NodeNameToMetaVictims":{}}"#,
        "nobody is ended for it"
    );
    let renewed = json!({"spec": {"leaseDurationSeconds": 3600, "renewTime": "2000-01-01T00:00:10.000000Z"}});
    let patch = Patch::Merge(renewed);
    leases(&world).patch("neuron-device-plugin-n1", &PatchParams::default(), &patch).await.unwrap();
    eventually("n1 to take pods", async || world.fits(&one, "n1").await.then_some(())).await;
    // A plugin that was taken away for good leaves a node as one that never had a Lease.
    let expired = json!({"spec": {"leaseDurationSeconds": 1, "renewTime": "2000-01-01T00:00:20.000000Z"}});
    let patch = Patch::Merge(expired);
    leases(&world).patch("neuron-device-plugin-n1", &PatchParams::default(), &patch).await.unwrap();
    eventually("n1 to take no pod", async || (!world.fits(&one, "n1").await).then_some(())).await;
    leases(&world).delete("neuron-device-plugin-n1", &DeleteParams::default()).await.unwrap();
    eventually("n1 to take pods", async || world.fits(&one, "n1").await.then_some(())).await;
}

#[tokio::test]
async fn leases_are_not_looked_at_where_that_is_off() {
    let world = world(None).await;
    let one = world.pod("one", "neuron", 1).await;
    lease(&world, "neuron-device-plugin-n1", "2000-01-01T00:00:00.000000Z").await;
    lease(&world, "neuron-device-plugin-n2", "2000-01-01T00:00:00.000000Z").await;
    let end = tokio::time::Instant::now() + Duration::from_millis(1500);
    while tokio::time::Instant::now() < end {
        assert!(world.fits(&one, "n1").await);
    }
    let (_, metrics) = world.get("/metrics").await;
    assert!(!metrics.contains("watch=\"leases\""), "they are not watched");
}
