//! What the ledger prefers: which waiting pod's record is offered, and what is chosen where none can be.

use std::sync::Arc;

use neuron_core::catalog::Catalog;
use neuron_core::ids::CoreSet;
use neuron_core::names::Resource::{Core, Device};
use neuron_core::names::{NEURON, NEURONCORE};
use neuron_core::occupancy::Occupancy;
use neuron_core::request::Role;
use neuron_core::topology::{Policy, Topology};
use neuron_device_plugin::ledger::holders::Trust;
use neuron_device_plugin::ledger::preference::Question;
use neuron_device_plugin::ledger::slot::Slot;
use rstest::rstest;

use crate::ledger_node::{Node, entry, init, set, slot, started};

#[rstest]
#[case::earliest_first("0,1,2,3", "", Some("0,1"))]
#[case::taken_already("2,3,4,5", "", Some("2,3"))]
#[case::handed_down("0,1,2,3", "2", Some("2,3"))]
#[case::no_record_fits("0,2,4", "", None)]
fn the_recorded_set_is_offered(#[case] available: &str, #[case] must: &str, #[case] offered: Option<&str>) {
    let node = Node::new(vec![
        slot("p", Device, 2, "0,1"),
        slot("q", Device, 2, "2,3"),
        slot("other", Core, 2, "4,5"),
    ]);
    assert_eq!(node.offered(2, available, must), offered.map(set));
}

#[test]
fn the_next_container_of_a_pod_amid_its_admission_comes_before_other_pods() {
    // A pod that asks under both names has no time of its own, and so stands before the one that kubelet admits.
    let first = Slot { container: "first".to_owned(), role: Role::Sidecar, ..slot("p", Device, 1, "0") };
    let mut node = Node::new(vec![
        slot("q", Device, 1, "1"),
        first,
        init("p", Device, 1, "4"),
        slot("p", Device, 2, "4,5"),
    ]);
    node.written(&[entry("p", "first", Device, "0")]);
    assert_eq!(node.offered(1, "1,4,5", ""), Some(set("4")));
    node.written(&[entry("p", "first", Device, "0"), entry("p", "init", Device, "4")]);
    assert_eq!(node.offered(1, "1,5", ""), Some(set("1")), "nothing of p asks for one any more");
}

#[test]
fn without_a_record_an_init_container_gets_what_its_main_container_can_keep() {
    let model = Catalog::embedded().find("inf2.48xlarge").unwrap();
    let topology = Arc::new(Topology::of(model, 1, Policy::Documented).unwrap());
    // Devices 0 to 3 are held, and 8: of 4 to 7 and 9 to 11 the latter hit fewer linked sets.
    let mut occupancy = Occupancy::empty(topology);
    occupancy.hold(set("0,1,2,3,4,5,6,7,16,17"));
    let mut node = Node::new(vec![init("p", Device, 2, ""), slot("p", Device, 4, "")]);
    let best = |node: &Node, count, available: &str, must: &str| {
        let (available, must) = (set(available), set(must));
        let question =
            Question { name: NEURON, resource: Device, count, available, must, trust: Trust::Nobody };
        node.ledger.amid_admission(&node.slots, &question)?.best_set(&question, &occupancy)
    };
    let free = "8,9,10,11,12,13,14,15,18,19,20,21,22,23";
    let given = best(&node, 2, free, "").unwrap();
    assert!(given.is_subset(set("8,9,10,11,12,13,14,15")), "{given}");
    assert_eq!(best(&node, 4, free, ""), None, "the init container comes first");
    node.written(&[entry("p", "init", Device, &given.to_string())]);
    let free = set(free).difference(given).to_string();
    assert_eq!(best(&node, 4, &free, &given.to_string()), Some(set("8,9,10,11,12,13,14,15")));
    node.slots.truncate(1);
    assert_eq!(best(&node, 2, &free, ""), None, "nothing comes after it");
}

#[test]
fn of_swapped_pods_the_set_that_nobody_took_is_offered_to_the_last() {
    let mut node =
        Node::new(vec![slot("p", Device, 1, "0"), slot("q", Device, 1, "1"), slot("r", Device, 1, "2")]);
    // kubelet admits r first.
    assert_eq!(node.offered(1, "0,1,2,3", ""), Some(set("0")));
    node.written(&[entry("r", "main", Device, "0")]);
    assert_eq!(node.offered(1, "1,2,3", ""), Some(set("1")));
    node.written(&[entry("r", "main", Device, "0"), entry("p", "main", Device, "1")]);
    // Whoever comes last: the records together say what is taken, and 3 may be placed on meanwhile.
    assert_eq!(node.offered(1, "2,3", ""), Some(set("2")));
    assert_eq!(node.offered(1, "3", ""), None);
}

#[test]
fn a_record_is_not_offered_while_another_pod_holds_any_of_it() {
    let mut node = Node::new(vec![slot("p", Device, 2, "0,1"), slot("cores", Core, 1, "")]);
    node.written(&[entry("cores", "main", Core, "1")]);
    assert_eq!(node.offered(2, "0,1,2,3", ""), None);
    node.ends("cores");
    assert_eq!(node.offered(2, "0,1,2,3", ""), Some(set("0,1")));
}

