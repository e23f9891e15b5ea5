//! Bindings whose outcome is not known, and API servers that refuse.

use std::sync::Arc;
use std::time::Duration;

use neuron_extender::Config;
use serde_json::json;
use testkit_support::eventually;
use tokio::sync::Semaphore;

use crate::support::{Fault, World};

const OUTCOME_UNKNOWN: &str = "it is not clear whether the pod was bound: ";

/// Short deadlines, so that tests wait for what they test and not for the clock.
async fn impatient(binding_timeout: Duration) -> World {
    let config = Config { bind_deadline: Duration::from_millis(400), binding_timeout, ..Config::default() };
    World::configured(config, &[("n1", "inf2.24xlarge")]).await
}

#[tokio::test]
async fn an_answer_that_got_lost_is_a_success() {
    let world = impatient(Duration::from_secs(60)).await;
    let pod = world.pod("one", "neuron", 1).await;
    world.faults.push(Fault::AnswerLost);
    assert_eq!(world.bind(&pod, "n1").await, "");
    assert_eq!(world.placed("one").await, (Some("n1".into()), Some("0".into())));
}

#[tokio::test]
async fn a_call_that_got_lost_keeps_its_devices_for_the_next_try() {
    let world = impatient(Duration::from_secs(60)).await;
    let (pod, other) = (world.pod("one", "neuron", 1).await, world.pod("all", "neuron", 6).await);
    for fault in [Fault::CallLost, Fault::Silent, Fault::Status(504), Fault::Status(500)] {
        world.faults.push(fault);
        let error = world.bind(&pod, "n1").await;
        assert!(error.starts_with(OUTCOME_UNKNOWN), "{error}");
        // The lost call may still be carried out: nobody else gets the device, the pod itself does.
        assert!(!world.fits(&other, "n1").await);
        assert!(world.fits(&pod, "n1").await);
    }
    assert_eq!(world.bind(&pod, "n1").await, "");
    assert_eq!(world.placed("one").await, (Some("n1".into()), Some("0".into())));
}

#[tokio::test]
async fn devices_of_a_lost_call_are_free_again_in_time() {
    let world = impatient(Duration::from_millis(100)).await;
    let (pod, other) = (world.pod("one", "neuron", 1).await, world.pod("all", "neuron", 6).await);
    world.faults.push(Fault::CallLost);
    assert!(world.bind(&pod, "n1").await.starts_with(OUTCOME_UNKNOWN));
    eventually("the device is free again", async || world.fits(&other, "n1").await.then_some(())).await;
}

#[tokio::test]
async fn devices_of_a_lost_call_are_free_once_the_pod_is_gone() {
    let world = impatient(Duration::from_secs(60)).await;
    let (pod, other) = (world.pod("one", "neuron", 1).await, world.pod("all", "neuron", 6).await);
    world.faults.push(Fault::CallLost);
    assert!(world.bind(&pod, "n1").await.starts_with(OUTCOME_UNKNOWN));
    world.delete("one").await;
    eventually("the device is free again", async || world.fits(&other, "n1").await.then_some(())).await;
}

#[tokio::test]
async fn a_refused_binding_frees_its_devices_at_once() {
    let world = impatient(Duration::from_secs(60)).await;
    let (pod, other) = (world.pod("one", "neuron", 1).await, world.pod("all", "neuron", 6).await);
    world.faults.push(Fault::Status(403));
    assert_eq!(world.bind(&pod, "n1").await, "the API server refused the binding: told so");
    world.faults.push(Fault::Status(409));
    assert_eq!(world.bind(&pod, "n1").await, "the API server refused the binding: told so");
    assert!(world.fits(&other, "n1").await);
    assert_eq!(world.bind(&other, "n1").await, "");
}

#[tokio::test]
async fn a_terminating_pod_is_refused_and_another_pod_gets_its_devices() {
    let world = World::with_nodes(&[("n1", "inf2.24xlarge")]).await;
    let (leaving, other) = (world.pod("leaving", "neuron", 6).await, world.pod("all", "neuron", 6).await);
    world.faults.push(Fault::BeingDeleted);
    assert_eq!(
        world.bind(&leaving, "n1").await,
        "the API server refused the binding: Operation cannot be fulfilled on pods/binding \"leaving\": \
         pod leaving is being deleted, cannot be assigned to a host"
    );
    assert_eq!(world.bind(&other, "n1").await, "");
    assert_eq!(world.placed("all").await, (Some("n1".into()), Some("0,1,2,3,4,5".into())));
    assert_eq!(world.placed("leaving").await, (None, None));
}

