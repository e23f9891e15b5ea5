//! Ways to choose among the nodes that take a pod. Used by the bench `traces`.

use fastrand::Rng;
use neuron_core::occupancy::Occupancy;
use neuron_core::request::PodRequest;
use neuron_extender::measured::scores;

/// A way to choose.
#[derive(Clone, Copy)]
pub(crate) struct Choice {
    /// What it is called.
    pub(crate) name: &'static str,
    /// The place of the chosen one among the nodes that take the pod, of which there is at least one.
    pub(crate) choose: fn(&PodRequest, &[&Occupancy], &mut Rng) -> usize,
}

/// Weight of the extender's scores in `deploy/`, and what kube-scheduler multiplies scores of extenders with: they go to 10, a plugin's to 100.
const WEIGHT: f64 = 12.0 * 10.0;

/// Weight of kube-scheduler's NodeResourcesFit and PodTopologySpread together, which like empty nodes.
const SPREADING: f64 = 1.0 + 2.0;

/// The first is what the others are compared with: itself beside plugins that like empty nodes, any node, and the fullest or the emptiest, as
/// kube-scheduler's MostAllocated and LeastAllocated do.
pub(crate) const CHOICES: [Choice; 5] = [
    Choice { name: "prioritize", choose: |request, nodes, _| best(nodes, &scores(request, nodes), 0.0) },
    Choice {
        name: "beside others",
        choose: |request, nodes, _| best(nodes, &scores(request, nodes), SPREADING),
    },
    Choice { name: "random", choose: |_, nodes, random| random.usize(..nodes.len()) },
    Choice { name: "packed", choose: |_, nodes, _| first_by(nodes, |node| -share_held(node)) },
    Choice { name: "spread", choose: |_, nodes, _| first_by(nodes, share_held) },
];

/// The first of the nodes with the highest sum of the extender's score and of that of plugins of this weight, which score by what is free: as
/// though pods asked for processors and memory as they do for cores.
fn best(nodes: &[&Occupancy], scores: &[u8], others: f64) -> usize {
    let sum = |at: usize| WEIGHT * f64::from(scores[at]) + others * 100.0 * (1.0 - share_held(nodes[at]));
    let sums: Vec<f64> = (0..nodes.len()).map(sum).collect();
    (0..nodes.len()).min_by(|one, other| sums[*other].total_cmp(&sums[*one])).unwrap_or_default()
}

fn first_by(nodes: &[&Occupancy], key: impl Fn(&Occupancy) -> f64) -> usize {
    let keys: Vec<f64> = nodes.iter().map(|node| key(node)).collect();
    (0..nodes.len()).min_by(|one, other| keys[*one].total_cmp(&keys[*other])).unwrap_or_default()
}

/// What part of its cores is held.
fn share_held(node: &Occupancy) -> f64 {
    f64::from(node.held().len()) / f64::from(node.topology().cores())
}
