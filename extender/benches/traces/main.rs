//! How full a cluster gets before the first pod is refused, where prioritize chooses the node, by itself or beside kube-scheduler's own
//! plugins, and where the choice is random, packed or spread (docs/performance.md):
//!
//! ```sh
//! cargo bench -p neuron-extender --bench traces
//! ```
//!
//! Nothing is timed: the figures are the same on every machine.
#![expect(clippy::expect_used, reason = "a measurement that cannot be made has nothing else to say")]
#![expect(clippy::disallowed_methods, reason = "the figures' file is written on this machine")]

mod choice;
#[allow(dead_code, reason = "other benches use more of it")]
#[path = "../support/figures.rs"]
mod figures;
mod trace;

use std::process::ExitCode;

use self::choice::{CHOICES, Choice};
use self::figures::{Figures, mean, standard_error};
use self::trace::{Nodes, Trace, allocated_at_first_refusal};

/// Traces, each with its own seed.
const TRACES: u64 = 200;

/// A cluster, and the most devices that a pod asks for.
const CLUSTERS: [(&str, Nodes, u32); 3] = [
    ("20 trn1.32xlarge", &[("trn1.32xlarge", 20)], 16),
    ("20 inf2.48xlarge", &[("inf2.48xlarge", 20)], 8),
    ("10 trn1, 5 inf2, 5 trn2", &[("trn1.32xlarge", 10), ("inf2.48xlarge", 5), ("trn2.48xlarge", 5)], 16),
];

fn main() -> ExitCode {
    let mut figures = Figures::default();
    for (cluster, nodes, largest) in CLUSTERS {
        let shares = CHOICES.map(|choice| shares(nodes, choice, largest));
        for (choice, shares) in CHOICES.iter().zip(&shares) {
            let mut add = |what: &str, share: f64| {
                figures.add(format!("{what}, {}, {cluster}", choice.name), (100.0 * share, "%"), None);
            };
            add("allocated before the first refusal", mean(shares));
            add("its standard error", standard_error(shares));
        }
        for (choice, others) in CHOICES.iter().zip(&shares).skip(1) {
            let ratio = mean(&shares[0]) / mean(others);
            let demanded = (choice.name == "random").then_some(1.0..=f64::INFINITY);
            figures.add(format!("prioritize / {}, {cluster}", choice.name), (ratio, ""), demanded);
        }
    }
    figures.finish()
}

/// The allocated share at the first refusal of each trace.
fn shares(nodes: Nodes, choice: Choice, largest: u32) -> Vec<f64> {
    let share = |seed| allocated_at_first_refusal(nodes, Trace::new(seed, largest), choice);
    (0..TRACES).map(share).collect()
}
