//! What makes a device unhealthy, how soon kubelet and the node report hear of it, and in which order.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse;
use fake_neuron::{Health, Machine};
use neuron_core::names::{ALLOCATION, NEURON};
use neuron_device_plugin::HealthOptions;
use rstest::rstest;
use serde_json::{Value, json};
use testkit_support::eventually;

use crate::manual_kubelet::{ManualKubelet, node_object, registered};
use crate::node::{Node, asks, get};

const DEVICE: &str = "sys/devices/virtual/neuron_device/neuron2";

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    let _ = fs::remove_file(&path);
    fs::write(path, text).unwrap();
}

fn health(report: &Value) -> &Value {
    &report["devices"][2]["health"]
}

type Change = fn(&Machine);

#[rstest]
#[case::node_gone(
    |machine: &Machine| fs::remove_file(machine.root().join("dev/neuron2")).unwrap(),
    |machine: &Machine| machine.restore(2).unwrap(),
    "/dev/neuron2 is missing"
)]
#[case::folder_gone(
    |machine: &Machine| fs::rename(machine.root().join(DEVICE), machine.root().join("away")).unwrap(),
    |machine: &Machine| fs::rename(machine.root().join("away"), machine.root().join(DEVICE)).unwrap(),
    "neuron_device/neuron2 is missing"
)]
#[case::memory(
    |machine: &Machine| write(machine.root(), &format!("{DEVICE}/stats/hardware/mem_ecc_uncorrected"), "3\n"),
    |machine: &Machine| write(machine.root(), &format!("{DEVICE}/stats/hardware/mem_ecc_uncorrected"), "0\n"),
    "mem_ecc_uncorrected is above 0"
)]
#[case::sram(
    |machine: &Machine| write(machine.root(), &format!("{DEVICE}/stats/hardware/sram_ecc_uncorrected"), "1\n"),
    |machine: &Machine| write(machine.root(), &format!("{DEVICE}/stats/hardware/sram_ecc_uncorrected"), "0\n"),
    "sram_ecc_uncorrected is above 0"
)]
#[case::repairable(
    |machine: &Machine| write(machine.root(), &format!("{DEVICE}/stats/hardware/mem_ecc_repairable_uncorrected"), "1\n"),
    |machine: &Machine| write(machine.root(), &format!("{DEVICE}/stats/hardware/mem_ecc_repairable_uncorrected"), "0\n"),
    "mem_ecc_repairable_uncorrected is above 0"
)]
#[case::status(
    |machine: &Machine| machine.set_health(2, &Health::unhealthy("link_host")).unwrap(),
    |machine: &Machine| machine.set_health(2, &Health::Healthy).unwrap(),
    "unhealthy components: link_host"
)]
#[case::reset(
    |machine: &Machine| write(machine.root(), &format!("{DEVICE}/reset"), "0\n"),
    |machine: &Machine| write(machine.root(), &format!("{DEVICE}/reset"), "1\n"),
    "it is being reset"
)]
#[case::not_valid(
    |machine: &Machine| write(machine.root(), &format!("{DEVICE}/reset"), "2\n"),
    |machine: &Machine| write(machine.root(), &format!("{DEVICE}/reset"), "1\n"),
    "it is not valid"
)]
#[case::driver(
    |machine: &Machine| fs::rename(machine.root().join("sys/module"), machine.root().join("away")).unwrap(),
    |machine: &Machine| fs::rename(machine.root().join("away"), machine.root().join("sys/module")).unwrap(),
    "the Neuron driver is gone"
)]
#[tokio::test]
async fn a_fault_is_told_within_two_seconds_and_its_end(
    #[case] breaks: Change,
    #[case] mends: Change,
    #[case] why: &str,
) {
    let mut node = Node::new("trn2.48xlarge");
    node.config.health_interval = neuron_device_plugin::Config::new("n").health_interval;
    let _kubelet = node.kubelet().await;
    let _plugin = node.plugin();
    node.shows("aws.amazon.com/neuron", 16).await;
    node.report("it healthy", |report| health(report) == "Healthy").await;
    let began = Instant::now();
    breaks(&node.machine);
    let report = node.report("it unhealthy", |report| health(report) == "Unhealthy").await;
    let reason = report["devices"][2]["reason"].as_str().unwrap();
    assert!(reason.contains(why), "{reason}");
    // What the report calls unhealthy is no longer offered either: one device, or all without the driver.
    let devices = report["devices"].as_array().unwrap();
    let left = devices.iter().filter(|device| device["health"] == "Healthy").count();
    node.shows("aws.amazon.com/neuron", left).await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    mends(&node.machine);
    node.report("it healthy", |report| {
        health(report) == "Healthy" && report["devices"][2]["reason"].is_null()
    })
    .await;
    node.shows("aws.amazon.com/neuron", 16).await;
}

