//! The report says when it last changed and by which rules it is, and a plugin that starts goes on from the last one.

use std::time::{Duration, SystemTime};

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse as _;
use neuron_core::catalog::Catalog;
use neuron_core::topology::{Policy, rules};
use rstest::rstest;
use serde_json::{Value, json};
use testkit_support::eventually;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

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

/// The Lease of the process before may have expired, and kube-scheduler hears of the report alone, which was written before the renewal.
#[rstest]
#[case::refused_at_first(Some(StatusCode::FORBIDDEN))]
#[case::answered_late(None)]
#[tokio::test]
async fn a_lease_whose_first_renewal_is_late_gives_the_report_another_time(
    #[case] answer: Option<StatusCode>,
) {
    let mut node = Node::new("inf2.xlarge");
    node.config.lease_renewal = Duration::from_secs(2);
    let _kubelet = node.kubelet().await;
    let (late, is_late) = watch::channel(true);
    let hold = from_fn(move |call: Request, next: Next| {
        let mut is_late = is_late.clone();
        async move {
            if call.uri().path().contains("/leases/") && *is_late.borrow() {
                match answer {
                    Some(status) => return status.into_response(),
                    None => drop(is_late.wait_for(|is_late| !is_late).await),
                }
            }
            next.run(call).await
        }
    });
    let (clock, began) = (clock(60), Instant::now());
    let client = kube::Client::new(node.api.router().layer(hold), "default");
    let _plugin = node.plugin_of(clock.system(), client);
    node.report("its time", |report| is_of(report, "1970-01-01T00:01:00Z")).await;
    clock.set_clock(SystemTime::UNIX_EPOCH + Duration::from_secs(90));
    sleep_until(began + Duration::from_millis(1200)).await;
    late.send_replace(false);
    node.report("another time", |report| is_of(report, "1970-01-01T00:01:30Z")).await;
}
