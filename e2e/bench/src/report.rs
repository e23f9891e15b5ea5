//! What was measured, and the ratios that it is measured for: a table for people, JSON for programs.

use std::collections::{BTreeMap, BTreeSet};

use comfy_table::{CellAlignment, Row, Table, presets};
use serde::Serialize;

use super::machine::Machine;
use super::nodes::INSTANCE_TYPE;
use super::rounds::Size;
use super::variant::Variant;

/// One run of one variant.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Measured {
    /// The round, from 1.
    pub(super) round: usize,
    /// What was tried.
    pub(super) variant: Variant,
    /// Pods bound in a second, from the first one to the last one.
    pub(super) pods_per_second: f64,
    /// Share of the processors' time that other machines on the same hardware had, from 0 to 1; none where the system does
    /// not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stolen: Option<f64>,
    /// Processor time in milliseconds of the same small piece of work, done over and over meanwhile: how slow the
    /// processors were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pace_ms: Option<f64>,
    /// Processor time of the extender in milliseconds for each pod; none where there is no extender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) extender_ms_per_pod: Option<f64>,
    /// Time in milliseconds for which kube-scheduler looked for a node for each pod, one pod after the other, with the extender's filter and
    /// prioritize; none where it does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) algorithm_ms_per_pod: Option<f64>,
    /// Processor time of other programs in milliseconds for each pod, from kube-scheduler's start until all pods are bound.
    pub(super) program_ms_per_pod: BTreeMap<&'static str, f64>,
}

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    machine: Machine,
    nodes: usize,
    pods: usize,
    rounds: usize,
    instance_type: &'static str,
    measured: Vec<Measured>,
    rates: Vec<Rate>,
    ratios: Vec<Ratio>,
}

/// A variant over all rounds.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Rate {
    variant: Variant,
    pods_per_second: Spread,
    #[serde(skip_serializing_if = "Option::is_none")]
    extender_ms_per_pod: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    algorithm_ms_per_pod: Option<Spread>,
    program_ms_per_pod: BTreeMap<&'static str, Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pace_ms: Option<Spread>,
}

/// Two variants compared round by round.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Ratio {
    of: Variant,
    to: Variant,
    ratio: Spread,
    /// The ratio of pods bound for equal processor work.
    #[serde(skip_serializing_if = "Option::is_none")]
    at_equal_pace: Option<Spread>,
}

/// A figure over all rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Spread {
    median: f64,
    min: f64,
    max: f64,
    mean: f64,
    /// The mean's standard error: how far another measurement of as many rounds may well be off. One round says none.
    #[serde(skip_serializing_if = "Option::is_none")]
    standard_error: Option<f64>,
}

/// What is compared with what: each extender with none, then ours with the one that does nothing.
const RATIOS: [(Variant, Variant); 10] = [
    (Variant::PassingNames, Variant::NoExtender),
    (Variant::OursNames, Variant::NoExtender),
    (Variant::OursNames, Variant::PassingNames),
    (Variant::PassingNamesHttps, Variant::PassingNames),
    (Variant::OursNamesHttps, Variant::PassingNames),
    (Variant::OursNamesHttps, Variant::PassingNamesHttps),
    (Variant::OursNamesLogs, Variant::OursNames),
    (Variant::PassingNodes, Variant::NoExtender),
    (Variant::OursNodes, Variant::NoExtender),
    (Variant::OursNodes, Variant::PassingNodes),
];

