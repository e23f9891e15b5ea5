//! Whether a pod fits once others are gone, and for how long that counts as not known.

use tokio::time::advance;

use super::*;

/// Whether six devices are free on n1 once these pods are gone.
fn all_fit_without(index: &Index, gone: &[&str]) -> Option<bool> {
    let gone = gone.iter().map(|uid| Arc::from(*uid)).collect();
    index.fits_without("n1", &gone, &mut EqualNodes::new(&request(ALL)))
}

/// A pod on n1 of which nothing says what it holds.
fn stray(name: &str) -> ObservedPod {
    ObservedPod { node: Some("n1".into()), ..pod(name, 1) }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_holder_is_in_the_way_once_it_has_been_unknown_for_half_a_minute() {
    let mut index = index_of(&[("n1", "inf2.24xlarge")]);
    index.change_pods(Change::Applied(bound("one", "n1", &[0])));
    assert_eq!(all_fit_without(&index, &[]), Some(false));
    assert_eq!(all_fit_without(&index, &["one"]), Some(true));
    index.change_pods(Change::Applied(stray("stray")));
    for _ in 0..2 {
        assert_eq!(all_fit_without(&index, &["one"]), None, "a report may say in a moment what it holds");
        assert_eq!(all_fit_without(&index, &["one", "stray"]), Some(true));
        advance(UNKNOWN_AT_MOST / 2).await;
        // The node is settled anew, as for each pod.
        index.change_pods(Change::Applied(bound("two", "n1", &[1])));
        index.change_pods(Change::Gone("two".to_owned()));
    }
    advance(Duration::from_secs(1)).await;
    assert_eq!(all_fit_without(&index, &["one"]), Some(false));
    assert_eq!(all_fit_without(&index, &["one", "stray"]), Some(true));
    // Another one is as new as the first was.
    index.change_pods(Change::Applied(stray("other")));
    assert_eq!(all_fit_without(&index, &["one", "stray"]), None);
    assert_eq!(all_fit_without(&index, &["one", "other"]), Some(false));
}

#[tokio::test(start_paused = true)]
async fn an_unclear_reservation_is_in_the_way_once_it_has_been_unclear_for_three_minutes() {
    let mut index = index_of(&[("n1", "inf2.24xlarge")]);
    index.change_pods(Change::Applied(bound("one", "n1", &[0])));
    reserve(&mut index, "binds", "n1", 2, 2);
    assert_eq!(all_fit_without(&index, &["one"]), Some(false), "its Binding is under way");
    let id = index.reservations_of("binds").unwrap()["n1"].id;
    for minutes in [0, 1, 2] {
        advance(Duration::from_secs(60 * minutes)).await;
        index.mark_unclear("binds", "n1", id);
        assert_eq!(all_fit_without(&index, &["one"]), None);
        assert_eq!(all_fit_without(&index, &[]), Some(false), "one stays");
    }
    advance(Duration::from_secs(1)).await;
    assert_eq!(all_fit_without(&index, &["one"]), Some(false));
}
