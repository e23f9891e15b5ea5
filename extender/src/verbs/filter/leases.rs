//! A refusal for a plugin that counts as silent while the watch of the plugins' Leases is taken up again.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::json;
use tokio::time::{Instant, sleep};

use super::tests::{ask, cluster_of, filter};
use super::*;
use crate::index::{Change, ObservedLease};

/// The Lease of the plugin of n1, which lasts a second.
fn lease(renewed: &str) -> ObservedLease {
    ObservedLease { node: "n1".to_owned(), renewed: renewed.to_owned(), lasts: Duration::from_secs(1) }
}

/// A cluster of n1 with one device, whose plugin has been silent for longer than its Lease lasts.
async fn silent() -> Arc<Cluster> {
    let cluster = cluster_of("inf2.xlarge", Vec::new());
    cluster.lease_gap.heard();
    cluster.write(|index| index.change_leases(Change::Listed(vec![lease("a")]), Instant::now(), UNIX_EPOCH));
    sleep(Duration::from_secs(2)).await;
    cluster
}

#[tokio::test(start_paused = true)]
async fn it_waits_for_the_renewals_that_the_next_watch_tells() {
    let cluster = silent().await;
    let filter = filter(&cluster);
    let answer = ask(&filter, 1, &["n1"]).await;
    let told = answer["FailedNodes"]["n1"].as_str().unwrap();
    assert!(told.contains("has not renewed its Lease") && answer["Error"] == "", "{answer}");
    cluster.lease_gap.open();
    let renewed = async {
        sleep(Duration::from_millis(300)).await;
        cluster.write(|index| index.change_leases(Change::Applied(lease("b")), Instant::now(), UNIX_EPOCH));
        cluster.lease_gap.close();
    };
    let (answer, ()) = tokio::join!(ask(&filter, 1, &["n1"]), renewed);
    assert_eq!((&answer["NodeNames"], &answer["Error"]), (&json!(["n1"]), &json!("")), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn it_is_an_error_where_that_watch_tells_nothing_for_a_second() {
    let (cluster, began) = (silent().await, Instant::now());
    cluster.lease_gap.open();
    let why = "the watch of the device plugins' Leases is being taken up again, so which plugins live is not known; kube-scheduler tries \
               again by itself";
    for _ in 0..5 {
        assert_eq!(ask(&filter(&cluster), 1, &["n1"]).await["Error"], why);
    }
    assert_eq!(began.elapsed(), Duration::from_secs(1), "and not a second each");
    cluster.lease_gap.close();
    assert_eq!(ask(&filter(&cluster), 1, &["n1"]).await["Error"], "", "a refusal is one again");
}

#[tokio::test(start_paused = true)]
async fn what_no_plugin_can_change_is_told_at_once() {
    let (cluster, began) = (silent().await, Instant::now());
    cluster.lease_gap.open();
    let never = ask(&filter(&cluster), 7, &["n1"]).await;
    assert!(never["FailedAndUnresolvableNodes"]["n1"].is_string() && never["Error"] == "", "{never}");
    assert_eq!(began.elapsed(), Duration::ZERO);
}

/// As without the right to watch Leases: kube-scheduler neither preempts for a pod nor marks it unschedulable after an error.
#[tokio::test(start_paused = true)]
async fn a_plugin_that_was_silent_before_counts_as_gone_where_the_watch_stays_away() {
    let cluster = silent().await;
    cluster.lease_gap.heard();
    cluster.write(|index| index.change_leases(Change::Disconnected, Instant::now(), UNIX_EPOCH));
    cluster.lease_gap.open();
    sleep(Duration::from_secs(29)).await;
    assert!(
        ask(&filter(&cluster), 1, &["n1"]).await["Error"].as_str().unwrap().contains("is being taken up")
    );
    sleep(Duration::from_secs(2)).await;
    let answer = ask(&filter(&cluster), 1, &["n1"]).await;
    let told = answer["FailedNodes"]["n1"].as_str().unwrap();
    assert!(told.contains("has not renewed its Lease") && answer["Error"] == "", "{answer}");
}
