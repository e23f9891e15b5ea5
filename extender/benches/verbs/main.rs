//! What filter and prioritize cost beside what serde_json alone takes for the same bodies, and how long an ordinary pod waits behind a
//! hostile one (docs/performance.md):
//!
//! ```sh
//! cargo bench -p neuron-extender --bench verbs
//! NEURON_BENCH_CHECK=1 NEURON_BENCH_JSON=/tmp/verbs.json cargo bench -p neuron-extender --bench verbs
//! ```
//!
//! Absolute figures are the machine's; what counts is the ratios. What is compared is called in turns, so that the machine's pace, which
//! changes from second to second, is the same for both.
#![expect(clippy::expect_used, reason = "a measurement that cannot be made has nothing else to say")]
#![expect(clippy::disallowed_methods, reason = "what is measured is this machine's time")]

mod bodies;
mod cases;
mod clusters;
#[allow(dead_code, reason = "other benches use more of it")]
#[path = "../support/figures.rs"]
mod figures;
mod first;
mod latency;
#[path = "../support/whole_node.rs"]
mod whole_node;

use std::process::ExitCode;

use criterion::Criterion;
use neuron_extender::measured::Measured;
use tokio::runtime::Builder;

use self::bodies::{Form, HOSTILE, HOSTILE_EACH, PODS, body};
use self::cases::Case;
use self::clusters::{ALL_DIFFERENT, CLUSTERS};
use self::figures::Figures;

fn main() -> ExitCode {
    // As the program does: the span of a call is part of what it costs.
    runtime::log(runtime::LogFormat::Text);
    let thread = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let _inside = thread.enter();
    let mut criterion = Criterion::default().without_plots().configure_from_args();

    let (mut cases, mut figures) = (Vec::new(), Figures::default());
    for cluster in CLUSTERS {
        let nodes = cluster.nodes();
        let measured = Measured::of(&nodes);
        for form in [Form::Names, Form::Nodes] {
            let mut group = criterion.benchmark_group(format!("{}, {}", form.name(), cluster.name));
            for pod in PODS {
                let (name, body) = (pod.name, body(form, pod, &nodes));
                cases.push(Case::measured(&mut group, &measured, (form, cluster.name, name), &body));
            }
            group.finish();
        }
    }
    criterion.final_summary();
    cases::print(&cases);
    cases.iter().for_each(|case| case.add_to(&mut figures));
    // Criterion runs everything once where it is not asked to measure, and nothing where it is asked for a list.
    if std::env::args().any(|argument| argument == "--bench") {
        for cluster in CLUSTERS {
            first::add_to(&mut figures, cluster);
            latency::add_to(&mut figures, &thread, (cluster, HOSTILE), 1.0);
        }
        // Forty turns, of twenty questions that take two each.
        latency::add_to(&mut figures, &thread, (ALL_DIFFERENT, HOSTILE_EACH), 20.0);
    }
    figures.finish()
}
