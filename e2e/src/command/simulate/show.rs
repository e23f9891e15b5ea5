//! What came of simulations, for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use comfy_table::{Table, presets};
use neuron_e2e_simulation::{reached_after_all, too_seldom, unreached};
use serde::{Deserialize, Serialize};
use simulated_cluster::Summary;
use simulated_cluster::observer::Seen;
use simulator::trace::Time;

use super::SimulateArguments;
use crate::report::print;

/// One simulation.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    /// What runs it again.
    pub(super) command: String,
    /// Real time.
    pub(super) real_seconds: f64,
    /// The plan of what failed.
    pub(super) plan: Option<PathBuf>,
    /// What came of it.
    #[serde(flatten)]
    pub(super) summary: Summary,
}

/// What is wrong with a simulation, if anything is.
pub(super) fn failure(row: &anyhow::Result<Row>) -> Option<String> {
    match row {
        Ok(row) if row.summary.unknown.is_empty() => None,
        Ok(row) => Some(unknown(row)),
        Err(error) => Some(format!("{error:#}")),
    }
}

/// Everything about them: how much happened, faults by kind, violations by signature.
pub(super) fn table(rows: &[Row]) -> String {
    let mut text = totals(rows);
    let faults = sums(rows, |summary| summary.faults.clone());
    if !faults.is_empty() {
        text.push_str("\n\nfaults\n");
        text.push_str(&counts(&faults));
    }
    let judged = sums(rows, |summary| summary.judged.clone());
    if !judged.is_empty() {
        text.push_str("\n\njudged\n");
        text.push_str(&counts(&judged));
    }
    let mut violations: BTreeMap<&str, (u64, &Row, &Seen)> = BTreeMap::new();
    for row in rows {
        for (signature, seen) in &row.summary.violations.0 {
            violations.entry(signature).or_insert((0, row, seen)).0 += seen.count;
        }
    }
    if !violations.is_empty() {
        text.push_str("\n\nviolations\n");
        let mut table = plain();
        for (signature, (count, row, seen)) in &violations {
            let is_unknown = row.summary.unknown.iter().any(|unknown| unknown == signature);
            let word = if is_unknown { "UNKNOWN" } else { "known" };
            let first = Time(Duration::from_millis(seen.first));
            table.add_row([
                word.to_owned(),
                format!("{count}x"),
                format!("{signature}\n{first} {}\n{}", seen.text, row.command),
            ]);
        }
        text.push_str(&table.to_string());
    }
    for row in rows.iter().filter(|row| !row.summary.unknown.is_empty()) {
        text.push_str("\n\n");
        text.push_str(&unknown(row));
    }
    text
}

/// 1 if something must not be that nobody knows, or was never reached and should have been, or was judged too seldom; the latter two are
/// told, and so is what was reached though it is excused.
pub(super) fn exit_code(arguments: &SimulateArguments, rows: &[Row]) -> anyhow::Result<ExitCode> {
    let summaries: Vec<Summary> = rows.iter().map(|row| row.summary.clone()).collect();
    let missing = if arguments.every_branch { unreached(&summaries) } else { Vec::new() };
    if !missing.is_empty() {
        print::progress(format_args!("never reached:\n  {}", missing.join("\n  ")));
    }
    let excused = if arguments.every_branch { reached_after_all(&summaries) } else { Vec::new() };
    if !excused.is_empty() {
        print::progress(format_args!("reached, though said to be out of reach:\n  {}", excused.join("\n  ")));
    }
    let seldom = if arguments.every_branch { too_seldom(&summaries) } else { Vec::new() };
    if !seldom.is_empty() {
        print::progress(format_args!("judged too seldom:\n  {}", seldom.join("\n  ")));
    }
    let failed = summaries.iter().any(|summary| !summary.unknown.is_empty());
    Ok(if failed || [missing, excused, seldom].iter().any(|told| !told.is_empty()) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn totals(rows: &[Row]) -> String {
    let sum = |of: fn(&Summary) -> u64| rows.iter().map(|row| of(&row.summary)).sum::<u64>();
    let (simulated, real) = (sum(|row| row.seconds), rows.iter().map(|row| row.real_seconds).sum::<f64>());
    let mut table = plain();
    let mut row = |name: &str, value: String| {
        table.add_row([name.to_owned(), value]);
    };
    row(
        "simulated",
        format!(
            "{} in {real:.1} s, {:.0} times real time",
            Time(Duration::from_secs(simulated)),
            simulated as f64 / real
        ),
    );
    row(
        "pods",
        format!(
            "{} created, {} placed, {} refused, {} ended",
            sum(|row| row.created),
            sum(|row| row.placed),
            sum(|row| row.refused),
            sum(|row| row.ended)
        ),
    );
    row("kills", sum(|row| row.kills).to_string());
    row("restarts", sum(|row| row.restarts).to_string());
    row("events", sum(|row| row.events).to_string());
    if let [only] = rows {
        row("hash", only.summary.hash.clone());
    }
    table.to_string()
}

/// The unknown violations of one simulation, with the events before the first.
fn unknown(row: &Row) -> String {
    let mut text = String::new();
    for signature in &row.summary.unknown {
        let Some(seen) = row.summary.violations.0.get(signature) else { continue };
        // Writing to a String cannot fail.
        let _ = write!(text, "FAILED {signature}\n{seen}");
    }
    let _ = write!(text, "  again: {}", row.command);
    if let Some(plan) = &row.plan {
        let _ = write!(text, "\n  its plan: neuron-e2e simulate --replay {}", plan.display());
    }
    text
}

fn sums(rows: &[Row], of: impl Fn(&Summary) -> BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (name, count) in rows.iter().flat_map(|row| of(&row.summary)) {
        *sums.entry(name).or_default() += count;
    }
    sums
}

fn counts(counts: &BTreeMap<String, u64>) -> String {
    let mut table = plain();
    table.add_rows(counts.iter().map(|(name, count)| [name.clone(), count.to_string()]));
    table.to_string()
}

fn plain() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}
