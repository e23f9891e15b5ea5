//! The cluster inside a simulation: one thread, tokio's paused time, files and sockets in memory, and processes that are
//! killed by dropping their tasks.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test should say where")]
#![allow(clippy::disallowed_methods, reason = "the simulated machine is made of what programs must not use")]

mod cluster;
mod machine;
mod plugin;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;

use crate::cluster::Cluster;

#[tokio::test(start_paused = true)]
async fn a_day_passes_in_no_time_with_everything_alive() {
    let cluster = Cluster::new(1);
    let _kubelet = cluster.kubelet().await;
    let _scheduler = cluster.scheduler();
    let (began, simulated) = (std::time::Instant::now(), cluster.api.clock().now());
    tokio::time::sleep(Duration::from_secs(24 * 60 * 60)).await;
    cluster.pod("p").await;
    cluster.runs("p").await;
    let now = cluster.api.clock().now();
    assert!(now.duration_since(simulated).as_hours() >= 24);
    let leases: Api<Lease> = Api::namespaced(cluster.api.client(), "kube-node-lease");
    let renewed = leases.get("n1").await.unwrap().spec.unwrap().renew_time.unwrap();
    assert!(now.duration_since(renewed.0).as_secs() <= 11, "the lease is renewed to the end");
    assert!(began.elapsed() < Duration::from_secs(120), "the simulated day was waited for");
}

#[tokio::test(start_paused = true)]
async fn of_a_killed_kubelet_nothing_is_left_and_the_next_one_goes_on() {
    let cluster = Cluster::new(1);
    let kubelet = cluster.kubelet().await;
    let _scheduler = cluster.scheduler();
    cluster.pod("p").await;
    cluster.runs("p").await;
    assert!(Arc::strong_count(&cluster.containers) > 1);
    kubelet.kill();
    cluster.until("the kubelet to be gone", async || Arc::strong_count(&cluster.containers) == 1).await;
    cluster.until("its streams to be closed", async || cluster.plugin.streams() == 0).await;

    let _kubelet = cluster.kubelet().await;
    cluster.pod("q").await;
    cluster.runs("q").await;
    assert_eq!(cluster.containers.starts().len(), 2, "p's container was left running");
}

#[tokio::test(start_paused = true)]
async fn of_a_killed_scheduler_nothing_is_left_and_the_next_one_goes_on() {
    let cluster = Cluster::new(1);
    let _kubelet = cluster.kubelet().await;
    let scheduler = cluster.scheduler();
    cluster.pod("p").await;
    cluster.runs("p").await;
    scheduler.kill();
    cluster.pod("q").await;
    tokio::time::sleep(Duration::from_secs(60 * 60)).await;
    assert_eq!(cluster.node_of("q").await, None);
    let _scheduler = cluster.scheduler();
    cluster.runs("q").await;
}

/// Every write of a run with restarts and an outage.
fn written(seed: u64) -> Vec<String> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let cluster = Cluster::new(seed);
        let kubelet = cluster.kubelet().await;
        let _scheduler = cluster.scheduler();
        for name in ["a", "b", "c"] {
            cluster.pod(name).await;
        }
        cluster.runs("a").await;
        kubelet.kill();
        cluster.api.set_available(false);
        tokio::time::sleep(Duration::from_secs(20)).await;
        cluster.api.set_available(true);
        let _kubelet = cluster.kubelet().await;
        cluster.delete("a").await;
        for name in ["b", "c", "d"] {
            cluster.pod(name).await;
            cluster.runs(name).await;
        }
        cluster.writes()
    })
}

#[test]
fn two_runs_of_one_seed_write_the_same_at_the_same_time() {
    let first = written(7);
    assert!(first.len() > 20, "{first:#?}");
    assert_eq!(first, written(7));
    assert_ne!(first, written(8), "the seed decides what is left to chance");
}
