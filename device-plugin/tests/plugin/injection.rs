//! Devices by the names of the Container Device Interface.

use std::fs;
use std::path::PathBuf;

use kubelet_api::deviceplugin::v1beta1::{AllocateRequest, ContainerAllocateRequest};
use neuron_device_plugin::DeviceInjection;
use serde_json::Value;
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
