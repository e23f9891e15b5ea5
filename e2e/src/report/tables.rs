//! Finished scenarios for people: a line each, or a table. Called by the command line.

use comfy_table::{Attribute, Cell, Color, ContentArrangement, Table, presets};
use neuron_core::record::{Allocation, Recorded};
use neuron_e2e_engine::outcome::{Outcome, PodOutcome};
use neuron_e2e_engine::scenario::Scenario;

use super::Row;
use super::sets::set;

/// Pods shown of one scenario; the JSON has them all.
const PODS_SHOWN: usize = 4;

/// The table: scenario, nodes, what was placed where, passed or failed and why.
pub fn results(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["scenario", "nodes", "what was placed where", "result"]);
    for row in rows {
        let placed = row.outcome.as_ref().map_or(String::new(), placements);
        let result = if let Some(why) = &row.skipped {
            Cell::new(format!("skipped: {why}")).fg(Color::Yellow)
        } else if let Some(why) = &row.not_prepared {
            Cell::new(format!("{}\n{why}", row.word())).fg(Color::Magenta).add_attribute(Attribute::Bold)
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

/// One scenario on one line, `passed   0.52 s  nine-cores`; what was wrong stands below, indented.
pub fn line(row: &Row) -> String {
    let Row { scenario, seconds, .. } = row;
    let cluster = row.cluster.as_ref().map_or(String::new(), |cluster| format!(" on {cluster}"));
    if let Some(why) = &row.skipped {
        return format!("skipped           {scenario}{cluster}: {why}");
    }
    let wrong: String = row.wrong().flat_map(str::lines).map(|line| format!("\n  {line}")).collect();
    format!("{} {seconds:6.2} s  {scenario}{cluster}{wrong}", row.word())
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

/// The messages that users read of each pod: refusals, failures and our events. Empty if there are none.
pub fn messages(outcome: &Outcome) -> String {
    let mut lines = Vec::new();
    for (name, pod) in &outcome.pods {
        let refusals = [&pod.failed_scheduling, &pod.failure].into_iter().flatten();
        lines.extend(refusals.chain(&pod.events).map(|text| format!("  {name}: {text}\n")));
    }
    lines.concat()
}

/// The last line: `N passed, N failed`, then `N not prepared` and `N skipped` where some were.
pub fn summary(rows: &[Row]) -> String {
    let passed = rows.iter().filter(|row| row.passed).count();
    let failed = rows.iter().filter(|row| row.failed()).count();
    let others = [
        (rows.iter().filter(|row| row.not_prepared.is_some()).count(), "not prepared"),
        (rows.iter().filter(|row| row.skipped.is_some()).count(), "skipped"),
    ];
    let others = others.into_iter().filter(|(count, _)| *count > 0);
    let others: String = others.map(|(count, word)| format!(", {count} {word}")).collect();
    format!("{passed} passed, {failed} failed{others}")
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

#[cfg(test)]
mod tests {
    use super::*;
    use neuron_e2e_engine::scenario::library;

    #[test]
    fn a_scenario_that_no_cluster_could_be_prepared_for_has_not_failed() {
        let scenario = &library::all(&Default::default()).unwrap()[0];
        let rows = [Row::not_prepared(scenario, "waited 120 s for node w1".into(), 2.0)];
        assert!(!rows[0].passed && !rows[0].failed());
        assert_eq!(summary(&rows), "0 passed, 0 failed, 1 not prepared");
        assert!(results(&rows).to_string().contains("waited 120 s for node w1"));
        assert!(line(&rows[0]).ends_with("\n  waited 120 s for node w1"));
        assert!(line(&rows[0]).starts_with("NOT PREPARED"));
        assert_eq!(serde_json::to_value(&rows[0]).unwrap()["not_prepared"], "waited 120 s for node w1");
    }

    #[test]
    fn a_scenario_that_was_skipped_has_neither_passed_nor_failed() {
        let scenario = &library::all(&Default::default()).unwrap()[0];
        let rows = [Row::skipped(scenario, "needs 3 nodes".into())];
        assert!(!rows[0].passed && !rows[0].failed());
        assert_eq!(summary(&rows), "0 passed, 0 failed, 1 skipped");
        assert!(results(&rows).to_string().contains("skipped: needs 3 nodes"));
        assert_eq!(serde_json::to_value(&rows[0]).unwrap()["skipped"], "needs 3 nodes");
    }

    #[test]
    fn what_is_found_wrong_after_a_scenario_is_a_failure_whatever_became_of_it() {
        let scenario = &library::all(&Default::default()).unwrap()[0];
        let passed = Row { passed: true, failures: Vec::new(), ..Row::skipped(scenario, String::new()) };
        let mut rows = [
            Row { skipped: None, ..passed },
            Row::skipped(scenario, "needs 3 nodes".into()),
            Row::not_prepared(scenario, "waited 120 s for node w1".into(), 2.0),
        ];
        rows.iter_mut().for_each(|row| row.add_failures(Vec::new()));
        assert_eq!(summary(&rows), "1 passed, 0 failed, 1 not prepared, 1 skipped");
        rows.iter_mut().for_each(|row| row.add_failures(vec!["rights are missing".into()]));
        assert_eq!(summary(&rows), "0 passed, 3 failed");
        assert!(
            rows.iter()
                .all(|row| line(row).starts_with("FAILED") && line(row).ends_with("rights are missing"))
        );
    }
}