#[tokio::test]
async fn what_is_to_be_ignored_makes_no_device_unhealthy() {
    let mut node = Node::new("trn2.48xlarge");
    let ignored = ["link_efa", "mem_ecc_repairable_uncorrected"].map(str::to_owned).into();
    node.config.health = HealthOptions { ignored, ..HealthOptions::default() };
    let _kubelet = node.kubelet().await;
    let _plugin = node.plugin();
    write(node.machine.root(), &format!("{DEVICE}/stats/hardware/mem_ecc_repairable_uncorrected"), "1\n");
    node.machine.set_health(2, &Health::unhealthy("link_efa")).unwrap();
    node.machine
        .set_health(3, &Health::Unhealthy { components: vec!["link_efa".into(), "hbm".into()] })
        .unwrap();
    let report =
        node.report("the other unhealthy", |report| report["devices"][3]["health"] == "Unhealthy").await;
    assert_eq!(report["devices"][3]["reason"], "the driver reports unhealthy components: hbm");
    assert_eq!(health(&report), "Healthy");
    node.shows("aws.amazon.com/neuron", 15).await;
}

#[tokio::test]
async fn a_loss_is_listed_within_two_seconds_though_no_report_can_be_written() {
    let mut node = Node::new("inf2.24xlarge");
    node.config.health_interval = neuron_device_plugin::Config::new("n").health_interval;
    // Without a Node object no report can be written.
    let kubelet = ManualKubelet::start(&node);
    let _plugin = node.plugin();
    kubelet.registered(1).await;
    kubelet.lists_unhealthy(&[]).await;
    let lost = std::time::Instant::now();
    node.machine.lose(3).unwrap();
    kubelet.lists_unhealthy(&["neuron3"]).await;
    let took = lost.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert!(took > Duration::from_millis(900), "the report had its second first: {took:?}");
    node.machine.restore(3).unwrap();
    kubelet.lists_unhealthy(&[]).await;
}

#[tokio::test]
async fn a_device_that_is_healthy_again_is_reported_so_once_kubelet_offers_it() {
    let (node, kubelet, _plugin) = registered("inf2.24xlarge").await;
    kubelet.offers(&["neuron0", "neuron1", "neuron2", "neuron3", "neuron4", "neuron5"]);
    kubelet.lists_unhealthy(&[]).await;
    node.machine.lose(3).unwrap();
    let health = |report: &serde_json::Value| report["devices"][3]["health"].clone();
    node.report("the loss", |report| health(report) == "Unhealthy").await;
    kubelet.lists_unhealthy(&["neuron3"]).await;
    kubelet.offers(&["neuron0", "neuron1", "neuron2", "neuron4", "neuron5"]);
    node.machine.restore(3).unwrap();
    kubelet.lists_unhealthy(&[]).await;
    let waits = "it is healthy again, and kubelet does not offer it yet";
    node.report("that it is waited for", |report| report["devices"][3]["reason"] == waits).await;
    kubelet.offers(&["neuron0", "neuron1", "neuron2", "neuron3", "neuron4", "neuron5"]);
    node.report("it healthy", |report| health(report) == "Healthy").await;
}

#[tokio::test]
async fn a_name_to_ignore_that_no_driver_knows_is_told() {
    let mut node = Node::new("inf2.24xlarge");
    let ignored = ["link_efs", "link_efa", "reset"].map(str::to_owned).into();
    node.config.health = HealthOptions { ignored, ..HealthOptions::default() };
    let address = node.listen();
    let _kubelet = node.kubelet().await;
    let _plugin = node.plugin();
    let note = "health: --health-ignore names link_efs, which no known driver reports: it has no effect; correct it\n";
    eventually("the note", async || get(address, "/healthz").await?.contains(note).then_some(())).await;
}

#[tokio::test]
async fn report_and_list_tell_of_a_loss_while_kubelet_asks_without_a_pause() {
    let (node, kubelet, _plugin) = registered("inf2.24xlarge").await;
    let asks = async {
        loop {
            assert_eq!(kubelet.admit(&["neuron0"], 1).await, ["neuron0"]);
        }
    };
    let told = async {
        node.report("no loss", |report| report["devices"][3]["health"] == "Healthy").await;
        let lost = Instant::now();
        node.machine.lose(3).unwrap();
        node.report("the loss", |report| report["devices"][3]["health"] == "Unhealthy").await;
        kubelet.lists_unhealthy(&["neuron3"]).await;
        assert!(lost.elapsed() < Duration::from_secs(2), "{:?}", lost.elapsed());
    };
    tokio::select! {
        () = told => {}
        () = asks => unreachable!("kubelet asks for ever"),
    }
}

