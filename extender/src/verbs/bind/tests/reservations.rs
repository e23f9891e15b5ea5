//! How long a pod's reservation lasts, and that a repeated bind uses it again.

use std::time::Duration;

use kube::ResourceExt as _;
use kube::api::{DeleteParams, Patch, PatchParams};
use rstest::rstest;
use runtime::System;
use serde_json::json;
use tokio::time::sleep;

use super::world::{Fault, NODE, READ, TIMEOUTS, World, bind_by_hand};
use crate::verbs::admitted::ADMITTED_FOR;
use crate::verbs::bind::{BindError, Bound};
use crate::watches::watch_pods;
use crate::wire::BindArgs;

/// A bind whose Binding is not carried out, of which nobody hears: what it has reserved stays.
async fn bind_is_lost(world: &World, args: &BindArgs) {
    world.fault(Fault::CallLost);
    assert!(matches!(world.bind(args).await.0, Err(BindError::OutcomeUnknown { .. })));
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn a_repeated_bind_sends_the_same_record_again(#[values(0, 61)] led_for: u64) {
    let (world, args) = World::led_for(led_for).await;
    world.show(&args).await;
    bind_is_lost(&world, &args).await;
    let reserved =
        world.cluster.read(|index| index.reservations_of(&args.pod_uid).unwrap()[NODE].annotations.clone());
    // Another pod gets another device in between.
    let other = world.create("other", 1).await;
    assert!(world.bind(&other).await.0.is_ok());
    assert_eq!(world.bind(&args).await.0, Ok(Bound::WithRecord(reserved.clone())));
    let annotations = world.pods.get("one").await.unwrap().annotations().clone();
    assert_eq!(annotations, *reserved);
    assert_eq!(annotations["NEURON_DEVS"], "0");
    let other = world.pods.get("other").await.unwrap().annotations().clone();
    assert_eq!(other["NEURON_DEVS"], "1");
}

/// kube-scheduler repeats a bind whose answer it has lost, without another call of filter.
#[rstest]
#[tokio::test(start_paused = true)]
async fn a_bind_that_is_repeated_before_the_watch_shows_its_pod_bound_is_a_success(
    #[values(0, 61)] led_for: u64,
) {
    let (world, args) = World::led_for(led_for).await;
    world.show(&args).await;
    let first = world.bind(&args).await.0;
    assert!(matches!(first, Ok(Bound::WithRecord(_))), "{first:?}");
    for _ in 0..2 {
        assert_eq!(world.bind(&args).await.0, first);
        // The watch lags for longer than an answer of filter counts.
        sleep(ADMITTED_FOR).await;
    }
    world.show(&args).await;
    assert_eq!(world.bind(&args).await.0, Ok(Bound::Already));
}

#[tokio::test(start_paused = true)]
async fn a_reservation_of_unknown_outcome_ends_when_its_pod_is_not_bound_here() {
    let (world, args) = World::new().await;
    world.show(&args).await;
    bind_is_lost(&world, &args).await;
    sleep(TIMEOUTS.binding).await;
    assert!(world.is_reserved(&args), "it is read first");
    // While the pod cannot be read nothing is released.
    *world.reads_fail.lock().unwrap() = true;
    sleep(READ * 2).await;
    assert!(world.is_reserved(&args));
    *world.reads_fail.lock().unwrap() = false;
    sleep(TIMEOUTS.binding + READ).await;
    assert!(!world.is_reserved(&args));
}

#[tokio::test(start_paused = true)]
async fn a_reservation_lasts_until_the_watch_shows_its_pod() {
    let (world, args) = World::new().await;
    assert!(world.bind(&args).await.0.is_ok());
    sleep(TIMEOUTS.binding * 3).await;
    assert!(world.is_reserved(&args), "no watch has shown it");
    world.show(&args).await;
    assert!(!world.is_reserved(&args));
}

#[tokio::test(start_paused = true)]
async fn a_reservation_of_unknown_outcome_lasts_while_its_pod_is_bound_here_and_lives() {
    let (world, args) = World::new().await;
    world.show(&args).await;
    world.fault(Fault::NeverAnswered);
    *world.reads_fail.lock().unwrap() = true;
    assert!(matches!(world.bind(&args).await.0, Err(BindError::OutcomeUnknown { .. })));
    *world.reads_fail.lock().unwrap() = false;
    sleep(TIMEOUTS.binding * 3).await;
    assert!(world.is_reserved(&args), "no watch has shown it");
    let ended = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    world.pods.patch_status("one", &PatchParams::default(), &ended).await.unwrap();
    sleep(TIMEOUTS.binding * 2).await;
    assert!(!world.is_reserved(&args));
}

/// As where the extender has lost the right to read a pod, and still lists them.
#[tokio::test(start_paused = true)]
async fn a_reservation_of_a_pod_that_cannot_be_read_ends_by_a_list() {
    let (world, args) = World::new().await;
    let watch = tokio::spawn(watch_pods(System::real(), world.client.clone(), world.cluster.clone()));
    sleep(READ * 4).await;
    world.fault(Fault::CallNeverSent);
    *world.reads_fail.lock().unwrap() = true;
    assert!(matches!(world.bind(&args).await.0, Err(BindError::OutcomeUnknown { .. })));
    sleep(TIMEOUTS.binding).await;
    assert!(world.is_reserved(&args), "it was perhaps not read by chance");
    sleep(TIMEOUTS.binding + READ * 8).await;
    assert!(!world.is_reserved(&args));
    watch.abort();
}

#[tokio::test(start_paused = true)]
async fn a_reservation_ends_whose_pod_came_and_went_before_the_list_was_read() {
    let (world, args) = World::new().await;
    world.show(&args).await;
    let watch = watch_pods(System::real(), world.client.clone(), world.cluster.clone());
    let watch = tokio::spawn(watch);
    // The list has begun, and is read later.
    sleep(READ / 2).await;
    assert!(world.bind(&args).await.0.is_ok());
    world.pods.delete("one", &DeleteParams::default().grace_period(0)).await.unwrap();
    sleep(READ * 4).await;
    assert!(world.is_reserved(&args), "a list that began before the bind tells nothing of it");
    sleep(Duration::from_secs(120)).await;
    assert!(!world.is_reserved(&args));
    watch.abort();
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn devices_that_broke_meanwhile_are_not_bound_again(#[values(0, 61)] led_for: u64) {
    let (world, args) = World::led_for(led_for).await;
    world.show(&args).await;
    bind_is_lost(&world, &args).await;
    let devices = async || world.pods.get("one").await.unwrap().annotations().get("NEURON_DEVS").cloned();
    world.break_devices(&[0]);
    assert!(world.bind(&args).await.0.is_ok());
    assert_eq!(devices().await.as_deref(), Some("1"), "device 0 was reserved, and is broken");
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn devices_that_another_leader_gave_away_meanwhile_are_not_bound_again(#[values(0, 61)] led_for: u64) {
    let (world, args) = World::led_for(led_for).await;
    world.show(&args).await;
    bind_is_lost(&world, &args).await;
    let reserved =
        world.cluster.read(|index| index.reservations_of(&args.pod_uid).unwrap()[NODE].annotations.clone());
    let other = world.create("other", 1).await;
    bind_by_hand(&world.pods, "other", NODE, json!(*reserved)).await;
    world.show(&other).await;
    bind_is_lost(&world, &args).await;
    let again =
        world.cluster.read(|index| index.reservations_of(&args.pod_uid).unwrap()[NODE].annotations.clone());
    assert_eq!(world.bind(&args).await.0, Ok(Bound::WithRecord(again)), "what was chosen last is sent again");
    let devices = async |pod: &str| world.pods.get(pod).await.unwrap().annotations()["NEURON_DEVS"].clone();
    assert_eq!([devices("other").await, devices("one").await], ["0", "1"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_reserved_is_not_bound_beside_a_pod_of_which_nobody_knows_what_it_holds() {
    let (world, args) = World::new().await;
    world.show(&args).await;
    bind_is_lost(&world, &args).await;
    let stray = world.create("stray", 1).await;
    bind_by_hand(&world.pods, "stray", NODE, json!({})).await;
    world.show(&stray).await;
    let refused = world.bind(&args).await.0.unwrap_err().to_string();
    assert!(refused.contains("it is not known yet which devices pod default/stray holds"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_bind_that_panics_keeps_what_it_reserved_until_its_outcome_is_clear() {
    let (world, args) = World::new().await;
    world.fault(Fault::Panics);
    assert_eq!(world.bind(&args).await.0, Err(BindError::Panicked));
    assert!(world.is_reserved(&args), "nobody knows what was sent");
    sleep(TIMEOUTS.binding + READ * 2).await;
    assert!(!world.is_reserved(&args));
}

#[tokio::test(start_paused = true)]
async fn a_reservation_ends_when_another_pod_of_its_name_or_another_node_has_it() {
    let (world, args) = World::new().await;
    world.show(&args).await;
    world.fault(Fault::NeverAnswered);
    *world.reads_fail.lock().unwrap() = true;
    assert!(matches!(world.bind(&args).await.0, Err(BindError::OutcomeUnknown { .. })));
    *world.reads_fail.lock().unwrap() = false;
    world.pods.delete("one", &DeleteParams::default().grace_period(0)).await.unwrap();
    world.create("one", 1).await;
    bind_by_hand(&world.pods, "one", NODE, json!({})).await;
    sleep(TIMEOUTS.binding * 2).await;
    assert!(!world.is_reserved(&args), "another pod of its name is bound here");

    let (world, args) = World::new().await;
    world.show(&args).await;
    bind_is_lost(&world, &args).await;
    bind_by_hand(&world.pods, "one", "n2", json!({})).await;
    sleep(TIMEOUTS.binding * 2).await;
    assert!(!world.is_reserved(&args), "it is bound to another node");
}
