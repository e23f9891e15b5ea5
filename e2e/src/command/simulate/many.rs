//! Many seeds: each in a process of its own, so that none can disturb another, and as many at one time as there are processors.

use std::ops::Range;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{available_parallelism, scope};
use std::time::Instant;

use anyhow::{Context as _, anyhow, bail};

use super::{SimulateArguments, counted, show};
use crate::command::progress;
use crate::report::{Output, print};

/// Runs every seed, or those that are begun in time. Exit code 1 if something must not be that nobody knows.
pub(super) fn run(arguments: &SimulateArguments, seeds: Range<u64>) -> anyhow::Result<ExitCode> {
    let bar = progress::bar(seeds.end - seeds.start)?;
    let (began, next) = (Instant::now(), AtomicU64::new(seeds.start));
    let _lines = progress::lines(&bar, |bar| format!("{} seeds have run", bar.position()));
    let in_time = || arguments.within.is_none_or(|time| began.elapsed() < time);
    let rows = Mutex::new(Vec::new());
    let workers = available_parallelism().map_or(1, usize::from);
    scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(seed) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < seeds.end && in_time())
                {
                    let row = one(arguments, seed);
                    bar.inc(1);
                    bar.set_message(format!("seed {seed}"));
                    if let Some(told) = show::failure(&row) {
                        bar.suspend(|| print::progress(told));
                    }
                    rows.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((seed, row));
                }
            });
        }
    });
    bar.finish_and_clear();
    let mut rows = rows.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    rows.sort_by_key(|(seed, _)| *seed);
    let (rows, broken) = apart(rows.into_iter().map(|(_, row)| row));
    match arguments.output {
        Output::Json => print::json(&rows)?,
        Output::Table => print::line(show::table(&rows))?,
    }
    let code = show::exit_code(arguments, &rows)?;
    match broken.or_else(|| missed_kills(&rows, code)) {
        Some(told) => bail!(told),
        None => Ok(code),
    }
}

/// The rows of those that ran, and what is to be told of those that did not.
fn apart(rows: impl IntoIterator<Item = anyhow::Result<show::Row>>) -> (Vec<show::Row>, Option<String>) {
    let (mut ran, mut broken) = (Vec::new(), Vec::new());
    for row in rows {
        match row {
            Ok(row) => ran.push(row),
            Err(error) => broken.push(format!("{error:#}")),
        }
    }
    let all = ran.len() + broken.len();
    let told = format!("{} of {all} seeds broke off:\n  {}", broken.len(), broken.join("\n  "));
    (ran, (!broken.is_empty()).then_some(told))
}

/// What is to be told of kills that no run came to: seeds differ in how often a part is polled. What failed is told by itself.
fn missed_kills(rows: &[show::Row], code: ExitCode) -> Option<String> {
    let first = rows.first()?;
    let have_all_missed = rows.iter().all(|row| !row.summary.missed_kills.is_empty());
    (code == ExitCode::SUCCESS && have_all_missed).then(|| {
        let missed = first.summary.missed_kills.join(", ");
        format!(
            "kills changed nothing of any seed: {missed}; name an earlier poll, or a longer --for ({})",
            first.command
        )
    })
}

/// Runs one seed in a process of its own.
fn one(arguments: &SimulateArguments, seed: u64) -> anyhow::Result<show::Row> {
    let program = std::env::current_exe().context("where this program is, is not known")?;
    let mut command = Command::new(program);
    command.args(["simulate", "-o", "json", "--no-progress", "--seed", &seed.to_string()]);
    command.args(["--for", &format!("{}s", arguments.time.as_secs())]);
    command.args(["--nodes", &counted(&arguments.nodes).join(",")]);
    command.args(["--profile", &arguments.profile.to_string()]);
    command.args(["--kubernetes", &arguments.kubernetes.to_string()]);
    command.args(["--shrink-for", &format!("{}s", arguments.shrink_for.as_secs())]);
    command.arg("--keep-failures").arg(&arguments.keep_failures);
    command.args(arguments.planting().split_whitespace());
    for (part, poll) in &arguments.kills {
        command.args(["--kill", &format!("{part}:{poll}")]);
    }
    for signature in &arguments.unknown {
        command.args(["--unknown", signature]);
    }
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("seed {seed}"))?;
    serde_json::from_slice(&output.stdout).map_err(|_| {
        let told = String::from_utf8_lossy(&output.stderr);
        anyhow!("seed {seed} broke off ({}): {}; {}", output.status, told.trim(), arguments.command(seed))
    })
}

#[cfg(test)]
mod tests {
    use simulated_cluster::Summary;

    use super::*;

    #[test]
    fn seeds_that_break_off_do_not_take_the_others_with_them() {
        let row = |command: &str| show::Row {
            command: command.to_owned(),
            real_seconds: 1.0,
            plan: None,
            summary: Summary::default(),
        };
        let (rows, told) = apart([Ok(row("a")), Err(anyhow!("seed 1 broke off")), Ok(row("c"))]);
        assert_eq!(rows.iter().map(|row| &*row.command).collect::<Vec<_>>(), ["a", "c"]);
        assert_eq!(told.as_deref(), Some("1 of 3 seeds broke off:\n  seed 1 broke off"));
        assert_eq!(apart([Ok(row("a"))]).1, None);
    }
}
