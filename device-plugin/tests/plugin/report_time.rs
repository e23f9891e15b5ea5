//! The report says when it last changed and by which rules it is, and a plugin that starts goes on from the last one.

use std::time::{Duration, SystemTime};

use neuron_core::catalog::Catalog;
use neuron_core::topology::{Policy, rules};
use serde_json::{Value, json};
use testkit_support::eventually;

use crate::node::{Node, asks, get};
use crate::platform::Watched;

/// A wall clock so many seconds after the beginning of 1970.
fn clock(seconds: u64) -> Watched {
    let watched = Watched::new();
    watched.set_clock(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
    watched
}

fn is_of(report: &Value, time: &str) -> bool {
    report["time"] == json!(time)
}

#[tokio::test]
async fn a_report_that_says_the_same_keeps_its_time_also_after_a_restart() {
    let mut node = Node::new("inf2.xlarge");
    node.config.report_interval = Duration::from_millis(100);
    let _kubelet = node.kubelet().await;
    let first = clock(60);
    let plugin = node.plugin_on(first.system());
    node.report("its time", |report| is_of(report, "1970-01-01T00:01:00Z")).await;
    first.set_clock(SystemTime::UNIX_EPOCH + Duration::from_secs(90));
    node.lose_report().await;
    let again = node.report("devices", |report| report["devices"].is_array()).await;
    assert!(is_of(&again, "1970-01-01T00:01:00Z"), "{again}");
    plugin.stop().await;

    let address = node.listen();
    let second = clock(120);
    let _plugin = node.plugin_on(second.system());
    let ready = async || get(address, "/healthz").await.filter(|answer| answer.starts_with("HTTP/1.1 200"));
    let health = eventually("the second plugin to be ready", ready).await;
    let rules = rules(Catalog::embedded(), Policy::Documented);
    assert!(
        health.contains(&format!("rules: {rules}, ")) && again["rules"] == json!(rules),
        "{health} {again}"
    );
    node.lose_report().await;
    let again = node.report("devices", |report| report["devices"].is_array()).await;
    assert!(is_of(&again, "1970-01-01T00:01:00Z"), "{again}");

    node.place("p", asks("neuroncore", 1), &[("main", "", "1")]).await;
    node.phase("p", "Running").await;
    let report = node.report("a holder", |report| report["holders"][0]["cores"] == json!([1])).await;
    assert!(is_of(&report, "1970-01-01T00:02:00Z"), "{report}");
}

/// kube-scheduler hears of no Lease: a change of the Node has it try the pods again that were refused while the Lease had expired.
#[tokio::test]
async fn a_lease_that_is_renewed_after_its_end_gives_the_report_another_time() {
    let mut node = Node::new("inf2.xlarge");
    node.config.lease_renewal = Duration::from_millis(100);
    let (address, _kubelet) = (node.listen(), node.kubelet().await);
    let clock = clock(60);
    let _plugin = node.plugin_on(clock.system());
    node.report("its time", |report| is_of(report, "1970-01-01T00:01:00Z")).await;
    let says = async |what: &str| {
        let answer = get(address, "/healthz").await?;
        answer.contains(what).then_some(())
    };
    node.api.set_available(false);
    eventually("the Lease to expire", async || says("Lease neuron-device-plugin-n1 has expired").await).await;
    clock.set_clock(SystemTime::UNIX_EPOCH + Duration::from_secs(90));
    node.api.set_available(true);
    node.report("another time", |report| is_of(report, "1970-01-01T00:01:30Z")).await;
}
