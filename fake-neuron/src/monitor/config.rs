//! The file of `neuron-monitor -c`: which groups of metrics are collected, of whom, and how often. Called by
//! [`crate::monitor`].

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use regex::Regex;
use serde::Deserialize;

/// The period of a group that has none, nor anything around it.
const DEFAULT_PERIOD: Duration = Duration::from_secs(5);

/// A group of metrics of a process that runs the Neuron runtime, or of the whole host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Group {
    ExecutionStats,
    MemoryUsed,
    NeuronRuntimeVcpuUsage,
    NeuroncoreCounters,
    MemoryInfo,
    NeuronHwCounters,
    VcpuUsage,
}

impl Group {
    const OF_RUNTIMES: [Group; 4] =
        [Group::ExecutionStats, Group::MemoryUsed, Group::NeuronRuntimeVcpuUsage, Group::NeuroncoreCounters];
    const OF_SYSTEM: [Group; 3] = [Group::MemoryInfo, Group::NeuronHwCounters, Group::VcpuUsage];

    /// Whether it tells what happened since it was collected before, so that the first record has none: one was captured with
    /// `memory_info` alone.
    pub(super) fn is_of_a_period(self) -> bool {
        !matches!(self, Group::MemoryUsed | Group::MemoryInfo)
    }
}

/// A group and how often it is collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Metric {
    pub(super) group: Group,
    pub(super) period: Duration,
}

/// What is collected of the processes whose tag is matched.
#[derive(Clone, Debug)]
pub(super) struct RuntimeFilter {
    pub(super) tag: Option<Regex>,
    pub(super) metrics: Vec<Metric>,
}

#[derive(Clone, Debug)]
pub(super) struct Config {
    pub(super) period: Duration,
    pub(super) runtimes: Vec<RuntimeFilter>,
    pub(super) system: Vec<Metric>,
    /// Groups that are not known, such as those that older versions had.
    pub(super) unknown: Vec<String>,
}

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConfigError {
    #[error("{} cannot be read: {reason}", .path.display())]
    Unreadable { path: PathBuf, reason: io::Error },
    #[error("{} is no configuration of neuron-monitor: {reason}", .path.display())]
    Malformed { path: PathBuf, reason: serde_json::Error },
    #[error("{}: period {period:?} is none: write it like 1s, 500ms or 1m30s", .path.display())]
    Period { path: PathBuf, period: String },
    #[error("{}: tag_filter {filter:?} is no regular expression: {reason}", .path.display())]
    Filter { path: PathBuf, filter: String, reason: Box<regex::Error> },
}

impl Default for Config {
    /// Everything of every process and the host, each 5 seconds.
    fn default() -> Config {
        let every = |groups: &[Group]| {
            groups.iter().map(|group| Metric { group: *group, period: DEFAULT_PERIOD }).collect()
        };
        Config {
            period: DEFAULT_PERIOD,
            runtimes: vec![RuntimeFilter { tag: None, metrics: every(&Group::OF_RUNTIMES) }],
            system: every(&Group::OF_SYSTEM),
            unknown: Vec::new(),
        }
    }
}

/// The file as it is written. Keys that are not known are left unread, as Go does.
#[derive(Deserialize)]
struct Written {
    period: Option<String>,
    #[serde(default)]
    neuron_runtimes: Vec<WrittenFilter>,
    #[serde(default)]
    system_metrics: Vec<WrittenMetric>,
}

#[derive(Deserialize)]
struct WrittenFilter {
    period: Option<String>,
    tag_filter: Option<String>,
    #[serde(default)]
    metrics: Vec<WrittenMetric>,
}

#[derive(Deserialize)]
struct WrittenMetric {
    #[serde(rename = "type")]
    group: String,
    period: Option<String>,
}

impl Config {
    /// Reads the file.
    ///
    /// # Errors
    /// It cannot be read, is not what it should be, or has a period or a filter that is none.
    pub(super) fn read(path: &Path) -> Result<Config, ConfigError> {
        let path_of = || path.to_owned();
        let text =
            fs::read_to_string(path).map_err(|reason| ConfigError::Unreadable { path: path_of(), reason })?;
        let written: Written = serde_json::from_str(&text)
            .map_err(|reason| ConfigError::Malformed { path: path_of(), reason })?;
        let mut unknown = Vec::new();
        let period = period(path, written.period.as_deref(), DEFAULT_PERIOD)?;
        let mut runtimes = Vec::new();
        for filter in &written.neuron_runtimes {
            let period = self::period(path, filter.period.as_deref(), period)?;
            let metrics = metrics(path, &filter.metrics, period, &Group::OF_RUNTIMES, &mut unknown)?;
            runtimes.push(RuntimeFilter { tag: tag(path, filter.tag_filter.as_deref())?, metrics });
        }
        let system = metrics(path, &written.system_metrics, period, &Group::OF_SYSTEM, &mut unknown)?;
        Ok(Config { period, runtimes, system, unknown })
    }
}

fn metrics(
    path: &Path,
    written: &[WrittenMetric],
    outer: Duration,
    known: &[Group],
    unknown: &mut Vec<String>,
) -> Result<Vec<Metric>, ConfigError> {
    let mut metrics = Vec::new();
    for metric in written {
        let name = serde::de::value::StrDeserializer::<serde::de::value::Error>::new(&metric.group);
        match Group::deserialize(name).ok().filter(|group| known.contains(group)) {
            Some(group) => {
                metrics.push(Metric { group, period: period(path, metric.period.as_deref(), outer)? })
            }
            None => unknown.push(metric.group.clone()),
        }
    }
    Ok(metrics)
}

fn tag(path: &Path, filter: Option<&str>) -> Result<Option<Regex>, ConfigError> {
    let compile = |filter: &str| {
        Regex::new(filter).map_err(|reason| ConfigError::Filter {
            path: path.to_owned(),
            filter: filter.to_owned(),
            reason: Box::new(reason),
        })
    };
    filter.map(compile).transpose()
}

fn period(path: &Path, written: Option<&str>, outer: Duration) -> Result<Duration, ConfigError> {
    let parse = |period: &str| {
        let found = duration(period).filter(|period| !period.is_zero());
        found.ok_or_else(|| ConfigError::Period { path: path.to_owned(), period: period.to_owned() })
    };
    written.map_or(Ok(outer), parse)
}

/// A duration as Go writes it: numbers with their units, such as `1m30s` or `1.5s`.
fn duration(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, after) = rest.split_at(digits);
        let unit_end = after.find(|letter: char| letter.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let seconds = match unit {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        total =
            total.checked_add(Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?)?;
        rest = after;
    }
    Some(total)
}
