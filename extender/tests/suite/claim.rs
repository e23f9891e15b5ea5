//! Pods that get Neuron resources from a ResourceClaim, through a DeviceClass that names them: not ours, and kept away from
//! nodes with a device plugin, which kubelet would not ask.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::{Value, json};
use testkit_support::eventually;

use crate::support::{World, bound, pod};

/// Why a node with a device plugin refuses the pod `claimed`.
const REFUSED: &str = "the pod gets aws.amazon.com/neuron from ResourceClaim claimed-extended-resources-x through a \
                       DeviceClass, and the node has a Neuron device plugin, which kubelet does not ask then: remove \
                       extendedResourceName from the DeviceClass and recreate the pod, or run no Neuron device plugin on the \
                       node";

/// `plugin` has a device plugin; `dra` has the same type without one, and `other` a type that nobody knows.
async fn world() -> World {
    let world = World::with_nodes(&[("plugin", "inf2.24xlarge"), ("other", "m5.large")]).await;
    let labels = json!({"node.kubernetes.io/instance-type": "inf2.24xlarge"});
    world.node(json!({"metadata": {"name": "dra", "labels": labels}})).await;
    let probe = world.pod("probe", "neuron", 1).await;
    eventually("the node is known", async || world.fits(&probe, "dra").await.then_some(())).await;
    world.delete("probe").await;
    world
}

/// The pod `claimed`, which asks for so many devices and gets them from a claim.
async fn claimed(world: &World, devices: u32) -> Pod {
    world.pod("claimed", "neuron", devices).await;
    world.claim("claimed", &["neuron"]).await
}

#[tokio::test]
async fn a_claimed_pod_fits_only_where_no_plugin_serves() {
    let world = world().await;
    let pod = claimed(&world, 7).await;
    let answer = world.filter(&pod, &["plugin", "dra", "other"]).await;
    assert_eq!(answer["NodeNames"], json!(["dra", "other"]), "whatever number a claim gives");
    assert_eq!(answer["FailedAndUnresolvableNodes"], json!({"plugin": REFUSED}));
    assert_eq!(answer["FailedNodes"], json!({}));

    let whole: Vec<Value> =
        ["plugin", "dra"].iter().map(|name| json!({"metadata": {"name": name}})).collect();
    let args = json!({"Pod": pod, "Nodes": {"items": whole}, "NodeNames": null});
    let answer: Value = serde_json::from_str(&world.post("/filter", args).await).unwrap();
    assert_eq!(answer["Nodes"]["items"], json!([{"metadata": {"name": "dra"}}]));
    assert_eq!(answer["FailedAndUnresolvableNodes"], json!({"plugin": REFUSED}));
}

#[tokio::test]
async fn a_plugin_counts_while_its_devices_are_unhealthy() {
    let world = world().await;
    let none = json!({"aws.amazon.com/neuron": "0", "aws.amazon.com/neuroncore": "0"});
    let capacity = json!({"aws.amazon.com/neuron": "6", "aws.amazon.com/neuroncore": "12"});
    world
        .node(
            json!({"metadata": {"name": "unhealthy"}, "status": {"capacity": capacity, "allocatable": none}}),
        )
        .await;
    let pod = claimed(&world, 1).await;
    eventually("the node is known", async || {
        let refused = world.filter(&pod, &["unhealthy"]).await["FailedAndUnresolvableNodes"].clone();
        (refused == json!({"unhealthy": REFUSED})).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_claimed_pod_is_bound_without_a_record_and_takes_no_device() {
    let world = world().await;
    let pod = claimed(&world, 2).await;
    assert_eq!(world.bind(&pod, "plugin").await, REFUSED);
    assert_eq!(world.placed("claimed").await, (None, None));
    assert_eq!(world.bind(&pod, "dra").await, "");
    assert_eq!(world.placed("claimed").await, (Some("dra".into()), None));
    assert!(world.read("claimed").await.annotations().is_empty());
    assert_eq!(world.bind(&pod, "dra").await, "", "again");
    let all = world.pod("all", "neuron", 6).await;
    assert_eq!(world.bind(&all, "dra").await, "");
}

#[tokio::test]
async fn only_the_rest_of_a_partly_claimed_pod_is_counted_and_recorded() {
    let world = world().await;
    let mut both = pod("claimed", "neuron", 7);
    both["spec"]["containers"][0]["resources"]["limits"]["aws.amazon.com/neuroncore"] = json!("3");
    let unclaimed = world.create(both).await;
    assert!(!world.fits(&unclaimed, "dra").await, "no inf2.24xlarge has 7 devices");
    let pod = world.claim("claimed", &["neuron"]).await;
    assert!(world.fits(&pod, "dra").await);
    assert!(!world.fits(&pod, "plugin").await);
    assert_eq!(world.bind(&pod, "plugin").await, REFUSED);
    assert_eq!(world.bind(&pod, "dra").await, "");
    let record = world.read("claimed").await.annotations()["neuron-scheduler/allocation"].clone();
    assert_eq!(record, r#"{"v":1,"node":"dra","lnc":1,"containers":{"main":{"cores":[0,1,2]}}}"#);
    let four = world.pod("four", "neuron", 4).await;
    assert_eq!(world.bind(&four, "dra").await, "");
    assert_eq!(world.placed("four").await.1.as_deref(), Some("2,3,4,5"));
}

#[tokio::test]
async fn a_claimed_pod_that_another_scheduler_bound_holds_nothing() {
    let world = world().await;
    claimed(&world, 2).await;
    world.bind_by_hand("claimed", "plugin", json!({})).await;
    world.pod("unclaimed", "neuron", 2).await;
    world.bind_by_hand("unclaimed", "dra", json!({})).await;
    let all = world.pod("all", "neuron", 6).await;
    eventually("both are seen bound", async || (!world.fits(&all, "dra").await).then_some(())).await;
    assert!(world.fits(&all, "plugin").await);
    assert_eq!(world.bind(&all, "plugin").await, "");
}

#[tokio::test]
async fn a_status_that_claims_what_a_record_gives_frees_nothing() {
    let world = world().await;
    let victim = world.pod("claimed", "neuron", 2).await;
    assert_eq!(world.bind(&victim, "plugin").await, "");
    world.claim("claimed", &["neuron"]).await;
    let marker = bound(pod("marker", "neuron", 1), "dra", json!({}));
    world.create(marker).await;
    let all = world.pod("all", "neuron", 6).await;
    eventually("the status is seen", async || (!world.fits(&all, "dra").await).then_some(())).await;
    assert!(!world.fits(&all, "plugin").await);
    let four = world.pod("four", "neuron", 4).await;
    assert_eq!(world.bind(&four, "plugin").await, "");
    assert_eq!(world.placed("four").await.1.as_deref(), Some("2,3,4,5"));
}
