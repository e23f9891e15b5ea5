//! One pod and one cluster: filter and prioritize by criterion, in turns with what they are compared with. Used by the bench `verbs`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, SamplingMode};
use futures::executor::block_on;
use neuron_extender::measured::{Measured, filter_by_serde_alone, prioritize_by_serde_alone};
use serde_json::Value;

use crate::bodies::Form;
use crate::clusters::NODES;
use crate::figures::{Figures, at_most, median};

/// What filter may cost, in what serde_json alone takes, and prioritize, in what filter takes.
const MOST_OF_NAMES: f64 = 1.5;
const MOST_OF_NODES: f64 = 1.2;
const MOST_OF_FILTER: f64 = 1.0;

/// What one verb took, and how often as long as what it is compared with, in each of criterion's samples.
#[derive(Default)]
struct Samples(Vec<Sample>);

struct Sample {
    /// Of a call.
    microseconds: f64,
    over_serde: f64,
    /// None of filter itself.
    over_filter: Option<f64>,
}

/// What was measured of one pod on one cluster.
pub(crate) struct Case {
    form: Form,
    cluster: &'static str,
    pod: &'static str,
    filter: Samples,
    prioritize: Samples,
}

impl Case {
    /// Has criterion measure both verbs.
    pub(crate) fn measured(
        group: &mut BenchmarkGroup<'_, WallTime>,
        measured: &Measured,
        (form, cluster, pod): (Form, &'static str, &'static str),
        body: &[u8],
    ) -> Self {
        let [read, scored] = [filter_by_serde_alone, prioritize_by_serde_alone]
            .map(|alone| move || alone(body).expect("the body is what kube-scheduler sends"));
        let filter = || block_on(measured.filter(body)).expect("an answer of filter");
        let prioritize = || block_on(measured.prioritize(body)).expect("an answer of prioritize");
        all_pass(&filter());
        some_are_scored(&prioritize());

        // The samples are as long as one another: each is a ratio of its own.
        group.sampling_mode(SamplingMode::Flat).sample_size(20);
        group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
        let mut case =
            Self { form, cluster, pod, filter: Samples::default(), prioritize: Samples::default() };
        group.bench_function(BenchmarkId::new("filter", pod), |bencher| {
            bencher.iter_custom(|calls| {
                measured.renew();
                let [serde, took] = in_turns(calls, [&read, &filter]);
                case.filter.add(calls, took, serde, None);
                took
            });
        });
        group.bench_function(BenchmarkId::new("prioritize", pod), |bencher| {
            bencher.iter_custom(|calls| {
                measured.renew();
                let [serde, of_filter, took] = in_turns(calls, [&scored, &filter, &prioritize]);
                case.prioritize.add(calls, took, serde, Some(of_filter));
                took
            });
        });
        case
    }

    /// Adds its ratios, those that criterion was asked for.
    pub(crate) fn add_to(&self, figures: &mut Figures) {
        let Self { form, cluster, pod, filter, prioritize } = self;
        let of = |verb: &str| format!("{verb}, {}, {cluster}, {pod}", form.name());
        let limit = if *form == Form::Names { MOST_OF_NAMES } else { MOST_OF_NODES };
        if !filter.0.is_empty() {
            figures.add(of("filter / serde_json"), (filter.over_serde(), ""), at_most(limit));
        }
        if !prioritize.0.is_empty() {
            figures.add(of("prioritize / serde_json"), (prioritize.over_serde(), ""), None);
            figures.add(of("prioritize / filter"), (prioritize.over_filter(), ""), at_most(MOST_OF_FILTER));
        }
    }
}

impl Samples {
    fn add(&mut self, calls: u64, took: Duration, serde: Duration, filter: Option<Duration>) {
        let microseconds = took.as_secs_f64() * 1e6 / calls as f64;
        let over = |other: Duration| took.as_secs_f64() / other.as_secs_f64();
        self.0.push(Sample { microseconds, over_serde: over(serde), over_filter: filter.map(over) });
    }

    fn microseconds(&self) -> f64 {
        median(self.0.iter().map(|sample| sample.microseconds))
    }

    fn over_serde(&self) -> f64 {
        median(self.0.iter().map(|sample| sample.over_serde))
    }

    fn over_filter(&self) -> f64 {
        median(self.0.iter().filter_map(|sample| sample.over_filter))
    }
}

/// Prints the table of `docs/performance.md`.
pub(crate) fn print(cases: &[Case]) {
    println!(
        "\n| nodes | cluster | pod | filter, us | / serde_json | prioritize, us | / serde_json | / filter |"
    );
    println!("|---|---|---|--:|--:|--:|--:|--:|");
    for Case { form, cluster, pod, filter, prioritize } in cases {
        println!(
            "| {} | {cluster} | {pod} | {:.0} | {:.2} | {:.0} | {:.2} | {:.2} |",
            form.name(),
            filter.microseconds(),
            filter.over_serde(),
            prioritize.microseconds(),
            prioritize.over_serde(),
            prioritize.over_filter(),
        );
    }
}

/// Has each called in turn, so often, and says how long each took altogether. To drop an answer is not part of it.
fn in_turns<const N: usize>(calls: u64, ways: [&dyn Fn() -> Vec<u8>; N]) -> [Duration; N] {
    let mut took = [Duration::ZERO; N];
    for _ in 0..calls {
        for (took, way) in took.iter_mut().zip(ways) {
            let began = Instant::now();
            let answer = black_box(way());
            *took += began.elapsed();
            drop(answer);
        }
    }
    took
}

/// What it is compared with passes every node, so filter has to.
fn all_pass(answer: &[u8]) {
    let answer: Value = serde_json::from_slice(answer).expect("filter answers JSON");
    let passed = [&answer["NodeNames"], &answer["Nodes"]["items"]];
    let passed = passed.into_iter().find_map(Value::as_array).map_or(0, Vec::len);
    assert_eq!(passed, NODES as usize, "nodes refuse the pod: {} {}", answer["FailedNodes"], answer["Error"]);
}

/// Those of one type at least, which comes first.
fn some_are_scored(answer: &[u8]) {
    let scores: Vec<Value> = serde_json::from_slice(answer).expect("prioritize answers JSON");
    assert!((NODES as usize / 2..NODES as usize).contains(&scores.len()), "{} are scored", scores.len());
}
