//! The ledger by itself: who may have which ids, and when they are free again.

use std::time::Duration;

use neuron_core::names::Resource::{Core, Device};
use neuron_device_plugin::ledger::answer::Asked;
use neuron_device_plugin::ledger::slot::Slot;
use neuron_device_plugin::ledger::{Ledger, Life, Pods};
use tokio::time::Instant;

use crate::ledger_node::{Node, entry, init, name, set, slot, started};

/// A UID that kubelet makes of a static pod's manifest.
const STATIC: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn what_kubelet_has_written_down_is_held_under_both_names_until_its_pod_has_ended() {
    let mut node = Node::new(vec![slot("p", Device, 2, "0,1"), slot("cores", Core, 1, "")]);
    assert_eq!(node.asked(Device, "0,1"), "given");
    node.written(&[entry("p", "main", Device, "0,1")]);
    // What kubelet does when it forgot an open allocation.
    assert_eq!(node.asked(Device, "1"), "pod default/p has 1");
    assert_eq!(node.asked(Core, "1"), "pod default/p has 1");
    // A checkpoint shows an ended pod's ids until the next allocation.
    node.ends("p");
    assert_eq!(node.asked(Core, "1"), "given");
}

#[test]
fn an_answer_that_is_not_written_down_blocks_the_other_name_alone() {
    let mut node = Node::new(vec![slot("p", Device, 2, "0,1"), slot("cores", Core, 1, "")]);
    assert_eq!(node.asked(Device, "0,1"), "given");
    let unwritten = "a container that kubelet has not written down yet has 1";
    assert_eq!(node.asked(Core, "1"), unwritten);
    // Never by time alone, while there is a container that can have got it.
    node.after(3600);
    node.read_live();
    assert_eq!(node.asked(Core, "1"), unwritten);
    assert_eq!(node.asked(Device, "1"), "given", "kubelet's word counts under its own name");
    assert_eq!(node.ledger.answers().len(), 2, "of the first answer one device is left");
}

#[test]
fn an_answer_ends_with_kubelet_which_has_given_it_to_nobody() {
    let mut node = Node::new(vec![slot("p", Device, 1, "0"), slot("cores", Core, 1, "")]);
    assert_eq!(node.asked(Device, "0"), "given");
    node.ledger.kubelet_restarted();
    assert_eq!(node.asked(Core, "0"), "given");
}

#[test]
fn an_answer_ends_when_a_live_list_shows_nobody_who_can_have_got_it() {
    let mut node = Node::new(vec![slot("p", Device, 1, "0"), slot("cores", Core, 1, "")]);
    assert_eq!(node.asked(Device, "0"), "given");
    node.ends("p");
    assert_ne!(node.asked(Core, "0"), "given", "a pod that the watch does not show yet may have got it");
    node.read_live();
    node.after(2);
    assert_eq!(node.asked(Core, "0"), "given");
}

#[test]
fn an_answer_is_not_ended_by_what_an_ended_pod_had() {
    let mut node = Node::new(vec![
        slot("first", Device, 1, "0"),
        slot("second", Device, 1, "0"),
        slot("cores", Core, 1, ""),
    ]);
    let first = entry("first", "main", Device, "0");
    node.written(std::slice::from_ref(&first));
    node.ends("first");
    assert_eq!(node.asked(Device, "0"), "given", "to the second");
    // A list change at the same moment overwrites the file with what was before.
    node.written(&[first]);
    assert_eq!(node.asked(Core, "0"), "a container that kubelet has not written down yet has 0");
    node.written(&[entry("second", "main", Device, "0")]);
    assert_eq!(node.asked(Core, "0"), "pod default/second has 0");
    assert_eq!(node.ledger.answers(), []);
}

#[test]
fn a_pod_takes_over_the_ids_of_its_own_init_container_while_another_container_waits() {
    let mut node = Node::new(vec![
        init("p", Device, 4, "0,1,2,3"),
        slot("p", Device, 2, "0,1"),
        slot("q", Device, 3, "4,5,6"),
        slot("cores", Core, 1, ""),
    ]);
    assert_eq!(node.asked(Device, "0,1,2,3"), "given");
    let init = entry("p", "init", Device, "0,1,2,3");
    node.written(std::slice::from_ref(&init));
    assert_eq!(node.asked(Core, "3"), "pod default/p has 3");
    assert_eq!(node.asked(Device, "0,3"), "given");
    node.written(&[init, entry("p", "main", Device, "0,3")]);
    assert_eq!(node.asked(Device, "1"), "pod default/p has 1", "nothing of p waits any more");
    assert_eq!(node.asked(Core, "1"), "pod default/p has 1");
}

