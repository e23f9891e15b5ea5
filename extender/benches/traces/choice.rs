//! Ways to choose among the nodes that take a pod. Used by the bench `traces`.

use fastrand::Rng;
use neuron_core::occupancy::Occupancy;
use neuron_core::placement::Ranks;
use neuron_core::request::PodRequest;

/// A way to choose.
#[derive(Clone, Copy)]
pub(crate) struct Choice {
    /// What it is called.
    pub(crate) name: &'static str,
    /// The place of the chosen one among the nodes that take the pod, of which there is at least one.
    pub(crate) choose: fn(&PodRequest, &[&Occupancy], &mut Rng) -> usize,
}

/// The first is what the others are compared with: any node, and the fullest or the emptiest, as kube-scheduler's MostAllocated and LeastAllocated do.
pub(crate) const CHOICES: [Choice; 4] = [
    Choice { name: "prioritize", choose: prioritize },
    Choice { name: "random", choose: |_, nodes, random| random.usize(..nodes.len()) },
    Choice { name: "packed", choose: |_, nodes, _| first_by(nodes, |node| -share_held(node)) },
    Choice { name: "spread", choose: |_, nodes, _| first_by(nodes, share_held) },
];

/// The node of the best rank, the first of several: what the extender scores highest.
fn prioritize(request: &PodRequest, nodes: &[&Occupancy], _: &mut Rng) -> usize {
    let mut ranks = Ranks::new(request);
    let numbers: Vec<_> = nodes.iter().map(|node| ranks.number(node)).collect();
    let places = ranks.places();
    let place = |at: &usize| numbers[*at].map_or(usize::MAX, |number| places.of(number));
    (0..nodes.len()).min_by_key(place).unwrap_or_default()
}

fn first_by(nodes: &[&Occupancy], key: impl Fn(&Occupancy) -> f64) -> usize {
    let keys: Vec<f64> = nodes.iter().map(|node| key(node)).collect();
    (0..nodes.len()).min_by(|one, other| keys[*one].total_cmp(&keys[*other])).unwrap_or_default()
}

/// What part of its cores is held.
fn share_held(node: &Occupancy) -> f64 {
    f64::from(node.held().len()) / f64::from(node.topology().cores())
}