/// A webhook of somebody's holds up every change of a pod.
#[tokio::test]
async fn a_loss_is_reported_at_once_though_a_correction_hangs() {
    let mut node = Node::new("inf2.24xlarge");
    node.config.api_timeout = Duration::from_secs(30);
    let began = Arc::new(AtomicBool::new(false));
    let hangs = Arc::clone(&began);
    let hang = from_fn(move |call: Request, next: Next| {
        let hangs = call.method() == Method::PATCH
            && call.uri().path().contains("/pods/")
            && !hangs.swap(true, Ordering::SeqCst);
        async move { if hangs { std::future::pending().await } else { next.run(call).await } }
    });
    let _kubelet = node.kubelet().await;
    let _plugin = node.plugin_with(kube::Client::new(node.api.router().layer(hang), "default"));
    node.shows("aws.amazon.com/neuron", 6).await;
    node.create("p", asks("neuron", 1)).await;
    node.bind("p", &[(ALLOCATION.to_owned(), "garbled".to_owned())].into()).await;
    eventually("the correction", async || began.load(Ordering::SeqCst).then_some(())).await;
    let lost = Instant::now();
    node.machine.lose(3).unwrap();
    node.report("the loss", |report| report["devices"][3]["health"] == "Unhealthy").await;
    assert!(lost.elapsed() < Duration::from_secs(2), "{:?}", lost.elapsed());
    node.recorded("p", &[("main", "0", "")]).await;
}

/// An API server in trouble: a list of pods is expensive, a change of one object is not.
#[rstest]
#[case::while_they_are_listed(Duration::from_secs(30), false)]
#[case::between_two_lists(Duration::from_secs(3), true)]
#[tokio::test]
async fn a_loss_is_reported_before_it_is_listed_though_lists_of_pods_hang(
    #[case] timeout: Duration,
    #[case] is_over: bool,
) {
    let mut node = Node::new("inf2.24xlarge");
    node.config.api_timeout = timeout;
    node_object(&node).await;
    let kubelet = ManualKubelet::start(&node);
    // Nobody but the API server knows whether this pod lives.
    let entry = json!({"PodUID": "a-uid", "ContainerName": "main", "ResourceName": NEURON,
        "DeviceIDs": {"-1": ["neuron0"]}, "AllocResp": ""});
    let checkpoint = json!({"Data": {"PodDeviceEntries": [entry], "RegisteredDevices": {}}, "Checksum": 1});
    kubelet.write_text(&checkpoint.to_string());
    let (hangs, lists) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (is_hanging, begun) = (Arc::clone(&hangs), Arc::clone(&lists));
    let hang = from_fn(move |call: Request, next: Next| {
        let (hangs, begun) = (is_hanging.load(Ordering::SeqCst), Arc::clone(&begun));
        let query = call.uri().query().unwrap_or_default();
        // What comes before a watch comes in pages.
        let is_live =
            call.uri().path() == "/api/v1/pods" && !query.contains("watch=") && !query.contains("limit=");
        async move {
            match (is_live, hangs) {
                (true, true) => {
                    begun.fetch_add(1, Ordering::SeqCst);
                    std::future::pending().await
                }
                (true, false) => StatusCode::BAD_GATEWAY.into_response(),
                (false, _) => next.run(call).await,
            }
        }
    });
    let _plugin = node.plugin_with(kube::Client::new(node.api.router().layer(hang), "default"));
    kubelet.registered(1).await;
    kubelet.lists_unhealthy(&[]).await;
    node.report("no loss", |report| health(report) == "Healthy").await;
    hangs.store(true, Ordering::SeqCst);
    kubelet.write_text(&checkpoint.to_string());
    eventually("a list of pods", async || (lists.load(Ordering::SeqCst) > 0).then_some(())).await;
    if is_over {
        tokio::time::sleep(timeout + node.config.health_interval).await;
    }
    let lost = Instant::now();
    node.machine.lose(2).unwrap();
    node.report("the loss", |report| health(report) == "Unhealthy").await;
    assert!(lost.elapsed() < Duration::from_secs(1), "{:?}", lost.elapsed());
    kubelet.lists_unhealthy(&["neuron2"]).await;
}
