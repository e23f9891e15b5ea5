//! What a bench has found: for people, for programs and for CI. Used by the benches `verbs`, `start` and `traces`.
//!
//! With `NEURON_BENCH_JSON=FILE` the figures are written there, too. With `NEURON_BENCH_CHECK=1` the exit code is 1 where one of them is
//! not as it has to be. Both are variables, since what stands behind `--` is the benches' own.

use std::ops::RangeInclusive;
use std::process::ExitCode;

use serde_json::{Value, json};

/// The variable that names the file for the figures.
const JSON: &str = "NEURON_BENCH_JSON";
/// The variable that has the figures checked.
const CHECK: &str = "NEURON_BENCH_CHECK";

/// Figures in the order in which they were found.
#[derive(Default)]
pub(crate) struct Figures(Vec<Figure>);

struct Figure {
    name: String,
    value: f64,
    /// Empty for a ratio.
    unit: &'static str,
    /// What the value may be, where that is demanded.
    may_be: Option<RangeInclusive<f64>>,
}

/// What may be as large as that.
pub(crate) fn at_most(limit: f64) -> Option<RangeInclusive<f64>> {
    Some(f64::NEG_INFINITY..=limit)
}

impl Figures {
    /// Adds one.
    pub(crate) fn add(
        &mut self,
        name: impl Into<String>,
        (value, unit): (f64, &'static str),
        may_be: Option<RangeInclusive<f64>>,
    ) {
        self.0.push(Figure { name: name.into(), value, unit, may_be });
    }

    /// Prints them, writes the file if one is named, and says whether all are as they have to be, if that is asked.
    pub(crate) fn finish(&self) -> ExitCode {
        println!();
        self.0.iter().for_each(Figure::print);
        if let Some(path) = std::env::var_os(JSON) {
            let figures: Vec<Value> = self.0.iter().map(Figure::json).collect();
            let text = format!("{:#}\n", Value::from(figures));
            std::fs::write(&path, text).expect("the file of NEURON_BENCH_JSON can be written");
        }
        let is_checked = std::env::var_os(CHECK).is_some_and(|value| value != "0");
        if is_checked && !self.0.iter().all(Figure::is_fine) {
            return ExitCode::FAILURE;
        }
        ExitCode::SUCCESS
    }
}

impl Figure {
    /// A value that is not a number is not fine where anything is demanded.
    fn is_fine(&self) -> bool {
        self.may_be.as_ref().is_none_or(|may_be| may_be.contains(&self.value))
    }

    fn print(&self) {
        let Self { name, value, unit, may_be } = self;
        let demanded = may_be.as_ref().map(|may_be| match (may_be.start(), may_be.end()) {
            (_, most) if most.is_finite() => format!(" (at most {most})"),
            (least, _) => format!(" (at least {least})"),
        });
        let missed = if self.is_fine() { "" } else { "  <- missed" };
        println!("{value:>10.2} {unit:<3} {name}{}{missed}", demanded.unwrap_or_default());
    }

    fn json(&self) -> Value {
        let Self { name, value, unit, may_be } = self;
        let finite = |limit: Option<&f64>| limit.copied().filter(|limit| limit.is_finite());
        let least = finite(may_be.as_ref().map(RangeInclusive::start));
        let most = finite(may_be.as_ref().map(RangeInclusive::end));
        json!({"name": name, "value": value, "unit": unit, "atLeast": least, "atMost": most})
    }
}

/// Their mean; not a number where there is none.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The standard error of their mean; not a number where there are not two.
pub(crate) fn standard_error(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len() as f64 - 1.0)).sqrt() / (values.len() as f64).sqrt()
}

/// The middle one; not a number where there is none.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    quantile(values, 0.5)
}

/// The smallest value that so large a part of them does not exceed; not a number where there is none.
pub(crate) fn quantile(values: impl IntoIterator<Item = f64>, part: f64) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let place = (values.len() as f64 * part).ceil() as usize;
    values.get(place.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}
