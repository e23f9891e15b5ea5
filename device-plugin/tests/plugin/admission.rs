//! What pods get: the recorded set, else the best linked one, and never what another live pod holds.

use std::time::Duration;

use fake_cluster::kubelet::FreeChoices;
use rstest::rstest;
use serde_json::json;
use testkit_support::eventually;

use crate::node::{Node, asks, container};

#[tokio::test]
async fn the_documented_example() {
    let (node, _kubelet, _plugin) = Node::running("inf2.24xlarge").await;
    node.place("held", asks("neuroncore", 2), &[("main", "", "0,1")]).await;
    node.phase("held", "Running").await;
    node.place("asks", asks("neuroncore", 2), &[("main", "", "2,3")]).await;
    node.phase("asks", "Running").await;

    let start = node.started("asks", "main");
    assert_eq!(start.env["NEURON_RT_VISIBLE_CORES"], "2,3");
    assert_eq!(start.env.get("AWS_NEURON_VISIBLE_DEVICES"), None);
    let device = &start.devices[0];
    assert_eq!(start.devices.len(), 1);
    assert_eq!(device.host_path, node.config.root.join("dev/neuron1").display().to_string());
    assert_eq!((device.container_path.as_str(), device.permissions.as_str()), ("/dev/neuron1", "rw"));
}

#[rstest]
#[case::seeded(FreeChoices::Seeded(1))]
#[case::adversarial(FreeChoices::Adversarial)]
#[tokio::test]
async fn the_recorded_devices_are_given_even_if_others_are_free(#[case] free_choices: FreeChoices) {
    let mut node = Node::new("trn1.32xlarge");
    node.kubelet_config.free_choices = free_choices;
    let _kubelet = node.kubelet().await;
    let _plugin = node.plugin();
    node.shows("aws.amazon.com/neuron", 16).await;
    node.place("p", asks("neuron", 4), &[("main", "8,9,10,11", "")]).await;
    node.phase("p", "Running").await;
    let (paths, ids) = node.got("p", "main", "AWS_NEURON_VISIBLE_DEVICES");
    assert_eq!(paths, ["/dev/neuron8", "/dev/neuron9", "/dev/neuron10", "/dev/neuron11"]);
    assert_eq!(ids.as_deref(), Some("8,9,10,11"));
}

#[tokio::test]
async fn without_a_record_the_best_free_linked_set_is_preferred() {
    let (node, _kubelet, _plugin) = Node::running("inf2.24xlarge").await;
    node.place("cores", asks("neuroncore", 1), &[("main", "", "1")]).await;
    node.phase("cores", "Running").await;
    node.place("p", asks("neuron", 2), &[]).await;
    node.phase("p", "Running").await;
    // Device 0 is partly held under the other name; kubelet does not know that.
    let (_, ids) = node.got("p", "main", "AWS_NEURON_VISIBLE_DEVICES");
    assert_eq!(ids.as_deref(), Some("1,2"));
}

#[tokio::test]
async fn ids_that_a_pod_holds_under_the_other_name_are_refused() {
    let mut node = Node::new("inf2.xlarge");
    // A pod that is deleted right after its admission holds its devices for two seconds.
    node.config.holder_timeout = Duration::from_secs(3);
    let _kubelet = node.kubelet().await;
    let _plugin = node.plugin();
    node.shows("aws.amazon.com/neuroncore", 2).await;
    node.shows("aws.amazon.com/neuron", 1).await;
    node.place("device", asks("neuron", 1), &[("main", "0", "")]).await;
    node.phase("device", "Running").await;
    // kubelet has both cores to give: it knows nothing of the other resource.
    node.place("cores", asks("neuroncore", 2), &[]).await;
    let message = node.phase("cores", "Failed").await.status.unwrap().message.unwrap();
    let why = "neuroncore0,neuroncore1 of aws.amazon.com/neuroncore cannot be given: pod default/device holds \
               neuroncore0,neuroncore1; they are free again when that pod has ended";
    assert!(message.contains(why), "{message}");
    assert!(node.events().await.contains(&format!("cores: AllocationRefused: {why}")));

    node.delete("device").await;
    node.place("later", asks("neuroncore", 2), &[("main", "", "0,1")]).await;
    node.phase("later", "Running").await;
}

#[rstest]
#[case::set(
    "inf2.24xlarge",
    3,
    "they are not one of the linked sets of 3 devices that inf2.24xlarge allows; placed by the scheduler extender, the \
     pod waits until such a set is free"
)]
#[case::count(
    "trn1.32xlarge",
    2,
    "Instance type trn1.32xlarge does not support requests for device: 2. Please request a different number of devices."
)]
#[tokio::test]
async fn what_is_not_linked_is_refused(#[case] instance_type: &str, #[case] count: u32, #[case] why: &str) {
    let (node, _kubelet, _plugin) = Node::running(instance_type).await;
    for device in ["1", "3"] {
        node.place(device, asks("neuron", 1), &[("main", device, "")]).await;
        node.phase(device, "Running").await;
    }
    node.place("p", asks("neuron", count), &[]).await;
    let message = node.phase("p", "Failed").await.status.unwrap().message.unwrap();
    assert!(message.contains(why), "{message}");
}

