//! What simulated time costs (`docs/performance.md`):
//!
//! ```sh
//! cargo bench --profile simulation -p neuron-e2e-simulation --bench simulated
//! cargo bench --profile simulation -p neuron-e2e-simulation --bench simulated -- -o json
//! cargo bench --profile simulation -p neuron-e2e-simulation --bench simulated -- --days 30 --check
//! ```
//!
//! Absolute figures are the machine's; what counts is how they change, and that memory does not grow with simulated time. With `--check`
//! the exit code is 1 where memory grew, or simulated time was slower than on any machine of today.
#![allow(clippy::disallowed_methods, reason = "a bench measures the machine itself")]
#![expect(clippy::expect_used, reason = "a measurement that cannot be made has nothing else to say")]

use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use neuron_e2e_simulation::{Neuron, known, run_plan};
use serde_json::{Map, Value, json};
use simulated_cluster::profile::Profile;
use simulated_cluster::suite::Suite;
use simulated_cluster::{RunOptions, Seeded, Summary, run};

const MACHINE: &str = "trn1.32xlarge";
const HOUR: Duration = Duration::from_secs(3600);
const DAYS: u32 = 3;
const DAY: u64 = 86_400;

/// What `--check` demands of simulated time over real time: somewhat less than a slow core has, where one of today has 500 and more, and 25
/// on 500 nodes.
const LEAST_ON_20_NODES: f64 = 300.0;
const LEAST_ON_500_NODES: f64 = 25.0;
/// How much more memory there may be after the last day than after the fourth, as a factor.
const MOST_GROWTH: f64 = 1.1;

fn main() -> ExitCode {
    let mut figures = Map::new();
    let mut note = |name: &str, figure: f64| {
        eprintln!("{figure:>10.1}  {name}");
        figures.insert(name.to_owned(), json!((figure * 10.0).round() / 10.0));
    };

    // First: what a larger run has used stays with the process.
    let (sender, receiver) = std::sync::mpsc::channel();
    let mut days_told = 0;
    let progress = move |summary: &Summary| {
        if summary.seconds / DAY > days_told {
            days_told = summary.seconds / DAY;
            // Nobody waits for it once the run is over.
            let _ = sender.send(resident());
        }
    };
    churn(3, days() * 24 * HOUR, Some(Box::new(progress)));
    let memory: Vec<f64> = receiver.into_iter().collect();
    for (day, mebibytes) in (1..).zip(&memory) {
        note(&format!("MiB after day {day}, 3 nodes"), *mebibytes);
    }
    // What programs and allocator keep for good they have by the fourth day. A day alone tells nothing of growth.
    let growth = match memory.as_slice() {
        [_, _, _, fourth, .., last] => last / fourth,
        [first, .., last] => last / first,
        _ => f64::NAN,
    };

    let (hours, nodes) = (6, 20);
    let (idle, _) = idle(nodes, hours * HOUR);
    let node_hour = idle.as_secs_f64() / f64::from(hours) / nodes as f64;
    note("ms per idle node-hour", node_hour * 1000.0);

    let (took, summary) = churn(nodes, 2 * HOUR, None);
    let pods = took.as_secs_f64() - node_hour * 2.0 * nodes as f64;
    note("ms per pod, 20 nodes", pods * 1000.0 / summary.created as f64);
    let times = |time: Duration, took: Duration| time.as_secs_f64() / took.as_secs_f64();
    let on_20 = times(2 * HOUR, took);
    note("times real time, churn on 20 nodes", on_20);

    let on_500 = times(HOUR, churn_of(20, 500, HOUR));
    note("times real time, 600 pods an hour on 500 nodes", on_500);
    let (took, _) = churn(500, HOUR / 6, None);
    note("times real time, churn on 500 nodes, 370 pods a minute", times(HOUR / 6, took));

    if std::env::args().any(|argument| argument == "json") {
        println!("{:#}", Value::Object(figures));
    }
    if std::env::args().any(|argument| argument == "--check") {
        let checks = [
            check("times real time, churn on 20 nodes", on_20, LEAST_ON_20_NODES..=f64::INFINITY),
            check(
                "times real time, 600 pods an hour on 500 nodes",
                on_500,
                LEAST_ON_500_NODES..=f64::INFINITY,
            ),
            check("memory after the last day over that after the fourth", growth, 0.0..=MOST_GROWTH),
        ];
        if checks.contains(&false) {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Whether a figure is among those that may be; says so where not.
fn check(name: &str, figure: f64, may_be: RangeInclusive<f64>) -> bool {
    let is_fine = may_be.contains(&figure);
    if !is_fine {
        eprintln!("{name}: {figure:.2}, which is not in {may_be:?}");
    }
    is_fine
}

/// How many days memory is looked at: `--days 30`, or a few.
fn days() -> u32 {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--days").skip(1);
    arguments.next().map_or(DAYS, |days| days.parse().expect("--days is a number of days"))
}

/// Nodes on which nothing happens.
fn idle(nodes: usize, time: Duration) -> (Duration, Summary) {
    let seeded = Seeded::new(1, Profile::Calm, vec![MACHINE; nodes], time);
    let plan = seeded.plan(&Neuron::default());
    measured(|| run_plan(&plan, RunOptions::default()))
}

/// As many pods as `churn` has on `busy` nodes, on `nodes`.
fn churn_of(busy: usize, nodes: usize, time: Duration) -> Duration {
    let suite: Arc<dyn Suite> = Arc::new(Neuron::default());
    let seeded = |nodes| Seeded::new(1, Profile::Churn, vec![MACHINE; nodes], time);
    let plan = seeded(nodes).plan(&*suite);
    let known = known().expect("the list of known violations can be read");
    let options = RunOptions { known, ..RunOptions::default() };
    let source = seeded(busy).source(&suite);
    measured(|| run(&plan, source, suite, options)).0
}

fn churn(
    nodes: usize,
    time: Duration,
    progress: Option<simulated_cluster::TellProgress>,
) -> (Duration, Summary) {
    let seeded = Seeded::new(1, Profile::Churn, vec![MACHINE; nodes], time);
    let known = known().expect("the list of known violations can be read");
    measured(|| seeded.run(Neuron::default(), RunOptions { known, progress, ..RunOptions::default() }))
}

fn measured(run: impl FnOnce() -> anyhow::Result<Summary>) -> (Duration, Summary) {
    let began = Instant::now();
    let summary = run().expect("the simulation runs");
    assert_eq!(summary.unknown, Vec::<String>::new(), "{:#?}", summary.violations);
    (began.elapsed(), summary)
}

/// What the process has in memory, in MiB.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kibibytes.unwrap_or(f64::NAN) / 1024.0
}
