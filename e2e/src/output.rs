//! What the command line prints of finished scenarios: a table for people, JSON for programs.

use comfy_table::{Attribute, Cell, Color, ContentArrangement, Table, presets};
use neuron_core::record::{Allocation, ContainerAllocation, Recorded};
use serde::Serialize;

use neuron_e2e_engine::outcome::{Outcome, PodOutcome};
use neuron_e2e_engine::scenario::Scenario;

/// Pods shown of one scenario; the JSON has them all.
const PODS_SHOWN: usize = 4;

/// One line of the table, one element of the JSON.
#[derive(Debug, Serialize)]
pub struct Row {
    /// The scenario's name.
    pub scenario: String,
    /// The cluster it ran on and the scheduler; none for the embedded cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// What it shows.
    pub about: String,
    /// The instance types of n1, n2, n3.
    pub nodes: Vec<String>,
    /// Whether everything was as it must be.
    pub passed: bool,
    /// What was not, one sentence each.
    pub failures: Vec<String>,
    /// Why it was not run on this cluster; none if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
    /// Wall time in seconds.
    pub seconds: f64,
    /// The outcome document; none if the scenario did not come to its end.
    pub outcome: Option<Outcome>,
}

impl Row {
    /// The row of a scenario that was run.
    pub fn new(
        scenario: &Scenario,
        result: anyhow::Result<neuron_e2e_engine::run::Finished>,
        seconds: f64,
    ) -> Self {
        let (outcome, failures) = match result {
            Ok(finished) => (Some(finished.outcome), finished.failures),
            Err(error) => (None, vec![format!("{error:#}")]),
        };
        Row {
            scenario: scenario.name.clone(),
            cluster: None,
            about: scenario.about.clone(),
            nodes: scenario.nodes.iter().map(|node| node.instance_type.clone()).collect(),
            passed: failures.is_empty(),
            failures,
            skipped: None,
            seconds,
            outcome,
        }
    }

    /// The row of a scenario that this cluster cannot run, and why.
    pub fn skipped(scenario: &Scenario, why: String) -> Self {
        let nothing = anyhow::anyhow!("not run");
        Row { failures: Vec::new(), skipped: Some(why), ..Row::new(scenario, Err(nothing), 0.0) }
    }

    /// Whether it was run and something was not as it must be.
    pub fn failed(&self) -> bool {
        !self.passed && self.skipped.is_none()
    }
}

/// The table: scenario, nodes, what was placed where, passed or failed and why.
pub fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["scenario", "nodes", "what was placed where", "result"]);
    for row in rows {
        let placed = row.outcome.as_ref().map_or(String::new(), placements);
        let result = if let Some(why) = &row.skipped {
            Cell::new(format!("skipped: {why}")).fg(Color::Yellow)
        } else if row.passed {
            Cell::new("passed").fg(Color::Green)
        } else {
            Cell::new(format!("FAILED\n{}", row.failures.join("\n")))
                .fg(Color::Red)
                .add_attribute(Attribute::Bold)
        };
        table.add_row([Cell::new(&row.scenario), Cell::new(row.nodes.join("\n")), Cell::new(placed), result]);
    }
    table
}

/// The table of `neuron-e2e list`.
pub fn list(scenarios: &[Scenario]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["tier", "scenario", "what it shows"]);
    let row = |scenario: &Scenario| {
        [scenario.tier.name().to_owned(), scenario.name.clone(), scenario.about.clone()]
    };
    table.add_rows(scenarios.iter().map(row));
    table
}

/// What users were told of each pod: refusals, failures and our events. Empty if nobody was told anything.
pub fn told(outcome: &Outcome) -> String {
    let mut lines = Vec::new();
    for (name, pod) in &outcome.pods {
        let refusals = [&pod.failed_scheduling, &pod.failure].into_iter().flatten();
        lines.extend(refusals.chain(&pod.events).map(|text| format!("  {name}: {text}\n")));
    }
    lines.concat()
}

/// The last line: `N passed, N failed`, and `N skipped` where some were.
pub fn summary(rows: &[Row]) -> String {
    let passed = rows.iter().filter(|row| row.passed).count();
    let failed = rows.iter().filter(|row| row.failed()).count();
    match rows.len() - passed - failed {
        0 => format!("{passed} passed, {failed} failed"),
        skipped => format!("{passed} passed, {failed} failed, {skipped} skipped"),
    }
}

fn placements(outcome: &Outcome) -> String {
    let mut lines: Vec<String> = outcome
        .pods
        .iter()
        .take(PODS_SHOWN)
        .map(|(name, pod)| format!("{name}: {}", placement(pod)))
        .collect();
    if outcome.pods.len() > PODS_SHOWN {
        lines.push(format!("and {} more pods", outcome.pods.len() - PODS_SHOWN));
    }
    lines.join("\n")
}

fn placement(pod: &PodOutcome) -> String {
    let node = pod.node.as_deref().unwrap_or("no node");
    match Allocation::parse(&pod.annotations) {
        Ok(Some(Recorded::Ours(allocation))) => {
            let sets: Vec<String> = allocation.containers.values().map(set).collect();
            format!("{} on {node}", sets.join(" + "))
        }
        _ => pod.phase.to_lowercase(),
    }
}

/// `devices 0-3`, `core 5`, or both.
pub(crate) fn set(allocation: &ContainerAllocation) -> String {
    let part = |noun: &str, ids: String| {
        let plural = if ids.contains(',') { "s" } else { "" };
        (!ids.is_empty()).then(|| format!("{noun}{plural} {}", folded(&ids)))
    };
    let parts = [part("device", allocation.devices.to_string()), part("core", allocation.cores.to_string())];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

/// `0,1,2,5` as `0-2,5`.
pub(crate) fn folded(ids: &str) -> String {
    let mut runs: Vec<(u8, u8)> = Vec::new();
    for id in ids.split(',').filter_map(|id| id.parse::<u8>().ok()) {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == id => *last = id,
            _ => runs.push((id, id)),
        }
    }
    let text =
        |(first, last): &(u8, u8)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    runs.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use neuron_e2e_engine::scenario::library;

    #[test]
    fn a_scenario_that_was_skipped_has_neither_passed_nor_failed() {
        let scenario = &library::all().unwrap()[0];
        let rows = [Row::skipped(scenario, "needs 3 nodes".into())];
        assert!(!rows[0].passed && !rows[0].failed());
        assert_eq!(summary(&rows), "0 passed, 0 failed, 1 skipped");
        assert!(table(&rows).to_string().contains("skipped: needs 3 nodes"));
        assert_eq!(serde_json::to_value(&rows[0]).unwrap()["skipped"], "needs 3 nodes");
    }
}