#[test]
fn who_trusts_kubelet_is_offered_what_it_takes_for_free_under_its_own_name() {
    let mut node = Node::new(vec![slot("p", Device, 2, "0,1"), started(slot("ending", Device, 1, "1"))]);
    node.written(&[entry("ending", "main", Device, "1")]);
    let offer = |node: &Node, trust| {
        let (available, must) = (set("0,1,2"), CoreSet::EMPTY);
        let question = Question { name: NEURON, resource: Device, count: 2, available, must, trust };
        node.offer(&question, CoreSet::EMPTY)
    };
    assert_eq!((offer(&node, Trust::Nobody), offer(&node, Trust::Kubelet)), (None, Some(set("0,1"))));
    node.written(&[entry("ending", "main", Core, "1")]);
    assert_eq!(offer(&node, Trust::Kubelet), None, "of the other name kubelet says nothing");
}

#[test]
fn a_record_that_cannot_be_offered_stands_not_in_its_own_pods_way() {
    let node =
        Node::new(vec![slot("p", Device, 2, "1,2"), slot("q", Device, 3, "5,6,7"), slot("r", Core, 1, "9")]);
    // kubelet has given 2 to somebody who has not ended as far as it knows.
    let (available, must) = (set("0,1,3,4,5,6,7"), CoreSet::EMPTY);
    let question =
        Question { name: NEURON, resource: Device, count: 2, available, must, trust: Trust::Nobody };
    assert_eq!(node.offer(&question, CoreSet::EMPTY), None);
    assert_eq!(node.taken(&question), set("5,6,7,9"));
}

#[test]
fn what_another_pods_record_promises_is_the_asking_pods_once_it_is_handed_down() {
    // The init container of `p` was given what the record of `q` says, which asks for as much.
    let mut node =
        Node::new(vec![init("p", Device, 1, "0"), slot("p", Device, 2, "0,1"), slot("q", Device, 1, "2")]);
    node.written(&[entry("p", "init", Device, "2")]);
    let (available, must) = (set("0,1,2,3"), set("2"));
    let question =
        Question { name: NEURON, resource: Device, count: 2, available, must, trust: Trust::Nobody };
    assert_eq!(node.taken(&question), CoreSet::EMPTY);
}

#[test]
fn what_a_container_got_under_its_other_name_counts_though_it_is_not_written_down() {
    let mut node = Node::new(vec![
        init("p", Device, 2, ""),
        init("p", Core, 2, ""),
        slot("p", Device, 2, ""),
        slot("p", Core, 2, ""),
    ]);
    assert_eq!(node.asked(Device, "0,1"), "given");
    let none = CoreSet::EMPTY;
    let question = Question {
        name: NEURONCORE,
        resource: Core,
        count: 2,
        available: set("2,3,4,5"),
        must: none,
        trust: Trust::Nobody,
    };
    let pod = node.ledger.amid_admission(&node.slots, &question).unwrap();
    assert_eq!((pod.container, pod.given), (0, vec![(0, Device, set("0,1"))]));
}

#[test]
fn of_pods_that_differ_in_what_else_they_ask_for_kubelet_tells_which_one_asks() {
    // Both ask for one first; what `q` is given has to be among its four.
    let mut node = Node::new(vec![
        slot("p", Device, 1, "0"),
        init("q", Device, 1, "4"),
        slot("q", Device, 4, "4,5,6,7"),
    ]);
    let (available, must) = (set("0,1,2,3,4,5,6,7"), CoreSet::EMPTY);
    let question =
        Question { name: NEURON, resource: Device, count: 1, available, must, trust: Trust::Nobody };
    assert!(node.ledger.is_unsure(&node.slots, &question));
    assert_eq!(node.offered(1, "0,1,2,3,4,5,6,7", ""), Some(set("0")));
    // kubelet has `q` alone: what `p` is promised stays its own.
    node.slots[0].may_be_asked_for = false;
    assert!(!node.ledger.is_unsure(&node.slots, &question));
    assert_eq!(node.offered(1, "0,1,2,3,4,5,6,7", ""), Some(set("4")));
    assert_eq!(node.taken(&question), set("0"));
    let alike = Node::new(vec![slot("p", Device, 1, "0"), slot("q", Device, 1, "4")]);
    assert!(!alike.ledger.is_unsure(&alike.slots, &question), "any of them will do");
}

#[test]
fn a_record_that_names_an_unhealthy_device_is_offered_to_no_container_of_its_pod() {
    // Device 8 broke after the pod was bound: what is chosen for `first` has to leave a set to `main`.
    let first = Slot { container: "first".to_owned(), ..slot("p", Device, 1, "2") };
    let node = Node::new(vec![first, slot("p", Device, 4, "7,8,9,10")]);
    let (available, must) = (set("0,1,2,3,4,5,6,7,9,10"), CoreSet::EMPTY);
    let question =
        Question { name: NEURON, resource: Device, count: 1, available, must, trust: Trust::Nobody };
    assert_eq!(node.offer(&question, CoreSet::EMPTY), Some(set("2")));
    assert_eq!(node.offer(&question, set("8")), None);
}
