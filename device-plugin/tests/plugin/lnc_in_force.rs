//! A plugin that starts stays at the LNC at which pods hold cores, whatever cannot be read of it meanwhile.

use neuron_core::names::{NEURON, NEURONCORE};
use rstest::rstest;
use serde_json::json;
use testkit_support::eventually;

use crate::captured::Log;
use crate::manual_kubelet::{ManualKubelet, node_object};
use crate::node::{Node, asks, get};

/// Writes the operator's LNC setting.
fn configure(node: &Node, lnc: &str) {
    let file = node.config.root.join("opt/aws/neuron/logical_nc_config");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, format!("NEURON_LOGICAL_NC_CONFIG={lnc}")).unwrap();
}

/// kubelet's checkpoint: one pod has the first core, and these ids are offered.
fn checkpoint(uid: &str, devices: &[u8], cores: &[u8]) -> String {
    let entry = json!({"PodUID": uid, "ContainerName": "main", "ResourceName": NEURONCORE,
        "DeviceIDs": {"-1": ["neuroncore0"]}, "AllocResp": ""});
    let ids =
        |name: &str, ids: &[u8]| -> Vec<String> { ids.iter().map(|id| format!("{name}{id}")).collect() };
    let offered = json!({NEURON: ids("neuron", devices), NEURONCORE: ids("neuroncore", cores)});
    json!({"Data": {"PodDeviceEntries": [entry], "RegisteredDevices": offered}, "Checksum": 1}).to_string()
}

#[tokio::test]
async fn a_setting_that_makes_no_sense_is_told_of_and_takes_no_device_while_cores_are_held() {
    let (mut node, _kubelet, plugin) = Node::running("trn2.3xlarge").await;
    node.place("p", asks("neuroncore", 2), &[("main", "", "2,3")]).await;
    node.phase("p", "Running").await;
    node.report("names the holder", |report| report["holders"][0]["cores"] == json!([2, 3])).await;
    configure(&node, "three");
    plugin.stop().await;
    node.shows(NEURONCORE, 0).await;
    let address = node.listen();
    let _plugin = node.plugin();
    node.shows(NEURONCORE, 4).await;
    let told = async || {
        let answer = get(address, "/healthz").await?;
        answer.starts_with("HTTP/1.1 200").then_some(answer)
    };
    let answer = eventually("it to be ready", told).await;
    let file = node.config.root.join("opt/aws/neuron/logical_nc_config");
    let bad = format!("{} holds \"NEURON_LOGICAL_NC_CONFIG=three\"", file.display());
    assert!(
        answer.contains("LNC: pods hold cores at LNC 2, which stays; ") && answer.contains(&bad),
        "{answer}"
    );
}

#[tokio::test]
async fn a_checkpoint_that_cannot_be_read_is_waited_for_before_the_lnc_is_chosen() {
    let mut node = Node::new("trn2.3xlarge");
    let address = node.listen();
    node_object(&node).await;
    let kubelet = ManualKubelet::start(&node);
    node.place("p", asks("neuroncore", 1), &[]).await;
    let uid = node.pods().get("p").await.unwrap().metadata.uid.unwrap();
    kubelet.write_text(&checkpoint(&uid, &[0], &[0, 1, 2, 3]));
    let said = kubelet.hide_checkpoint();
    configure(&node, "1");
    let _plugin = node.plugin();
    let waits =
        async || get(address, "/healthz").await?.contains("checkpoint: kubelet's checkpoint ").then_some(());
    eventually("why it does not serve", waits).await;
    kubelet.show_checkpoint(said);
    let report = node.report("the machine", |report| report["instanceType"] == "trn2.3xlarge").await;
    assert_eq!(report["lnc"], 2, "{report}");
}

#[rstest]
#[case::the_last_device_at_lnc_2(1, 0..15, 4, 2)]
#[case::half_of_the_devices_at_lnc_1(2, 0..8, 8, 1)]
#[tokio::test]
async fn what_kubelet_offers_under_both_names_tells_the_lnc_whatever_is_unhealthy(
    #[case] configured: u8,
    #[case] healthy: std::ops::Range<u8>,
    #[case] cores_per_device: u8,
    #[case] lnc: u8,
) {
    let mut node = Node::new("trn2.48xlarge");
    configure(&node, &configured.to_string());
    std::fs::create_dir_all(node.config.plugin_dir()).unwrap();
    let devices: Vec<u8> = healthy.collect();
    let cores: Vec<u8> = (0..devices.len() as u8 * cores_per_device).collect();
    std::fs::write(node.socket("kubelet_internal_checkpoint"), checkpoint("a-uid", &devices, &cores))
        .unwrap();
    let address = node.listen();
    let nobody = kube::Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
    let log = Log::capture();
    let _plugin = node.plugin_with(nobody);
    let found = async || (!get(address, "/healthz").await?.contains("devices:")).then_some(());
    eventually("its devices", found).await;
    let found = log.lines("devices discovered").pop().unwrap();
    assert_eq!(found.fields["lnc"], lnc.to_string());
}