#[tokio::test]
async fn a_pod_that_is_deleted_while_it_is_bound_is_refused() {
    let world = World::with_nodes(&[("n1", "inf2.24xlarge")]).await;
    let (pod, other) = (world.pod("one", "neuron", 1).await, world.pod("all", "neuron", 6).await);
    let gate = Arc::new(Semaphore::new(0));
    world.faults.push(Fault::Held(gate.clone()));
    let bind = world.bind_later(&pod, "n1");
    eventually("the bind has reserved its device", async || (!world.fits(&other, "n1").await).then_some(()))
        .await;
    world.delete("one").await;
    gate.add_permits(1);
    assert_eq!(bind.await.unwrap(), "the API server refused the binding: pods \"one\" not found");
    assert!(world.fits(&other, "n1").await, "its device is free at once");
}

#[tokio::test]
async fn a_pod_that_another_replica_bound_here_meanwhile_is_a_success() {
    let world = World::with_nodes(&[("n1", "inf2.24xlarge")]).await;
    let (pod, other) = (world.pod("one", "neuron", 1).await, world.pod("all", "neuron", 6).await);
    let gate = Arc::new(Semaphore::new(0));
    world.faults.push(Fault::Held(gate.clone()));
    let bind = world.bind_later(&pod, "n1");
    eventually("the bind has reserved its device", async || (!world.fits(&other, "n1").await).then_some(()))
        .await;
    let record = json!({"v": 1, "node": "n1", "lnc": 1, "containers": {"main": {"devices": [5]}}});
    let annotations = json!({"neuron-scheduler/allocation": record.to_string()});
    world.bind_by_hand("one", "n1", annotations).await;
    gate.add_permits(1);
    assert_eq!(bind.await.unwrap(), "");
    // What counts is what was written: 5 is held, 0 is not.
    let five = world.pod("five", "neuron", 5).await;
    eventually("the watch has settled it", async || world.fits(&five, "n1").await.then_some(())).await;
    assert_eq!(world.bind(&five, "n1").await, "");
    assert_eq!(world.placed("five").await.1.as_deref(), Some("0,1,2,3,4"));
}

#[tokio::test]
async fn a_pod_that_was_bound_elsewhere_meanwhile_frees_its_devices() {
    let world = World::with_nodes(&[("n1", "inf2.24xlarge"), ("n2", "inf2.24xlarge")]).await;
    let (pod, other) = (world.pod("one", "neuron", 1).await, world.pod("all", "neuron", 6).await);
    let gate = Arc::new(Semaphore::new(0));
    world.faults.push(Fault::Held(gate.clone()));
    let bind = world.bind_later(&pod, "n1");
    eventually("the bind has reserved its device", async || (!world.fits(&other, "n1").await).then_some(()))
        .await;
    world.bind_by_hand("one", "n2", json!({})).await;
    gate.add_permits(1);
    assert_eq!(bind.await.unwrap(), "the pod is already bound to node n2");
    assert!(world.fits(&other, "n1").await);
}

#[tokio::test]
async fn binds_under_way_are_finished_on_shutdown() {
    // Long enough for any machine: this bind ends because the test lets it.
    let config = Config { bind_deadline: Duration::from_secs(60), ..Config::default() };
    let mut world = World::configured(config, &[("n1", "inf2.24xlarge")]).await;
    world.stop().await;
    world.launch_in_own_runtime().await;
    eventually("the extender is ready", async || (world.get("/readyz").await.0 == 200).then_some(())).await;
    let (pod, other) = (world.pod("one", "neuron", 1).await, world.pod("all", "neuron", 6).await);
    let gate = Arc::new(Semaphore::new(0));
    world.faults.push(Fault::Held(gate.clone()));
    let bind = world.bind_later(&pod, "n1");
    eventually("the bind has reserved its device", async || (!world.fits(&other, "n1").await).then_some(()))
        .await;
    // The caller hangs up: no open call is left that the server itself would wait for.
    bind.abort();
    world.shut_down();
    let stopping = (503, "the extender is stopping".to_owned());
    eventually("it is not ready", async || (world.get("/readyz").await == stopping).then_some(())).await;
    assert_eq!(world.get("/healthz").await.0, 200);
    assert_eq!(world.bind(&other, "n1").await, "the extender was stopped while binding; try again");
    gate.add_permits(1);
    world.stop().await;
    assert_eq!(world.placed("one").await, (Some("n1".into()), Some("0".into())));
}
