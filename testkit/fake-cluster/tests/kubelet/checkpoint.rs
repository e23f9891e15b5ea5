//! kubelet's checkpoint as another program reads it (docs/reference/kubernetes.md §7): its form, when it is written, and what
//! becomes of a pod whose entries cannot be.

use std::fs;

use serde_json::{Value, json};
use testkit_support::eventually;

use crate::test_node::{TestNode, container, ids_of, widgets};
use crate::test_plugin::{TestPlugin, ids};

fn checkpoint(node: &TestNode) -> Value {
    serde_json::from_slice(&fs::read(node.config.checkpoint_file()).unwrap()).unwrap()
}

/// Pod UIDs, containers and ids.
fn entries(node: &TestNode) -> Vec<(String, String, Value)> {
    let entries = checkpoint(node)["Data"]["PodDeviceEntries"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let entry = |entry: &Value| {
        (text(&entry["PodUID"]), text(&entry["ContainerName"]), entry["DeviceIDs"]["-1"].clone())
    };
    entries.iter().map(entry).collect()
}

#[tokio::test]
async fn every_container_stands_in_it_with_its_pods_uid_ids_and_answer() {
    let node = TestNode::new();
    let _kubelet = node.kubelet().await;
    let plugin = TestPlugin::registered(&node, 3).await;
    plugin.prefer(["w1"]);
    let listed = async || {
        let saved = fs::read(node.config.checkpoint_file()).ok()?;
        (serde_json::from_slice::<Value>(&saved).ok()?["Data"]["RegisteredDevices"] != json!({}))
            .then_some(())
    };
    eventually("the list to be written", listed).await;
    assert_eq!(checkpoint(&node)["Data"]["PodDeviceEntries"], Value::Null);
    node.bind("p", json!({ "initContainers": [container("init", 1)], "containers": [container("main", 1)] }))
        .await;
    eventually("both containers", async || (entries(&node).len() == 2).then_some(())).await;

    let uid = node.pods().get("p").await.unwrap().metadata.uid.unwrap();
    let entry = |container: &str| (uid.clone(), container.to_owned(), json!(["w1"]));
    assert_eq!(entries(&node), [entry("init"), entry("main")], "an init container's ids stay its pod's");
    let saved = checkpoint(&node);
    let first = &saved["Data"]["PodDeviceEntries"][0];
    assert!(first["ResourceName"].is_string() && first["AllocResp"].is_string(), "{first}");
    let registered = saved["Data"]["RegisteredDevices"].as_object().unwrap();
    assert_eq!(registered.values().collect::<Vec<_>>(), [&json!(["w0", "w1", "w2"])]);
    assert!(saved["Checksum"].is_number());
}

#[tokio::test]
async fn entries_of_a_pod_that_has_ended_stay_until_another_is_admitted() {
    let node = TestNode::new();
    let _kubelet = node.kubelet().await;
    let _plugin = TestPlugin::registered(&node, 1).await;
    node.bind("p", widgets(1)).await;
    node.phase("p", "Running").await;
    node.delete("p").await;
    node.is_gone("p").await;
    let before = entries(&node);
    assert_eq!(before.len(), 1);
    node.bind("q", widgets(1)).await;
    node.phase("q", "Running").await;
    let after = entries(&node);
    assert_eq!(after.len(), 1);
    assert_ne!(after[0].0, before[0].0);
}

#[tokio::test]
async fn a_pod_whose_entry_cannot_be_written_is_refused_and_its_ids_stay_in_memory_until_the_next_admission()
{
    let node = TestNode::new();
    let kubelet = node.kubelet().await;
    let _plugin = TestPlugin::registered(&node, 1).await;
    node.shows("1", "1").await;
    fs::remove_file(node.config.checkpoint_file()).unwrap();
    fs::create_dir(node.config.checkpoint_file()).unwrap();
    node.bind("p", widgets(1)).await;
    let (reason, message) = node.rejection("p").await;
    assert_eq!(reason, "UnexpectedAdmissionError");
    assert!(message.contains("failed to write checkpoint file"), "{message}");
    assert_eq!(ids_of(&kubelet, "main"), ids(["w0"]));
    fs::remove_dir(node.config.checkpoint_file()).unwrap();
    node.bind("q", widgets(1)).await;
    node.phase("q", "Running").await;
}
