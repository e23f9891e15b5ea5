//! Only a leader binds, only what filter has admitted, and only so much at once.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::poll;
use tokio::time::sleep;

use super::world::{Fault, NODE, READ, World};
use crate::leadership::{Leadership, NotLeading};
use crate::verbs::bind::{BindError, Bound};
use crate::wire::BindArgs;

const STANDBY: BindError = BindError::NotLeading(NotLeading::Standby { leader: None });

#[tokio::test(start_paused = true)]
async fn a_replica_that_does_not_lead_binds_nothing() {
    let (mut world, args) = World::new().await;
    let leadership = Arc::new(Leadership::elected());
    world.binder = world.binder.clone().led_by(leadership.clone());
    assert_eq!(world.bind(&args).await.0, Err(STANDBY));
    leadership.lead_for(Duration::from_secs(12));
    let taking_over = BindError::NotLeading(NotLeading::TakingOver);
    assert_eq!(world.bind(&args).await, (Err(taking_over.clone()), 2000), "half the time of a bind");
    world.binder.timeouts.bind = Duration::from_secs(1);
    assert_eq!(world.bind(&args).await, (Err(taking_over), 500));
    world.binder.timeouts.bind = Duration::from_secs(4);
    assert!(!world.is_reserved(&args));
    let listed = async {
        sleep(Duration::from_millis(300)).await;
        leadership.has_listed_now();
    };
    let ((bound, took), ()) = tokio::join!(world.bind(&args), listed);
    assert!(bound.is_ok() && took >= 300, "{bound:?} after {took} ms");
}

#[tokio::test(start_paused = true)]
async fn no_binding_is_sent_once_the_lease_is_over() {
    let (mut world, args) = World::new().await;
    let leadership = Arc::new(Leadership::elected());
    world.binder = world.binder.clone().led_by(leadership.clone());
    // The pod is read before its bind, which takes 500 ms.
    leadership.lead_for(Duration::from_millis(400));
    leadership.has_listed_now();
    assert_eq!(world.bind(&args).await.0, Err(STANDBY));
    assert_eq!(world.node_of("one").await, None);
    assert!(!world.is_reserved(&args));
}

#[tokio::test(start_paused = true)]
async fn no_binding_is_waited_for_longer_than_the_lease_lasts() {
    let (mut world, args) = World::new().await;
    let leadership = Arc::new(Leadership::elected());
    world.binder = world.binder.clone().led_by(leadership.clone());
    leadership.lead_for(Duration::from_millis(1500));
    leadership.has_listed_now();
    world.show(&args).await;
    world.fault(Fault::CallNeverSent);
    let (bound, took) = world.bind(&args).await;
    // Then the pod is read once.
    assert!(matches!(bound, Err(BindError::OutcomeUnknown { .. })), "{bound:?}");
    assert_eq!(took, 2000);
}

/// However much longer than the Lease a bind may take.
#[tokio::test(start_paused = true)]
async fn a_short_lease_is_long_enough_for_a_long_bind() {
    let (mut world, args) = World::new().await;
    world.binder.timeouts.bind = Duration::from_secs(59);
    let leadership = Arc::new(Leadership::elected());
    world.binder = world.binder.clone().led_by(leadership.clone());
    // The pod is read before its bind, which takes 500 ms.
    leadership.lead_for(Duration::from_millis(800));
    leadership.has_listed_now();
    assert!(world.bind(&args).await.0.is_ok());
    let two = world.create("two", 1).await;
    leadership.lead_for(Duration::from_millis(700));
    leadership.has_listed_now();
    assert_eq!(world.bind(&two).await.0, Err(BindError::NoTimeLeft));
}

/// For how many milliseconds at most the API server is told to carry out the next Binding.
async fn time_given(world: &World, args: &BindArgs) -> u64 {
    let query = Arc::<Mutex<String>>::default();
    world.fault(Fault::Kept(query.clone()));
    assert!(world.bind(args).await.0.is_ok());
    let query = query.lock().unwrap();
    query.strip_prefix("timeout=").and_then(|time| time.strip_suffix("ms")).unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_api_server_may_carry_a_binding_out_for_no_longer_than_the_lease_lasts() {
    let (mut world, args) = World::new().await;
    // The pod is read before its bind, which takes 500 ms, and three quarters of 4 s are for the Binding.
    assert_eq!(time_given(&world, &args).await, 2500, "nobody else leads");
    let leadership = Arc::new(Leadership::elected());
    world.binder = world.binder.clone().led_by(leadership.clone());
    leadership.lead_for(Duration::from_millis(1500));
    leadership.has_listed_now();
    let two = world.create("two", 1).await;
    assert_eq!(time_given(&world, &two).await, 1000);
    leadership.lead_for(Duration::from_secs(12));
    let three = world.create("three", 1).await;
    assert_eq!(time_given(&world, &three).await, 2500, "a bind has no longer itself");
}

#[tokio::test(start_paused = true)]
async fn what_filter_has_not_admitted_is_bound_by_a_new_leader_only() {
    let (world, args) = World::new().await;
    world.admitted.forget(&args.pod_uid);
    sleep(Duration::from_secs(60)).await;
    let bound = world.bind(&args).await.0;
    assert_eq!(bound, Err(BindError::NotAdmitted { node: "n1".to_owned() }));
    let told = bound.unwrap_err().to_string();
    assert!(told.contains("within the last 10 minutes") && told.contains("filterVerb"), "{told}");
    let (world, args) = World::new().await;
    world.admitted.forget(&args.pod_uid);
    assert!(world.bind(&args).await.0.is_ok(), "another one may have admitted it");
}

/// A bind of whoever makes up a UID.
fn made_up(number: usize) -> BindArgs {
    BindArgs {
        pod_name: "one".to_owned(),
        pod_namespace: "default".to_owned(),
        pod_uid: format!("made-up-{number}"),
        node: NODE.to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn the_api_server_is_not_asked_for_a_pod_that_filter_has_not_admitted() {
    let refused = BindError::NotAdmitted { node: NODE.to_owned() };
    let (world, args) = World::led_for(61).await;
    assert_eq!(world.bind(&made_up(0)).await, (Err(refused.clone()), 0), "a read takes half a second");
    let elsewhere = BindArgs { pod_uid: args.pod_uid.clone(), node: "n2".to_owned(), ..made_up(0) };
    let not_there = BindError::UnknownNode { node: "n2".to_owned() };
    assert_eq!(world.bind(&elsewhere).await, (Err(not_there), 0), "nor for a node that there is not");
    assert!(matches!(world.bind(&args).await, (Ok(Bound::WithRecord(_)), 500)));
    // What the watch shows need not be asked for.
    world.show(&args).await;
    world.admitted.forget(&args.pod_uid);
    assert_eq!(world.bind(&args).await, (Ok(Bound::Already), 0));
}

#[tokio::test(start_paused = true)]
async fn so_many_binds_are_under_way_and_those_count_whose_callers_have_hung_up() {
    const MOST: usize = 1024;
    let (world, args) = World::new().await;
    for number in 0..MOST {
        let call = pin!(world.binder.bind(made_up(number)));
        assert!(poll!(call).is_pending(), "a new leader has the API server asked for it");
    }
    let (bound, took) = world.bind(&args).await;
    let told = bound.unwrap_err().to_string();
    assert!(told.contains("1024 other binds are under way") && told.contains("tries again"), "{told}");
    assert_eq!(took, 0);
    sleep(READ * 2).await;
    assert!(world.bind(&args).await.0.is_ok(), "the others have ended");
}