impl Report {
    /// Works out the spreads.
    pub(super) fn new(machine: Machine, size: &Size, measured: Vec<Measured>) -> Self {
        let of = |variant: Variant| measured.iter().filter(move |one| one.variant == variant);
        let rate = |variant: Variant| {
            Some(Rate {
                variant,
                pods_per_second: Spread::of(of(variant).map(|one| one.pods_per_second).collect())?,
                extender_ms_per_pod: Spread::of(
                    of(variant).filter_map(|one| one.extender_ms_per_pod).collect(),
                ),
                algorithm_ms_per_pod: Spread::of(
                    of(variant).filter_map(|one| one.algorithm_ms_per_pod).collect(),
                ),
                program_ms_per_pod: programs_of(&of(variant).collect::<Vec<_>>()),
                pace_ms: Spread::of(of(variant).filter_map(|one| one.pace_ms).collect()),
            })
        };
        let ratio = |(above, below): (Variant, Variant)| {
            let in_round = |one: &Measured| of(below).find(|other| other.round == one.round);
            let pairs = || of(above).filter_map(|one| Some((one, in_round(one)?)));
            let paced = |one: &Measured| Some(one.pods_per_second * one.pace_ms?);
            Some(Ratio {
                of: above,
                to: below,
                ratio: Spread::of(
                    pairs().map(|(one, other)| one.pods_per_second / other.pods_per_second).collect(),
                )?,
                at_equal_pace: Spread::of(
                    pairs().filter_map(|(one, other)| Some(paced(one)? / paced(other)?)).collect(),
                ),
            })
        };
        let rates = Variant::ALL.into_iter().filter_map(rate).collect();
        let ratios = RATIOS.into_iter().filter_map(ratio).collect();
        let &Size { nodes, pods, rounds, .. } = size;
        Self { machine, nodes, pods, rounds, instance_type: INSTANCE_TYPE, measured, rates, ratios }
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut rates = table(["", "pods/s", "min", "max", "extender ms/pod", "algorithm ms/pod", "pace ms"]);
        for rate in &self.rates {
            let Spread { median, min, max, .. } = rate.pods_per_second;
            let spent = [rate.extender_ms_per_pod, rate.algorithm_ms_per_pod, rate.pace_ms]
                .map(|spent| spent.map_or(String::new(), |spent| format!("{:.2}", spent.median)));
            let figures = [median, min, max].map(|figure| format!("{figure:.0}"));
            rates.add_row([vec![rate.variant.name().to_owned()], figures.to_vec(), spent.to_vec()].concat());
        }
        let spent = self.processor_time();
        let mut ratios = table(["", "ratio", "min", "max", "mean", "mean at equal pace"]);
        for Ratio { of, to, ratio, at_equal_pace } in &self.ratios {
            let names = format!("{} / {}", of.name(), to.name());
            let figures = [ratio.median, ratio.min, ratio.max].map(|figure| format!("{figure:.2}"));
            let means =
                [Some(ratio), at_equal_pace.as_ref()].map(|of| of.map_or(String::new(), Spread::mean));
            ratios.add_row([vec![names], figures.to_vec(), means.to_vec()].concat());
        }
        format!(
            "{} waiting pods, {} nodes of {}, {} rounds; medians of the rounds, ratios round by round, the means' \
             standard errors; at equal pace: for as much work as the processors get done meanwhile, worth something where the \
             variants' paces are alike\n{}\n{rates}\n\n{spent}\n\n{ratios}\n",
            self.pods,
            self.nodes,
            self.instance_type,
            self.rounds,
            self.machine.text(),
        )
    }
}

impl Report {
    /// Which program spends how much for a pod.
    fn processor_time(&self) -> Table {
        let programs: BTreeSet<&str> =
            self.rates.iter().flat_map(|rate| rate.program_ms_per_pod.keys().copied()).collect();
        let names = ["processor ms/pod, mean", "extender"].into_iter().chain(programs.iter().copied());
        let mut spent = table(names.collect::<Vec<_>>());
        for rate in &self.rates {
            let others = programs.iter().map(|program| rate.program_ms_per_pod.get(program));
            let mean = |spread: Option<&Spread>| {
                spread.map_or(String::new(), |spread| format!("{:.2}", spread.mean))
            };
            let figures = [rate.extender_ms_per_pod.as_ref()].into_iter().chain(others).map(mean);
            spent.add_row([rate.variant.name().to_owned()].into_iter().chain(figures));
        }
        spent
    }
}