#[test]
fn a_lost_checkpoint_leaves_what_it_said_last_of_what_has_started() {
    let mut node = Node::new(vec![
        started(slot("runs", Device, 1, "0")),
        slot("waits", Device, 1, "1"),
        started(slot("unrecorded", Device, 1, "")),
    ]);
    node.written(&[entry("runs", "main", Device, "0"), entry("unrecorded", "main", Device, "2")]);
    node.written(&[]);
    assert_eq!(node.asked(Device, "0"), "pod default/runs has 0");
    assert_eq!(node.asked(Core, "0"), "pod default/runs has 0");
    assert_eq!(node.asked(Core, "1"), "given", "a record of what has not started only steers");
    let said: Vec<_> = node.slots.iter().map(|slot| node.ledger.cores_of(slot)).collect();
    assert_eq!(said, [Some(set("0")), None, Some(set("2"))], "the report goes on to say what has started");
}

/// Seed 760038: an older state overwrites kubelet's write, and the pod's author edits its record.
#[test]
fn what_an_older_checkpoint_no_longer_names_is_held_whatever_the_record_says_by_then() {
    let mut node = Node::new(vec![started(slot("holds", Device, 2, "0,1")), slot("asks", Core, 2, "0,1")]);
    node.written(&[entry("holds", "main", Device, "0,1")]);
    node.written(&[]);
    node.slots[0].recorded = Some(set("2,3"));
    node.after(1);
    assert_eq!(node.asked(Core, "0"), "pod default/holds has 0");
    assert_eq!(
        node.asked(Core, "2,3"),
        "given",
        "nobody holds what only a record says that its author has edited"
    );
    assert_eq!(node.ledger.cores_of(&node.slots[0]), Some(set("0,1")));
    node.ends("holds");
    assert_eq!(node.asked(Core, "0"), "given");
}

#[test]
fn a_uid_that_no_list_has_shown_lives_until_one_must_have() {
    let mut node = Node::new(vec![slot("cores", Core, 1, "")]);
    node.written(&[entry("unseen", "main", Device, "0"), entry(STATIC, "main", Device, "1")]);
    let who = |uid: &str| format!("the pod with UID {uid}, which the API server does not show,");
    assert_eq!(node.asked(Core, "0,1"), format!("{} has 0, {} has 1", who("unseen"), who(STATIC)));
    node.read_live();
    assert_eq!(node.asked(Core, "0"), "given", "kubelet hears of pods from the API server");
    assert_eq!(node.asked(Core, "1"), format!("{} has 1", who(STATIC)), "a static pod has no mirror yet");
    node.after(61);
    assert_ne!(node.asked(Core, "1"), "given", "by time alone nothing ends");
    node.read_live();
    assert_eq!(node.asked(Core, "1"), "given");
}

#[test]
fn containers_of_a_pod_that_kubelet_admits_though_it_is_gone_share_nothing() {
    let mut node = Node::new(vec![]);
    node.written(&[]);
    node.ends("late");
    assert_eq!(node.asked(Core, "0"), "given");
    node.read_live();
    assert_ne!(node.asked(Device, "0"), "given", "kubelet has not written it down yet");
    node.written(&[entry("late", "c0", Core, "0")]);
    assert_ne!(node.asked(Device, "0"), "given", "kubelet has not heard of the end yet");
    node.after(2);
    assert_eq!(node.asked(Device, "0"), "given", "nobody is kept waiting for it until a question is refused");
}

#[test]
fn before_the_pods_were_read_every_uid_lives_under_the_other_name() {
    let mut ledger = Ledger::default();
    let now = Instant::now();
    ledger.checkpoint(vec![entry("p", "main", Device, "0")], now, now);
    ledger.follow(
        &Pods {
            slots: None,
            are_new: true,
            version: 0,
            life: &|_| Life::Unseen,
            read_live: None,
            told: None,
        },
        Instant::now(),
    );
    let holders = |resource| {
        let asked = Asked { name: name(resource), resource, cores: set("0"), count: 1 };
        ledger.holders(&[], &asked).len()
    };
    assert_eq!((holders(Core), holders(Device)), (1, 0));
}

#[test]
fn what_a_pod_had_is_remembered_until_another_one_is_given_it() {
    let mut node = Node::new(vec![started(slot("unwritten", Core, 1, "7"))]);
    let gone = |node: &Node, cores: &str| {
        let life = |uid: &str| if node.gone.contains(&uid) { Life::Gone } else { Life::Lives };
        let gone = node.ledger.gone_holders(set(cores), life).into_iter();
        gone.map(|(uid, had)| format!("{uid} had {had}")).collect::<Vec<_>>()
    };
    node.written(&[entry("a", "main", Core, "0,1"), entry("b", "main", Core, "2")]);
    assert_eq!(gone(&node, "0,1,2,3,4,5,6,7"), [""; 0], "they live");
    node.ends("a");
    node.ends("unwritten");
    // kubelet has dropped it, and restarts without its file.
    node.written(&[]);
    node.ledger.kubelet_restarted();
    assert_eq!(gone(&node, "1,2,7"), ["a had 1", "unwritten had 7"]);
    assert_eq!(gone(&node, "2,3,4,5,6"), [""; 0]);
    node.ledger.handed_over([&"a".to_owned()].into_iter(), set("1"));
    assert_eq!(gone(&node, "0,1,2,3,4,5,6,7"), ["a had 0", "unwritten had 7"]);
    assert_eq!(node.ledger.past_count(), 3);
    node.ledger.handed_over([&"a".to_owned()].into_iter(), set("0"));
    assert_eq!(node.ledger.past_count(), 2);
}

