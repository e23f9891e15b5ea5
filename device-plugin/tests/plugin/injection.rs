//! Devices by the names of the Container Device Interface.

use std::fs;
use std::path::PathBuf;

use k8s_openapi::api::core::v1;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kubelet_api::deviceplugin::v1beta1::{AllocateRequest, ContainerAllocateRequest};
use neuron_device_plugin::DeviceInjection;
use neuron_device_plugin::allocation::cdi::check_runtime;
use rstest::rstest;
use serde_json::{Value, json};
use testkit_support::eventually;

use crate::manual_kubelet::{ManualKubelet, node_object};
use crate::node::{Node, asks, get};

/// A node whose plugin names devices, and the folder where it does.
async fn node_with_names() -> (Node, PathBuf) {
    let mut node = Node::new("inf2.24xlarge");
    let folder = node.config.kubelet_dir.join("cdi");
    (node.config.device_injection, node.config.cdi_dir) = (DeviceInjection::Cdi, folder.clone());
    node_object(&node).await;
    (node, folder)
}

#[tokio::test]
async fn devices_are_named_for_the_container_runtime_before_anybody_is_given_one() {
    let (node, folder) = node_with_names().await;
    let kubelet = ManualKubelet::start(&node);
    let _plugin = node.plugin();
    kubelet.registered(1).await;
    let file = fs::read(folder.join("aws.amazon.com-neuron.json")).unwrap();
    let file: Value = serde_json::from_slice(&file).unwrap();
    assert_eq!(file["devices"].as_array().unwrap().len(), 21, "each under its own number and all lower ones");

    node.place("p", asks("neuron", 2), &[("main", "2,3", "")]).await;
    let devices_ids = vec!["neuron2".to_owned(), "neuron3".to_owned()];
    let request = AllocateRequest { container_requests: vec![ContainerAllocateRequest { devices_ids }] };
    let answer = kubelet.devices().await.allocate(request).await.unwrap().into_inner();
    let container = &answer.container_responses[0];
    let names: Vec<&str> = container.cdi_devices.iter().map(|device| device.name.as_str()).collect();
    assert_eq!(names, ["aws.amazon.com/neuron=neuron2", "aws.amazon.com/neuron=neuron3"]);
    assert_eq!((container.devices.len(), container.envs["AWS_NEURON_VISIBLE_DEVICES"].as_str()), (0, "2,3"));
}

#[tokio::test]
async fn names_that_somebody_removes_are_written_again() {
    let (node, folder) = node_with_names().await;
    let kubelet = ManualKubelet::start(&node);
    let _plugin = node.plugin();
    kubelet.registered(1).await;
    let file = folder.join("aws.amazon.com-neuron.json");
    let before = fs::read(&file).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    eventually("the file", async || fs::read(&file).ok().filter(|again| *again == before)).await;
}

#[tokio::test]
async fn where_the_names_cannot_be_written_nobody_is_offered_devices_and_healthz_says_why() {
    let (mut node, folder) = node_with_names().await;
    let (address, kubelet) = (node.listen(), ManualKubelet::start(&node));
    fs::write(&folder, "a file").unwrap();
    let _plugin = node.plugin();
    let told = eventually("the reason", async || {
        let answer = get(address, "/healthz").await?;
        answer.contains("device names: ").then_some(answer)
    })
    .await;
    let why = format!("{}/aws.amazon.com-neuron.json cannot be written: ", folder.display());
    assert!(told.contains(&why), "{told}");
    assert_eq!(kubelet.sockets(), Vec::<String>::new());
    fs::remove_file(&folder).unwrap();
    kubelet.registered(1).await;
}

/// Seen on kind: a pod ran without any of its devices.
#[tokio::test]
async fn a_runtime_that_passes_over_names_is_offered_no_devices_and_healthz_says_why() {
    let (mut node, _) = node_with_names().await;
    let (address, kubelet) = (node.listen(), ManualKubelet::start(&node));
    let nodes: Api<v1::Node> = Api::all(node.api.client());
    let runs_on = async |runtime: &str| {
        let info = json!({"containerRuntimeVersion": runtime, "kubeletVersion": "v1.37.0"});
        let patch = Patch::Merge(json!({"status": {"nodeInfo": info}}));
        nodes.patch_status(&node.config.node_name, &PatchParams::default(), &patch).await.unwrap();
    };
    runs_on("containerd://1.6.20~ds1").await;
    let _plugin = node.plugin();
    let told = eventually("the reason", async || {
        let answer = get(address, "/healthz").await?;
        answer.contains("device names: ").then_some(answer)
    })
    .await;
    let why = "the container runtime containerd://1.6.20~ds1 of this node does not know the Container Device Interface";
    assert!(told.contains(why), "{told}");
    assert_eq!(kubelet.sockets(), Vec::<String>::new());
    runs_on("containerd://2.1.4").await;
    kubelet.registered(1).await;
}

#[rstest]
#[case("containerd://1.6.20", false)]
#[case("containerd://v1.5.0-rc.1", false)]
#[case("containerd://1.7.27", true)]
#[case("containerd://2.1.4", true)]
#[case("cri-o://1.33.0", true)]
#[case("", true)]
fn a_runtime_is_refused_only_where_it_is_known_to_pass_over_names(#[case] runtime: &str, #[case] fits: bool) {
    let info = json!({
        "architecture": "", "bootID": "", "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "",
        "operatingSystem": "", "osImage": "", "systemUUID": "", "containerRuntimeVersion": runtime,
    });
    let node = serde_json::from_value(json!({"metadata": {}, "status": {"nodeInfo": info}})).unwrap();
    assert_eq!(check_runtime(&node).is_ok(), fits);
}
