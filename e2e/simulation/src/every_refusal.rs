//! Every text by which the extender refuses a node is judged: each is told of a pod for which it is not so.

use std::collections::BTreeSet;
use std::iter::successors;

use neuron_core::ids::DeviceSet;
use neuron_core::names::{NEURON, Resource};
use neuron_core::placement::Refusal;
use serde_json::json;
use simulated_cluster::observer::Truth;
use simulated_cluster::plan::NodePlan;
use simulated_cluster::suite::{NodeTruth, Units, WaitingPod};

use crate::machine::Machine;
use crate::reasons;
use crate::texts::{self, Facts};

const MACHINE: &str = "trn1.32xlarge";

/// Where the types stand by whose texts the extender refuses a node, but for [`Refusal`]. It keeps the first to itself.
static SOURCES: [&str; 6] = [
    include_str!("../../../extender/src/index/refusal.rs"),
    include_str!("../../../core/src/nodes/topology/of_node.rs"),
    include_str!("../../../core/src/nodes/topology/mod.rs"),
    include_str!("../../../core/src/nodes/report.rs"),
    include_str!("../../../core/src/pods/device_model.rs"),
    include_str!("../../../core/src/pods/request.rs"),
];

/// What is wrong with the reason, told of a pod of one device on an empty machine, on which it fits.
fn wrong(reason: &str) -> Option<String> {
    let node = NodePlan { machine: MACHINE.to_owned() };
    let facts = [Facts { machine: Machine::of(&node).unwrap(), held: Units::new(), broken: Units::new() }];
    let nodes = [NodeTruth { name: "n1", node: &node, held: Units::new(), broken: Units::new() }];
    let main = json!({"name": "main", "resources": {"limits": {NEURON: "1"}}});
    let pod = json!({"metadata": {}, "spec": {"containers": [main]}});
    let message = format!("0/1 nodes are available: 1 {reason}. preemption: 0/1 nodes are available");
    let waiting = WaitingPod { truth: &Truth::default(), nodes: &nodes, pod: &pod, message: &message };
    texts::judge(&facts, &pod, &message).or_else(|| reasons::judge(&facts, &waiting))
}

fn assert_judged(reason: &str) {
    let wrong = wrong(reason);
    let is_judged = wrong.as_ref().is_some_and(|wrong| !wrong.contains("not understood"));
    assert!(is_judged, "{reason:?} is not judged: {wrong:?}");
}

/// The refusal after this one. Whoever adds one gives it a place here, and a judge.
fn next(last: &Refusal, resource: Resource, permanent: bool) -> Option<Refusal> {
    let (instance_type, container) = (MACHINE.to_owned(), "main".to_owned());
    Some(match last {
        Refusal::UnsupportedCount { .. } => Refusal::TooManyContainers { containers: 130 },
        Refusal::TooManyContainers { .. } => {
            Refusal::NotEnough { resource, requested: 1, free: 0, total: 16, beside: 0, permanent }
        }
        Refusal::NotEnough { .. } => {
            Refusal::NotLinked { container: Some(container), resource, requested: 1, free: 16, largest: 0 }
        }
        Refusal::NotLinked { .. } => {
            Refusal::NeverTogether { instance_type, container, resource, requested: 1 }
        }
        Refusal::NeverTogether { .. } => Refusal::Unhealthy { devices: DeviceSet::single(3) },
        Refusal::Unhealthy { .. } => Refusal::NotDecided { containers: 1 },
        Refusal::NotDecided { .. } => {
            Refusal::HandDownNotSafe { container, resource, requested: 1, handed_down: 4, permanent }
        }
        Refusal::HandDownNotSafe { .. } => return None,
    })
}

#[test]
fn every_refusal_of_a_placement_is_judged() {
    for (resource, permanent) in Resource::ALL.into_iter().flat_map(|one| [(one, false), (one, true)]) {
        let first = Refusal::UnsupportedCount { instance_type: MACHINE.to_owned(), resource, requested: 1 };
        let all: Vec<Refusal> = successors(Some(first), |last| next(last, resource, permanent)).collect();
        assert_eq!(all.len(), 8);
        all.iter().for_each(|refusal| assert_judged(&refusal.to_string()));
    }
}

#[test]
fn every_other_refusal_of_a_node_is_judged() {
    let all = SOURCES.iter().flat_map(|source| error_texts(source));
    // What these pass on is of another source.
    let (passed_on, own): (Vec<String>, Vec<String>) = all.partition(|text| text == "{0}");
    assert_eq!((passed_on.len(), own.len() > 15), (3, true), "{own:#?}");
    own.iter().for_each(|text| assert_judged(&filled_in(text)));
    let transparent: BTreeSet<&str> = SOURCES.iter().flat_map(|source| transparent(source)).collect();
    let known = ["DeviceModelError", "NodeTopologyError", "Refusal", "RequestError", "TopologyError"];
    assert_eq!(transparent, BTreeSet::from(known), "a source is missing here");
}

/// The texts of a source's `#[error("..")]`, as they are written there.
fn error_texts(source: &str) -> impl Iterator<Item = String> {
    source.split("#[error(").skip(1).filter_map(|rest| {
        let mut text = String::new();
        let mut characters = rest.trim_start().strip_prefix('"')?.chars().peekable();
        loop {
            match characters.next()? {
                '"' => return Some(text),
                '\\' => match characters.next()? {
                    '\n' => while characters.next_if(|next| next.is_whitespace()).is_some() {},
                    escaped => text.push(escaped),
                },
                character => text.push(character),
            }
        }
    })
}

/// The types after a source's `#[error(transparent)]`.
fn transparent(source: &str) -> impl Iterator<Item = &str> {
    source.split("#[error(transparent)]").skip(1).filter_map(|rest| {
        let (_, of) = rest.split_once("(#[from] ")?;
        Some(of.split_once(')')?.0)
    })
}

/// The text with something in place of each `{..}`.
fn filled_in(text: &str) -> String {
    let mut parts = text.split('{');
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').unwrap();
        filled += match name {
            "resource" | "NEURON" => NEURON,
            "DEVICE_MODEL" => neuron_core::names::DEVICE_MODEL,
            "word:?" => "\"x\"",
            _ => "x",
        };
        filled += rest;
    }
    filled
}
