//! Only the pod that kube-scheduler means is bound: the one of that name and UID, not deleted, not bound already.

use std::time::UNIX_EPOCH;

use kube::ResourceExt as _;
use kube::api::{DeleteParams, Patch, PatchParams};
use rstest::rstest;
use serde_json::json;
use tokio::time::{Duration, Instant, sleep};

use super::world::{Fault, NODE, World, record};
use crate::index::{Advertised, Change, NodeRefusal, ObservedLease};
use crate::verbs::bind::{BindError, Bound};
use crate::wire::BindArgs;

#[rstest]
#[tokio::test(start_paused = true)]
async fn a_pod_that_no_watch_has_shown_yet_is_read(#[values(0, 61)] led_for: u64) {
    let (world, args) = World::led_for(led_for).await;
    let (bound, took) = world.bind(&args).await;
    assert!(matches!(bound, Ok(Bound::WithRecord(_))), "{bound:?}");
    assert_eq!(took, 500);
    assert_eq!(world.bind(&args).await, (Ok(Bound::Already), 500), "kube-scheduler has lost the answer");
    world.show(&args).await;
    assert_eq!(world.bind(&args).await, (Ok(Bound::Already), 0), "the watch has shown it");

    let lost = world.create("lost", 1).await;
    *world.reads_fail.lock().unwrap() = true;
    let (bound, _) = world.bind(&lost).await;
    assert!(matches!(&bound, Err(BindError::NotRead(reason)) if reason.contains("reset")), "{bound:?}");
}

