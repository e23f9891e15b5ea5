//! What binds reserve beside the pods, and how long it lasts.

use super::*;

fn is_reserved(index: &Index, uid: &str, node: &str) -> bool {
    index.reservations_of(uid).is_some_and(|nodes| nodes.contains_key(node))
}

#[test]
fn what_only_an_unclear_reservation_keeps_out_is_not_refused_for_good() {
    let mut index = index_of(&[("n1", "inf2.24xlarge")]);
    reserve(&mut index, "one", "n1", 0, 2);
    let refusal = |index: &Index, devices| {
        let request = request(devices);
        index.view("n1").unwrap().fits(&mut EqualNodes::new(&request)).unwrap_err()
    };
    assert!(!refusal(&index, ALL).is_indeterminate(), "its Binding is under way");
    let id = index.reservations_of("one").unwrap()["n1"].id;
    index.mark_unclear("one", "n1", id);
    let told = refusal(&index, ALL);
    assert!(told.is_indeterminate() && !told.is_permanent() && told.to_string().contains("n1"), "{told}");
    assert!(fits(&index, "n1", 5));
    assert!(!refusal(&index, 5 * ALL).is_indeterminate(), "there never are so many");
    reserve(&mut index, "two", "n1", 2, 2);
    assert!(!refusal(&index, ALL).is_indeterminate(), "another one is in the way, too");
}

#[test]
fn a_reservation_holds_beside_the_pods_until_it_is_released() {
    let mut index = index_of(&[("n1", "inf2.24xlarge")]);
    index.change_pods(Change::Applied(bound("zero", "n1", &[0])));
    reserve(&mut index, "one", "n1", 2, 2);
    assert!(is_reserved(&index, "one", "n1"));
    assert!(!is_reserved(&index, "one", "n2") && !is_reserved(&index, "two", "n1"));
    assert!(fits(&index, "n1", 4) && !fits(&index, "n1", 5));
    assert!(index.join_reservation("one", "n2").is_none());
    assert_eq!(index.join_reservation("one", "n1").unwrap().cores, CoreSet::run(2, 2));
    let id = index.reservations_of("one").unwrap()["n1"].id;
    index.release("one", "n1", id);
    assert!(!fits(&index, "n1", 5), "another bind uses it");
    index.release("one", "n1", id);
    assert!(fits(&index, "n1", 5) && !fits(&index, "n1", ALL));
    assert!(index.reservations_of("one").is_none());
}

#[test]
fn a_reservation_ends_when_the_watch_shows_its_pod() {
    let mut index = index_of(&[("n1", "inf2.24xlarge"), ("n2", "inf2.24xlarge")]);
    // Bound with what it had reserved: it holds once.
    reserve(&mut index, "one", "n1", 0, 2);
    index.change_pods(Change::Applied(bound("one", "n1", &[0])));
    assert!(!is_reserved(&index, "one", "n1") && !fits(&index, "n1", ALL));
    index.change_pods(Change::Gone("one".to_owned()));
    assert!(fits(&index, "n1", ALL));
    // Bound elsewhere.
    reserve(&mut index, "two", "n1", 0, 2);
    index.change_pods(Change::Applied(bound("two", "n2", &[3])));
    assert!(fits(&index, "n1", ALL) && !fits(&index, "n2", ALL));
    // Gone without having been bound.
    reserve(&mut index, "three", "n1", 0, 2);
    index.change_pods(Change::Applied(pod("three", 1)));
    assert!(!fits(&index, "n1", ALL), "a pod that is still pending keeps it");
    index.change_pods(Change::Gone("three".to_owned()));
    assert!(fits(&index, "n1", ALL));
    // Ended at once.
    reserve(&mut index, "four", "n1", 0, 2);
    index.change_pods(Change::Applied(ended(bound("four", "n1", &[0]))));
    assert!(fits(&index, "n1", ALL));
}

#[test]
fn a_list_ends_reservations_of_pods_it_does_not_have_unless_they_are_newer() {
    let mut index = index_of(&[("n1", "inf2.24xlarge")]);
    index.change_pods(Change::ListBegins);
    reserve(&mut index, "old", "n1", 0, 2);
    reserve(&mut index, "listed", "n1", 2, 2);
    index.change_pods(Change::ListBegins);
    reserve(&mut index, "new", "n1", 4, 2);
    index.change_pods(Change::Listed(vec![pod("listed", 1)]));
    let reserved = ["old", "listed", "new"].map(|uid| is_reserved(&index, uid, "n1"));
    assert_eq!(reserved, [false, true, true]);
    assert!(fits(&index, "n1", 3) && !fits(&index, "n1", 5));
    // The pod may have come and gone before the list was read, which only another list tells.
    assert!(index.has_unlisted_reservations());
    index.change_pods(Change::ListBegins);
    index.change_pods(Change::Listed(Vec::new()));
    assert!(!index.has_unlisted_reservations());
    // Of one that the watch shows waiting no list tells more.
    index.change_pods(Change::ListBegins);
    reserve(&mut index, "waits", "n1", 0, 2);
    index.change_pods(Change::Listed(Vec::new()));
    assert!(index.has_unlisted_reservations());
    index.change_pods(Change::Applied(pod("waits", 1)));
    assert!(!index.has_unlisted_reservations() && is_reserved(&index, "waits", "n1"));
    index.change_pods(Change::Gone("waits".to_owned()));
    assert!(fits(&index, "n1", ALL));
}
