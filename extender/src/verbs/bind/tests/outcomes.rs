//! What a bind answers where the API server answers late, with an error or not at all, and in what time.

use std::time::Duration;

use super::world::{Fault, NODE, World, bind_over_http, metrics, record, unknown};
use crate::index::Change;
use crate::verbs::bind::{BindError, Bound};

#[tokio::test(start_paused = true)]
async fn the_last_quarter_of_the_time_is_for_a_look_at_the_pod() {
    let (world, args) = World::new().await;
    world.show(&args).await;
    world.fault(Fault::NeverAnswered);
    let (bound, took) = world.bind(&args).await;
    assert!(matches!(bound, Ok(Bound::WithRecord(_))), "{bound:?}");
    assert_eq!(took, 3500, "3 s for the Binding, and a read");

    let other = world.create("other", 1).await;
    world.show(&other).await;
    *world.reads_fail.lock().unwrap() = true;
    world.fault(Fault::NeverAnswered);
    let (bound, took) = world.bind(&other).await;
    assert_eq!((bound, took), (unknown("the API server did not answer in time"), 3500));
}

/// Its outcome would be unknown, and its devices reserved for a minute.
#[tokio::test(start_paused = true)]
async fn no_binding_is_sent_that_would_be_cut_off_at_once() {
    let (mut world, args) = World::new().await;
    // Three quarters of that is for the Binding, and the pod is read for 500 ms of it.
    world.binder.timeouts.bind = Duration::from_millis(700);
    assert_eq!(world.bind(&args).await, (Err(BindError::NoTimeLeft), 500));
    assert!(!world.is_reserved(&args));
    assert_eq!(world.node_of("one").await, None);
    world.show(&args).await;
    assert!(world.bind(&args).await.0.is_ok());
}

/// As by an earlier Binding that is carried out late: the log would name devices that the pod does not have.
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_found_bound_with_another_record_was_bound_before() {
    let (world, args) = World::new().await;
    world.show(&args).await;
    world.fault(Fault::BoundBefore(NODE, record(NODE, 3)));
    assert_eq!(world.bind(&args).await.0, Ok(Bound::Already));
}

#[tokio::test(start_paused = true)]
async fn a_binding_of_our_own_is_a_success_though_its_answer_is_lost() {
    let (world, args) = World::new().await;
    world.show(&args).await;
    world.fault(Fault::AnswerLost);
    // Whether the record counts need not be asked: the node may have gone meanwhile.
    let gone = async {
        tokio::task::yield_now().await;
        world.cluster.write(|index| index.change_nodes(Change::Gone(NODE.to_owned())));
    };
    let ((bound, took), ()) = tokio::join!(world.bind(&args), gone);
    assert!(matches!(bound, Ok(Bound::WithRecord(_))), "{bound:?}");
    assert_eq!(took, 500);
    assert_eq!(world.node_of("one").await.as_deref(), Some(NODE));
}

#[tokio::test(start_paused = true)]
async fn a_status_tells_whether_the_binding_may_still_be_carried_out() {
    for (code, may_be_carried_out) in [
        (400, false),
        (403, false),
        (404, false),
        (408, true),
        (409, false),
        (429, false),
        (500, true),
        (504, true),
    ] {
        let (world, args) = World::new().await;
        world.show(&args).await;
        world.fault(Fault::Status(code));
        let wanted = match may_be_carried_out {
            true => unknown("told so"),
            false => Err(BindError::BindingRefused("told so".to_owned())),
        };
        assert_eq!(world.bind(&args).await.0, wanted, "{code}");
        assert_eq!(world.is_reserved(&args), may_be_carried_out, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_waits_for_binds_under_way() {
    let (world, args) = World::new().await;
    let binder = world.binder.clone();
    let bind = tokio::spawn(async move { binder.bind(args).await });
    tokio::task::yield_now().await;
    bind.abort();
    world.binder.finish().await;
    assert_eq!(world.node_of("one").await.as_deref(), Some(NODE));
}

#[tokio::test(start_paused = true)]
async fn a_bind_that_panics_takes_no_other_along() {
    let (world, args) = World::new().await;
    world.fault(Fault::Panics);
    assert_eq!(world.bind(&args).await.0, Err(BindError::Panicked));
    let other = world.create("other", 1).await;
    assert!(world.bind(&other).await.0.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_bind_that_panics_is_answered_and_counted_as_one() {
    let (world, args) = World::new().await;
    let routes = world.routes();
    world.fault(Fault::Panics);
    let told = bind_over_http(&routes, &args).await;
    assert!(told.contains("the extender failed while binding"), "{told}");
    let other = world.create("other", 1).await;
    assert_eq!(bind_over_http(&routes, &other).await, r#"{"Error":""}"#);
    let shown = metrics(&routes).await;
    let binds: Vec<&str> =
        shown.lines().filter(|line| line.starts_with("neuron_extender_verb_seconds_count")).collect();
    let bind = |result| format!("neuron_extender_verb_seconds_count{{verb=\"bind\",result=\"{result}\"}} 1");
    assert!(
        binds.len() == 2 && [bind("bound"), bind("panicked")].iter().all(|line| binds.contains(&&**line)),
        "{shown}"
    );
}
