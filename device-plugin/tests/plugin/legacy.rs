//! With `--legacy-resource` the same devices have a third name, `neurondevice`: what one pod holds under one name is refused to another
//! under the others (T31 of the conformance list).

use std::time::Duration;

use neuron_core::names::{NEURON, NEURONCORE, NEURONDEVICE};
use rstest::rstest;
use serde_json::json;
use testkit_support::eventually;

use crate::node::{Node, asks};

#[rstest]
#[case::old_name_then_new("neurondevice", "neuron", 1, "neuron0")]
#[case::old_name_then_cores("neurondevice", "neuroncore", 2, "neuroncore0,neuroncore1")]
#[case::new_name_then_old("neuron", "neurondevice", 1, "neuron0")]
#[case::cores_then_old_name("neuroncore", "neurondevice", 1, "neuron0")]
#[tokio::test]
async fn what_a_pod_holds_under_one_name_is_refused_under_the_others(
    #[case] held: &str,
    #[case] asked: &str,
    #[case] count: u32,
    #[case] ids: &str,
) {
    let mut node = Node::new("inf2.xlarge");
    node.config.legacy_resource = true;
    // A pod that is deleted right after its admission holds its devices for two seconds.
    node.config.holder_timeout = Duration::from_secs(3);
    let _kubelet = node.kubelet().await;
    let _plugin = node.plugin();
    for (name, all) in [(NEURON, 1), (NEURONDEVICE, 1), (NEURONCORE, 2)] {
        node.shows(name, all).await;
    }
    let record = if held == "neuroncore" { ("main", "", "0") } else { ("main", "0", "") };
    node.place("holder", asks(held, 1), &[record]).await;
    node.phase("holder", "Running").await;
    // kubelet has all of the other name to give: it knows nothing of the hardware.
    node.place("asks", asks(asked, count), &[]).await;
    let message = node.phase("asks", "Failed").await.status.unwrap().message.unwrap();
    let why = format!(
        "{ids} of aws.amazon.com/{asked} cannot be given: pod default/holder holds {ids}; they are free again when that pod has ended"
    );
    assert!(message.contains(&why), "{message}");
    let event = format!("asks: AllocationRefused: {why}");
    eventually("the event", async || node.events().await.contains(&event).then_some(())).await;

    node.delete("holder").await;
    node.place("later", asks(asked, count), &[]).await;
    node.phase("later", "Running").await;
}

#[tokio::test]
async fn a_device_that_a_pod_asks_for_by_the_old_name_is_exported_as_by_the_new() {
    let mut node = Node::new("inf2.24xlarge");
    node.config.legacy_resource = true;
    let _kubelet = node.kubelet().await;
    let _plugin = node.plugin();
    node.shows(NEURONDEVICE, 6).await;
    node.place("p", asks("neurondevice", 2), &[("main", "2,3", "")]).await;
    node.phase("p", "Running").await;
    let (paths, ids) = node.got("p", "main", "AWS_NEURON_VISIBLE_DEVICES");
    assert_eq!(paths, ["/dev/neuron2", "/dev/neuron3"]);
    assert_eq!(ids.as_deref(), Some("2,3"));
    node.report("the holder", |report| report["holders"][0]["cores"] == json!([4, 5, 6, 7])).await;
}