impl Spread {
    /// The spread; None without figures.
    fn of(mut figures: Vec<f64>) -> Option<Self> {
        figures.sort_by(f64::total_cmp);
        let (min, max) = (*figures.first()?, *figures.last()?);
        let (low, high) = ((figures.len() - 1) / 2, figures.len() / 2);
        let median = (figures.get(low)? + figures.get(high)?) / 2.0;
        let count = figures.len() as f64;
        let mean = figures.iter().sum::<f64>() / count;
        let squares: f64 = figures.iter().map(|figure| (figure - mean).powi(2)).sum();
        let standard_error = (figures.len() > 1).then(|| (squares / (count - 1.0) / count).sqrt());
        Some(Self { median, min, max, mean, standard_error })
    }

    /// The mean with its error.
    fn mean(&self) -> String {
        let error = self.standard_error.map_or(String::new(), |error| format!(" ± {error:.2}"));
        format!("{:.2}{error}", self.mean)
    }
}

fn table(header: impl Into<Row>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// What each program used for a pod, over these runs.
fn programs_of(runs: &[&Measured]) -> BTreeMap<&'static str, Spread> {
    let programs: BTreeSet<&'static str> =
        runs.iter().flat_map(|run| run.program_ms_per_pod.keys().copied()).collect();
    let of = |program| runs.iter().filter_map(|run| run.program_ms_per_pod.get(program).copied()).collect();
    programs.into_iter().filter_map(|program| Some((program, Spread::of(of(program))?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(round: usize, variant: Variant, pods_per_second: f64) -> Measured {
        Measured {
            round,
            variant,
            pods_per_second,
            stolen: None,
            pace_ms: None,
            extender_ms_per_pod: None,
            algorithm_ms_per_pod: None,
            program_ms_per_pod: BTreeMap::from([("etcd", 1000.0 / pods_per_second)]),
        }
    }

    #[test]
    fn one_round_says_nothing_of_its_error() {
        assert_eq!(Spread::of(vec![2.0]).unwrap().standard_error, None);
        assert_eq!(Spread::of(Vec::new()), None);
    }

    #[test]
    fn ratios_are_taken_within_each_round() {
        // The second round met a machine half as fast: the ratio does not see it.
        let all = vec![
            measured(1, Variant::PassingNames, 400.0),
            measured(1, Variant::OursNames, 400.0),
            measured(2, Variant::PassingNames, 200.0),
            measured(2, Variant::OursNames, 180.0),
        ];
        let report = Report::new(
            Machine::look(),
            &Size { nodes: 1, pods: 1, rounds: 2, form: None, only: Vec::new() },
            all,
        );
        let [ratio] = &report.ratios[..] else { panic!("{:?}", report.ratios) };
        assert_eq!((ratio.ratio.min, ratio.ratio.max), (0.9, 1.0));
        let Spread { median, min, max, mean, standard_error } = report.rates[0].pods_per_second;
        assert_eq!([median, min, max, mean], [300.0, 200.0, 400.0, 300.0]);
        assert_eq!(standard_error, Some(100.0));
        assert!(report.text().contains("0.95 ± 0.05"), "{}", report.text());
        assert!(report.text().contains("etcd") && report.text().contains("3.75"), "{}", report.text());
    }

    #[test]
    fn at_equal_pace_a_slow_machine_is_no_slow_extender() {
        let paced = |variant, pods_per_second, pace| Measured {
            pace_ms: Some(pace),
            ..measured(1, variant, pods_per_second)
        };
        let all = vec![paced(Variant::PassingNames, 400.0, 0.2), paced(Variant::OursNames, 200.0, 0.38)];
        let report = Report::new(
            Machine::look(),
            &Size { nodes: 1, pods: 1, rounds: 1, form: None, only: Vec::new() },
            all,
        );
        let [ratio] = &report.ratios[..] else { panic!("{:?}", report.ratios) };
        assert_eq!(ratio.ratio.mean, 0.5);
        assert!((ratio.at_equal_pace.unwrap().mean - 0.95).abs() < 1e-9, "{ratio:?}");
    }
}