#[test]
fn a_record_does_not_count_of_a_pod_that_the_api_server_still_shows_and_kubelet_has_forgotten() {
    let old = started(slot("old", Device, 2, "0,1"));
    let mut node = Node::new(vec![old, slot("new", Device, 2, "0,1")]);
    assert_eq!(node.asked(Device, "0,1"), "pod default/old has 0,1");
    node.kubelet_has_none();
    // It may have come after kubelet was asked.
    node.slots.push(started(slot("later", Device, 1, "4")));
    node.follow();
    assert_eq!(node.asked(Device, "4"), "pod default/later has 4");
    let gone = node.ledger.gone_holders(set("0,1"), |_| Life::Lives);
    assert_eq!(gone.into_keys().collect::<Vec<_>>(), ["old"], "its processes may have them open");
    assert_eq!(node.asked(Device, "0,1"), "given");
}

#[test]
fn an_init_container_that_has_ended_holds_nothing_that_the_checkpoint_does_not_name() {
    let ended = |slot| Slot { may_run: false, ..started(slot) };
    let main = Slot { container: "main".to_owned(), ..started(slot("p", Device, 2, "0,1")) };
    let mut node = Node::new(vec![ended(init("p", Device, 4, "0,1,2,3")), main]);
    assert_eq!(node.ledger.cores_of(&node.slots[0]), None);
    assert_eq!(node.asked(Device, "0,1,2,3"), "pod default/p has 0,1");
    assert_eq!(node.asked(Device, "2,3"), "given");
    node.written(&[entry("p", "init", Device, "0,1,2,3"), entry("p", "main", Device, "0,1")]);
    assert_eq!(node.asked(Device, "2,3"), "pod default/p has 2,3", "kubelet keeps it for the pod");
}

/// A slot whose container runs, with the id of its run.
fn running(id: &str, slot: Slot) -> Slot {
    Slot { run: Some(id.to_owned()), ..started(slot) }
}

#[test]
fn what_a_container_runs_with_is_held_though_kubelet_gives_its_pod_something_else() {
    let mut node = Node::new(vec![slot("p", Core, 1, "2"), slot("other", Device, 1, "3")]);
    assert_eq!(node.asked(Core, "2"), "given");
    node.written(&[entry("p", "main", Core, "2")]);
    node.slots[0] = running("first", slot("p", Core, 1, "2"));
    node.after(1);
    node.after(1);
    node.written(&[entry("p", "main", Core, "2")]);
    // A kubelet that has restarted on an old list drops the entry, and asks anew for the pod whose container gets its grace.
    assert_eq!(node.asked(Core, "3"), "given");
    node.written(&[entry("p", "main", Core, "3")]);
    assert_eq!(node.asked(Core, "2"), "pod default/p has 2");
    assert_eq!(node.asked(Device, "2"), "pod default/p has 2", "under either name");
    node.slots[0] = running("second", slot("p", Core, 1, "2"));
    node.after(1);
    assert_eq!(node.asked(Core, "2"), "given");
    assert_eq!(node.asked(Device, "3"), "pod default/p has 3");
}

#[test]
fn a_container_that_may_have_started_after_the_checkpoint_was_read_has_what_the_next_one_says() {
    let mut node = Node::new(vec![running("first", slot("p", Core, 1, "2"))]);
    node.written(&[entry("p", "main", Core, "2")]);
    // kubelet gives the pod something else before it starts its container again, and the start is seen first.
    node.slots[0] = running("second", slot("p", Core, 1, "2"));
    node.after(1);
    node.written(&[entry("p", "main", Core, "3")]);
    assert_eq!(node.asked(Core, "2"), "given");
}

#[test]
fn an_answer_that_nobody_got_is_looked_at_though_nothing_changes() {
    let mut node = Node::new(vec![slot("p", Core, 1, "2")]);
    assert_eq!(node.ledger.needs_live_pods_at(node.now), None);
    assert_eq!(node.asked(Core, "2"), "given");
    let at = node.ledger.needs_live_pods_at(node.now).unwrap();
    assert!(!node.ledger.needs_live_pods(node.now) && node.ledger.needs_live_pods(at));
    // What that look leaves open is not looked at without a pause.
    assert!(node.ledger.needs_live_pods_at(at).unwrap() >= at + Duration::from_secs(30));
    node.after(61);
    node.ends("p");
    node.read_live();
    assert_eq!(node.ledger.needs_live_pods_at(node.now), None);
}
