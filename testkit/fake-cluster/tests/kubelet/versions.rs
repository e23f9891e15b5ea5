//! What kubelet does in one version and not in the other (docs/reference/kubernetes.md §8).

use std::time::Duration;

use fake_cluster::Version;
use k8s_openapi::api::core::v1::{ContainerStatus, Node, Pod};
use kube::Api;
use kubelet_api::deviceplugin::v1beta1::{HEALTHY, UNHEALTHY};
use kubelet_api::podresources::v1::GetPodResourcesRequest;
use rstest::rstest;
use serde_json::{Value, json};
use testkit_support::eventually;
use tonic::Code;

use crate::test_node::{GADGET, NODE, TestNode, WIDGET, container, ending, widgets};
use crate::test_plugin::{TestPlugin, device, healthy};

#[rstest]
#[case::v1_34(Version::V1_34, "v1.34.4")]
#[case::v1_37(Version::V1_37, "v1.37.2")]
#[tokio::test]
async fn the_node_says_which_kubelet_it_has(#[case] version: Version, #[case] expected: &str) {
    let node = TestNode::of(version);
    let _kubelet = node.kubelet().await;
    let info =
        Api::<Node>::all(node.api.client()).get(NODE).await.unwrap().status.unwrap().node_info.unwrap();
    assert_eq!(info.kubelet_version, expected);
}

/// What the statuses of these containers say of devices, by the container's name; null where they say nothing.
fn devices(statuses: Option<Vec<ContainerStatus>>) -> Value {
    let of = |status: ContainerStatus| (status.name, json!(status.allocated_resources_status));
    statuses.unwrap().into_iter().map(of).collect()
}

/// What the pod's app containers say of devices.
fn app_devices(pod: Pod) -> Value {
    devices(pod.status.unwrap().container_statuses)
}

fn widget(resources: &Value) -> Value {
    json!([{"name": WIDGET, "resources": resources}])
}

#[rstest]
#[case::v1_34(Version::V1_34, false)]
#[case::v1_37(Version::V1_37, true)]
#[tokio::test]
async fn the_status_of_app_containers_has_their_ids_since_1_36(
    #[case] version: Version,
    #[case] is_said: bool,
) {
    let node = TestNode::of(version);
    let kubelet = node.kubelet().await;
    let _widgets = TestPlugin::registered(&node, 3).await;
    let gadgets = TestPlugin::serving(&node, "gadget.sock", healthy(1));
    gadgets.register_as("v1beta1", GADGET).await.unwrap();
    node.shows_of(GADGET, "1", "1").await;

    let mut sidecar = container("side", 1);
    sidecar["restartPolicy"] = json!("Always");
    let mut both = container("both", 1);
    both["resources"]["limits"][GADGET] = json!("1");
    both["resources"]["requests"][GADGET] = json!("1");
    let spec = json!({
        "initContainers": [ending(container("init", 1), 0, 0), sidecar],
        "containers": [both, container("one", 1), container("none", 0)],
    });
    node.bind("p", spec).await;
    let status = node.phase("p", "Running").await.status.unwrap();

    let given = |container: &str, resource: &str| {
        let mut given = kubelet.assignments().into_iter();
        let given = given.find(|given| given.container == container && given.resource == resource);
        let ids = given.unwrap().ids.into_iter();
        let ids: Vec<Value> = ids.map(|id| json!({"resourceID": id, "health": "Healthy"})).collect();
        json!({"name": resource, "resources": ids})
    };
    let expected = if is_said {
        json!({"both": [given("both", GADGET), given("both", WIDGET)], "one": [given("one", WIDGET)], "none": null})
    } else {
        json!({"both": null, "one": null, "none": null})
    };
    assert_eq!(devices(status.container_statuses), expected);
    assert_eq!(devices(status.init_container_statuses), json!({"init": null, "side": null}));
}

#[tokio::test]
async fn the_health_in_the_status_is_that_of_the_last_list() {
    let node = TestNode::of(Version::V1_37);
    let _kubelet = node.kubelet().await;
    let plugin = TestPlugin::registered(&node, 2).await;
    node.bind("p", widgets(2)).await;
    let id = |id: &str, health: &str| json!({"resourceID": id, "health": health});
    let said = json!({"main": widget(&json!([id("w0", HEALTHY), id("w1", HEALTHY)]))});
    assert_eq!(app_devices(node.phase("p", "Running").await), said);

    plugin.script.devices.send_replace(vec![device("w0", UNHEALTHY), device("w1", HEALTHY)]);
    let said = json!({"main": widget(&json!([id("w0", UNHEALTHY), id("w1", HEALTHY)]))});
    eventually("w0 to be unhealthy", async || {
        (app_devices(node.pods().get("p").await.unwrap()) == said).then_some(())
    })
    .await;

    // The end of the plugin changes nothing, although the Node then offers none.
    plugin.kill();
    node.shows("0", "2").await;
    assert_eq!(app_devices(node.pods().get("p").await.unwrap()), said);

    // An id that has vanished reads healthy.
    let other = TestPlugin::serving(&node, "other.sock", vec![device("w1", UNHEALTHY)]);
    other.register().await.unwrap();
    let said = json!({"main": widget(&json!([id("w0", HEALTHY), id("w1", UNHEALTHY)]))});
    eventually("w0 to be healthy", async || {
        (app_devices(node.pods().get("p").await.unwrap()) == said).then_some(())
    })
    .await;
}

#[rstest]
#[case::v1_34(Version::V1_34, true)]
#[case::v1_37(Version::V1_37, false)]
#[tokio::test]
async fn podresources_gets_a_pod_that_has_ended_until_1_34(#[case] version: Version, #[case] is_found: bool) {
    let node = TestNode::of(version);
    let _kubelet = node.kubelet().await;
    let _plugin = TestPlugin::registered(&node, 1).await;
    let spec = json!({ "restartPolicy": "Never", "containers": [ending(container("main", 1), 10, 0)] });
    node.bind("p", spec).await;
    node.phase("p", "Running").await;
    let request = || GetPodResourcesRequest { pod_name: "p".to_owned(), pod_namespace: "default".to_owned() };
    let mut lister = node.lister().await;
    assert!(lister.get(request()).await.is_ok());

    node.clock.advance(Duration::from_secs(10));
    node.phase("p", "Succeeded").await;
    let answer = lister.get(request()).await.map(|answer| answer.into_inner().pod_resources.unwrap().name);
    if is_found {
        assert_eq!(answer.unwrap(), "p");
    } else {
        let error = answer.unwrap_err();
        assert_eq!((error.code(), error.message()), (Code::Unknown, "pod p in namespace default not found"));
    }
}
