//! The step `metrics`: what a counter of our programs has counted since the scenario began. Part of the scenario file's form; carried out
//! by [`crate::run`].

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::part::Part;
use super::step::first_node;

/// What a counter must have counted.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MetricsStep {
    /// Whose it is: `plugin` or `extender`, of which all replicas are summed up.
    #[serde(deserialize_with = "shows_metrics")]
    pub part: Part,
    /// The node, for a plugin; n1 if not given.
    #[serde(default = "first_node")]
    pub node: String,
    /// The counter.
    pub series: Series,
    /// How much of it there must be, which is waited for.
    pub at_least: u32,
    /// How much of it there may be once there is enough; more than `at-least` if not given.
    #[serde(default)]
    pub at_most: Option<u32>,
}

/// A counter by its whole name and some of its labels, as `/metrics` shows it: `neuron_extender_refusals_total{reason="not_linked"}`. It
/// stands for the sum of all that have these labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Series {
    name: String,
    /// Each as `reason="not_linked"`.
    labels: Vec<String>,
}

impl Series {
    /// The sum of it in a program's metrics, in OpenMetrics' text format; 0 where there is none.
    pub(crate) fn sum(&self, metrics: &str) -> f64 {
        let values = metrics.lines().filter_map(|line| {
            let (name, labels, value) = parts(line)?;
            // Each label between two commas, so that none is found inside another.
            let labels = format!(",{labels},");
            let has = |label: &String| labels.contains(&format!(",{label},"));
            (name == self.name && self.labels.iter().all(has)).then_some(value)
        });
        values.filter_map(|value| value.split_whitespace().next()?.parse::<f64>().ok()).sum()
    }
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if self.labels.is_empty() { Ok(()) } else { write!(f, "{{{}}}", self.labels.join(",")) }
    }
}

impl TryFrom<String> for Series {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (name, labels) = match text.split_once('{') {
            None => (text.as_str(), ""),
            Some((name, labels)) => {
                let closed = labels.strip_suffix('}');
                (name, closed.ok_or_else(|| format!("series {text:?}: its labels have no end, a `}}`"))?)
            }
        };
        if !["_total", "_count"].iter().any(|end| name.ends_with(end)) {
            return Err(format!(
                "series {text:?} is no counter: what was counted since the scenario began is compared, and names of counters end with \
                 _total or _count"
            ));
        }
        let labels: Vec<String> = labels.split_terminator(',').map(str::to_owned).collect();
        let is_label =
            |label: &String| label.split_once("=\"").is_some_and(|(_, value)| value.ends_with('"'));
        if let Some(label) = labels.iter().find(|label| !is_label(label)) {
            return Err(format!("series {text:?}: {label:?} is no label, which is as name=\"value\""));
        }
        Ok(Self { name: name.to_owned(), labels })
    }
}

/// The name, the labels and what follows them on a line of metrics; none of a comment.
fn parts(line: &str) -> Option<(&str, &str, &str)> {
    if line.starts_with('#') {
        return None;
    }
    match line.split_once('{') {
        Some((name, rest)) if !name.contains(' ') => {
            let (labels, value) = rest.split_once("} ")?;
            Some((name, labels, value))
        }
        _ => line.split_once(' ').map(|(name, value)| (name, "", value)),
    }
}

fn shows_metrics<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Part, D::Error> {
    match Part::deserialize(deserializer)? {
        part @ (Part::Plugin | Part::Extender) => Ok(part),
        part => {
            Err(D::Error::custom(format!("metrics are those of plugin or extender, not of {}", part.name())))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rstest::rstest;

    use super::*;
    use crate::scenario::{CatalogSource, Step, library};

    /// A name that is mistyped counts nothing everywhere.
    #[test]
    fn what_is_to_count_nothing_is_to_count_something_in_another_scenario() {
        let (mut nothing, mut something) = (BTreeSet::new(), BTreeSet::new());
        for scenario in library::all(&CatalogSource::default()).unwrap() {
            for step in scenario.all_steps() {
                let Step::Metrics(step) = step else { continue };
                let names = if step.at_least == 0 { &mut nothing } else { &mut something };
                names.insert((step.part, step.series.name.clone()));
            }
        }
        assert!(!nothing.is_empty());
        assert!(nothing.is_subset(&something), "{nothing:?} {something:?}");
    }

    const METRICS: &str = "\
# TYPE neuron_extender_refusals counter
neuron_extender_refusals_total{reason=\"not_linked\"} 2
neuron_extender_refusals_total{reason=\"unhealthy\",more=\"x\"} 3 # {trace=\"1\"} 1
neuron_extender_bind_count 4
# EOF
";

    #[rstest]
    #[case::all("neuron_extender_refusals_total", 5.0)]
    #[case::with_a_label("neuron_extender_refusals_total{reason=\"not_linked\"}", 2.0)]
    #[case::with_labels_in_any_order("neuron_extender_refusals_total{more=\"x\",reason=\"unhealthy\"}", 3.0)]
    #[case::with_a_part_of_a_label("neuron_extender_refusals_total{reason=\"unhealt\"}", 0.0)]
    #[case::without_labels("neuron_extender_bind_count", 4.0)]
    #[case::of_a_longer_name("neuron_extender_refusals_count", 0.0)]
    fn a_counter_is_the_sum_of_those_with_its_labels(#[case] series: &str, #[case] sum: f64) {
        let series = Series::try_from(series.to_owned()).unwrap();
        assert!((series.sum(METRICS) - sum).abs() < f64::EPSILON, "{}", series.sum(METRICS));
    }
}
