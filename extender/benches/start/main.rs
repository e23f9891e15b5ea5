//! What binding and starting cost beside what the API server takes for the same by itself (docs/performance.md):
//!
//! ```sh
//! cargo bench -p neuron-extender --bench start
//! NEURON_BENCH_CHECK=1 NEURON_BENCH_JSON=/tmp/start.json cargo bench -p neuron-extender --bench start
//! NEURON_BENCH_KUBECONFIG=/path/of/a/kubeconfig cargo bench -p neuron-extender --bench start -- cluster
//! ```
//!
//! `binds`, `ready` or `cluster` behind `--` measures that alone: binds at API servers in memory, starting, binds at a real API server. The
//! kubeconfig file is of a cluster to throw away: a node and pods are made in it, and stay where the bench fails.
//!
//! The API server in memory is in this process and is reached over loopback. Each way runs in a process of its own on one thread, as the extender
//! does: the extender alone, one that only passes Bindings on, who lists without it, and who binds. Absolute figures are the machine's; what
//! counts is the ratios, taken round by round, and the memory.
#![expect(clippy::expect_used, reason = "a measurement that cannot be made has nothing else to say")]
#![expect(clippy::disallowed_methods, reason = "what is measured is this machine's time")]

mod api_server;
mod binds;
#[path = "../support/figures.rs"]
mod figures;
mod objects;
mod pages;
mod passing;
mod process;
mod ready;
mod scheduler;
mod ways;
#[path = "../support/whole_node.rs"]
mod whole_node;

use std::process::ExitCode;

use tokio::runtime::Builder;

use self::figures::Figures;

/// The parts.
const BINDS: &str = "binds";
const READY: &str = "ready";
const CLUSTER: &str = "cluster";
const PARTS: [&str; 3] = [BINDS, READY, CLUSTER];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [ways::EXTENDER, api] => ways::extender(api),
        [ways::LIST, api] => ways::list(api),
        [ways::PASSING, api] => passing::run(api),
        [ways::SCHEDULER, apart, api, passing, extender] => scheduler::run(apart, api, passing, extender),
        parts => measure(parts),
    }
}

/// Measures the parts that are named; all if none is, without a cluster if no kubeconfig file is named. cargo gives options of its own.
fn measure(parts: &[&str]) -> ExitCode {
    let named = || parts.iter().copied().filter(|part| !part.starts_with('-'));
    if let Some(unknown) = named().find(|named| !PARTS.contains(named)) {
        eprintln!("there is no part {unknown}; name one of {}", PARTS.join(", "));
        return ExitCode::from(2);
    }
    let is_wanted = |part: &str| named().next().is_none() || named().any(|named| named == part);
    let kubeconfig = binds::kubeconfig();
    if kubeconfig.is_none() && is_wanted(CLUSTER) {
        eprintln!("no binds at a real API server: {} names no kubeconfig file", binds::KUBECONFIG);
        if named().any(|named| named == CLUSTER) {
            return ExitCode::from(2);
        }
    }
    // The API server's thread. This one waits for the other processes.
    let thread = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let mut figures = Figures::default();
    if is_wanted(BINDS) {
        binds::add_to(&mut figures, &thread);
    }
    if let Some(kubeconfig) = kubeconfig.filter(|_| is_wanted(CLUSTER)) {
        binds::add_of_cluster(&mut figures, &thread, &kubeconfig);
    }
    if is_wanted(READY) {
        ready::add_to(&mut figures, &thread);
    }
    figures.finish()
}