#[tokio::test(start_paused = true)]
async fn only_the_pod_of_that_name_and_uid_is_bound() {
    let (world, args) = World::new().await;
    world.show(&args).await;
    // The watch shows this UID under another name: the API server is asked, and knows no such pod.
    let renamed = BindArgs { pod_name: "two".to_owned(), ..world.create("three", 1).await };
    let renamed = BindArgs { pod_uid: args.pod_uid.clone(), ..renamed };
    assert_eq!(world.bind(&renamed).await, (Err(BindError::Gone), 500));
    let moved = BindArgs { pod_namespace: "other".to_owned(), pod_name: "one".to_owned(), ..renamed };
    assert_eq!(world.bind(&moved).await, (Err(BindError::Gone), 500));
    let before = BindArgs { pod_uid: "before".to_owned(), pod_namespace: "default".to_owned(), ..moved };
    let replaced = BindError::Replaced { requested: "before".to_owned(), found: args.pod_uid.clone() };
    assert_eq!(world.bind(&before).await, (Err(replaced), 500));
    assert_eq!(world.node_of("one").await, None);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_was_made_again_meanwhile_is_not_bound() {
    for and_made_again in [false, true] {
        let (world, args) = World::new().await;
        world.show(&args).await;
        world.fault(Fault::Deleted { and_made_again });
        let (bound, _) = world.bind(&args).await;
        match (and_made_again, bound) {
            (false, Err(BindError::BindingRefused(reason))) => assert_eq!(reason, "pods \"one\" not found"),
            (true, Err(BindError::Replaced { requested, found })) => {
                assert_eq!(requested, args.pod_uid);
                assert_eq!(Some(found), world.pods.get("one").await.unwrap().uid());
            }
            (_, bound) => panic!("{and_made_again}: {bound:?}"),
        }
        assert!(!world.is_reserved(&args));
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_goes_while_its_bindings_answer_is_lost_is_gone() {
    let (world, args) = World::new().await;
    world.show(&args).await;
    world.pods.delete("one", &DeleteParams::default().grace_period(0)).await.unwrap();
    world.fault(Fault::CallLost);
    assert_eq!(world.bind(&args).await.0, Err(BindError::Gone));
    assert!(!world.is_reserved(&args));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_somebody_else_bound_meanwhile_is_told_by_its_record() {
    let elsewhere = BindError::BoundElsewhere { node: "n2".to_owned() };
    for (node, annotations, wanted) in [
        (NODE, record(NODE, 3), None),
        (NODE, json!({}), Some(BindError::BoundWithoutRecord)),
        (NODE, record("n2", 0), Some(BindError::BoundWithoutRecord)),
        ("n2", record("n2", 0), Some(elsewhere.clone())),
        // This record is to the letter what this bind would have written.
        ("n2", record(NODE, 0), Some(elsewhere)),
    ] {
        let (world, args) = World::new().await;
        world.show(&args).await;
        let case = format!("{node} {annotations}");
        world.fault(Fault::BoundBefore(node, annotations));
        assert_eq!(world.bind(&args).await.0.err(), wanted, "{case}");
        assert_eq!(world.is_reserved(&args), wanted.is_none(), "{case}");
    }
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn a_claim_that_no_watch_has_shown_yet_is_read_where_the_node_lacks_what_the_pod_asks_for(
    #[values(0, 61)] led_for: u64,
) {
    let (world, args) = World::led_for(led_for).await;
    world.show(&args).await;
    world.claim("one").await;
    // Every device unhealthy, or the plugin just gone: its devices would come back under the claim.
    world.advertise(Advertised { any: true, ..Advertised::default() });
    let refused =
        NodeRefusal::Claimed { resources: "aws.amazon.com/neuron".to_owned(), claim: "c".to_owned() };
    assert_eq!(world.bind(&args).await, (Err(BindError::Refused(refused)), 500));
    assert_eq!(world.node_of("one").await, None);

    world.advertise(Advertised::default());
    assert_eq!(world.bind(&args).await, (Ok(Bound::WithoutDevices), 500));
    assert!(!world.is_reserved(&args));
    assert_eq!(world.node_of("one").await.as_deref(), Some(NODE));
    assert!(world.pods.get("one").await.unwrap().annotations().is_empty());
    assert_eq!(world.bind(&args).await, (Ok(Bound::WithoutDevices), 500), "again");
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn a_node_whose_plugin_is_silent_gets_no_pod_though_filter_has_admitted_it(
    #[values(false, true)] are_seen: bool,
) {
    let (world, args) = World::new().await;
    world.show(&args).await;
    let lease =
        ObservedLease { node: NODE.to_owned(), renewed: "a".to_owned(), lasts: Duration::from_secs(1) };
    world.cluster.write(|index| index.change_leases(Change::Listed(vec![lease]), Instant::now(), UNIX_EPOCH));
    if are_seen {
        world.cluster.lease_gap.heard();
    }
    sleep(Duration::from_secs(2)).await;
    let bound = world.bind(&args).await.0;
    if !are_seen {
        assert!(bound.is_ok(), "nobody knows whether it renews its Lease: {bound:?}");
        return;
    }
    let silent = NodeRefusal::PluginSilent { node: NODE.to_owned() };
    assert_eq!(bound, Err(BindError::Refused(silent)));
    assert!(!world.is_reserved(&args) && world.node_of("one").await.is_none());
    let lease =
        ObservedLease { node: NODE.to_owned(), renewed: "b".to_owned(), lasts: Duration::from_secs(1) };
    world.cluster.write(|index| index.change_leases(Change::Applied(lease), Instant::now(), UNIX_EPOCH));
    assert!(world.bind(&args).await.0.is_ok());
}

/// A new leader binds what it has not admitted itself.
#[rstest]
#[tokio::test(start_paused = true)]
async fn a_pod_gets_no_node_of_a_device_model_that_its_author_does_not_want(
    #[values(false, true)] is_shown: bool,
) {
    let (world, args) = World::new().await;
    world.admitted.forget(&args.pod_uid);
    for (models, is_wanted) in [("Trainium2", false), ("nonsense", false), ("inferentia2", true)] {
        let annotations = json!({"neuron-scheduler/device-model": models});
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        world.pods.patch("one", &PatchParams::default(), &patch).await.unwrap();
        if is_shown {
            world.show(&args).await;
        }
        let bound = world.bind(&args).await.0;
        let is_refused =
            matches!(bound, Err(BindError::Refused(NodeRefusal::OtherModel { .. } | NodeRefusal::Models(_))));
        assert_eq!((bound.is_ok(), is_refused), (is_wanted, !is_wanted), "{models}: {bound:?}");
    }
}