#[tokio::test]
async fn two_containers_and_a_plain_one_get_their_own() {
    let (node, _kubelet, _plugin) = Node::running("inf2.24xlarge").await;
    let spec = json!({ "containers": [
        container("a", "neuron", 2),
        { "name": "plain", "image": "none" },
        container("b", "neuroncore", 1),
    ]});
    node.place("p", spec, &[("a", "1,2", ""), ("b", "", "7")]).await;
    node.phase("p", "Running").await;
    assert_eq!(node.got("p", "a", "AWS_NEURON_VISIBLE_DEVICES").1.as_deref(), Some("1,2"));
    assert_eq!(
        node.got("p", "b", "NEURON_RT_VISIBLE_CORES"),
        (vec!["/dev/neuron3".to_owned()], Some("7".to_owned()))
    );
    assert_eq!(node.got("p", "plain", "NEURON_RT_VISIBLE_CORES"), (vec![], None));
}

#[tokio::test]
async fn a_short_core_pod_makes_room_for_all_devices() {
    let (node, _kubelet, _plugin) = Node::running("inf2.24xlarge").await;
    let mut spec = asks("neuroncore", 1);
    spec["containers"][0]["args"] = json!(["1"]);
    spec["restartPolicy"] = json!("Never");
    node.place("short", spec, &[("main", "", "0")]).await;
    node.phase("short", "Running").await;
    node.clock.advance(Duration::from_secs(1));
    node.phase("short", "Succeeded").await;
    node.place("all", asks("neuron", 6), &[("main", "0,1,2,3,4,5", "")]).await;
    node.phase("all", "Running").await;
}

#[tokio::test]
async fn the_lnc_stays_while_cores_are_held() {
    let (node, _kubelet, plugin) = Node::running("trn2.3xlarge").await;
    node.place("p", asks("neuroncore", 2), &[("main", "", "2,3")]).await;
    node.phase("p", "Running").await;
    node.report("names the holder", |report| report["holders"][0]["cores"] == json!([2, 3])).await;

    let file = node.config.root.join("opt/aws/neuron/logical_nc_config");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "NEURON_LOGICAL_NC_CONFIG=1").unwrap();
    plugin.stop().await;
    let plugin = node.plugin();
    node.shows("aws.amazon.com/neuroncore", 0).await;
    node.shows("aws.amazon.com/neuroncore", 4).await;
    node.report("still at LNC 2", |report| {
        report["lnc"] == 2 && report["holders"][0]["cores"] == json!([2, 3])
    })
    .await;

    node.delete("p").await;
    node.report("names nobody", |report| report["holders"] == json!([])).await;
    plugin.stop().await;
    let _plugin = node.plugin();
    node.shows("aws.amazon.com/neuroncore", 8).await;
    node.report("at LNC 1", |report| report["lnc"] == 1).await;
    node.place("q", asks("neuroncore", 1), &[("main", "", "0")]).await;
    node.phase("q", "Running").await;
    let (_, lnc) = node.got("q", "main", "NEURON_LOGICAL_NC_CONFIG");
    assert_eq!(lnc.as_deref(), Some("1"), "the runtime would take 2 for granted");
}

#[rstest]
#[case::eight_cores_of_one_device_are_those_of_lnc_1(2, 8)]
#[case::kubelet_lists_no_core_of_an_unhealthy_device(1, 0)]
#[tokio::test]
async fn without_the_api_server_kubelets_checkpoint_tells_the_lnc_in_force(
    #[case] configured: u8,
    #[case] listed: u8,
) {
    let mut node = Node::new("trn2.3xlarge");
    let file = node.config.root.join("opt/aws/neuron/logical_nc_config");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, format!("NEURON_LOGICAL_NC_CONFIG={configured}")).unwrap();
    std::fs::create_dir_all(node.config.plugin_dir()).unwrap();
    let entry = json!({"PodUID": "a-uid", "ContainerName": "main", "ResourceName": "aws.amazon.com/neuroncore",
        "DeviceIDs": {"-1": ["neuroncore0"]}, "AllocResp": ""});
    let cores: Vec<String> = (0..listed).map(|core| format!("neuroncore{core}")).collect();
    let checkpoint = json!({"Data": {"PodDeviceEntries": [entry],
        "RegisteredDevices": {"aws.amazon.com/neuroncore": cores}}, "Checksum": 1});
    std::fs::write(node.socket("kubelet_internal_checkpoint"), checkpoint.to_string()).unwrap();
    let address = node.listen();
    let nobody = kube::Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
    let log = crate::captured::Log::capture();
    let _plugin = node.plugin_with(nobody);
    eventually("its devices", async || {
        let answer = crate::node::get(address, "/healthz").await?;
        (!answer.contains("devices:")).then_some(())
    })
    .await;
    let found = log.lines("devices discovered").pop().unwrap();
    assert_eq!(found.fields["lnc"], "1");
}
