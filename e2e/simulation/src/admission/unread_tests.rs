//! Refusals of a plugin that cannot read kubelet's checkpoint: which are right, and which are not.

use std::collections::BTreeMap;

use neuron_core::names::NEURONCORE;
use serde_json::json;
use simulated_cluster::observer::{CHECKPOINT_READS, Truth};
use simulated_cluster::plan::NodePlan;

use super::*;
use crate::test_truth::{container, key, pod};

const NOW: Duration = Duration::from_secs(10_000);

/// What there is against a refusal of device 10 of an inf2.48xlarge, whose cores a container had until a minute ago; nobody could read the
/// checkpoint of a node until so many seconds ago.
fn judged(why: &str, (node, ago): (&str, u64), had: &[u32]) -> Option<String> {
    let plan = NodePlan { machine: "inf2.48xlarge".to_owned() };
    let machine = Machine::of(&plan).unwrap();
    let before = container("before", "b", &BTreeMap::new(), had.iter().copied().collect());
    let read_at = NOW - Duration::from_secs(ago);
    let truth = Truth {
        ended: [(key("b", "main"), (before, NOW - Duration::from_secs(60)))].into(),
        disturbed: [(format!("{CHECKPOINT_READS}/{node}"), read_at)].into(),
        now: NOW,
        ..Truth::default()
    };
    let limits = json!({NEURON: "1"});
    let object = json!({"spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]}});
    let pod = pod("p", "u", "Failed", object);
    let message = format!("neuron10 of {NEURON} cannot be given: {why} holds neuron10; ..");
    let (held, books) = (Units::new(), BTreeMap::new());
    let refused = RefusedPod { truth: &truth, node: &plan, pod: &pod, message: &message, held, books };
    judge_refusal(&machine, &refused, &Units::new())
}

#[test]
fn an_answer_may_be_thought_to_be_held_that_nobody_can_see_written_down() {
    let unwritten = "a container that kubelet has not written down yet";
    assert_eq!(judged(unwritten, ("n1", 10), &[20, 21]), None);
    for (why, unread, had) in [
        (unwritten, ("n1", 61), &[20, 21]),
        (unwritten, ("n2", 10), &[20, 21]),
        (unwritten, ("n1", 10), &[2, 3]),
        ("pod default/before", ("n1", 10), &[20, 21]),
    ] {
        assert!(judged(why, unread, had).is_some(), "{why} {unread:?} {had:?}");
    }
}

#[test]
fn a_set_of_what_was_held_lately_need_not_be_advised() {
    let plan = NodePlan { machine: "inf2.48xlarge".to_owned() };
    let machine = Machine::of(&plan).unwrap();
    let judged = |part: &str| {
        let before = container("before", "b", &BTreeMap::new(), Units::from([22, 23]));
        let truth = Truth {
            ended: [(key("b", "main"), (before, NOW - Duration::from_secs(30)))].into(),
            disturbed: [(format!("{part}/n1"), NOW)].into(),
            now: NOW,
            ..Truth::default()
        };
        let limits = json!({NEURONCORE: "2"});
        let object = json!({"spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]}});
        let pod = pod("p", "u", "Failed", object);
        let message = format!(
            "neuroncore1,neuroncore21 of {NEURONCORE} cannot be given: they are not one of the linked sets"
        );
        // Single cores are left, and the two of the container that has ended.
        let held: Units = (0..22).filter(|core| *core != 1 && *core != 21).collect();
        let books = BTreeMap::new();
        let refused = RefusedPod { truth: &truth, node: &plan, pod: &pod, message: &message, held, books };
        judge_refusal(&machine, &refused, &Units::new())
    };
    assert_eq!(judged(CHECKPOINT_READS), None);
    assert!(judged("none").is_some());
}
