//! One simulation, in this process.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use neuron_e2e_simulation::{Neuron, plan_of, run_plan, smaller};
use simulated_cluster::plan::Plan;
use simulated_cluster::shrink::cut_off;
use simulated_cluster::{RunOptions, STUCK, Summary};
use simulator::trace::Sink;

use super::show::{Row, exit_code, table};
use super::{SimulateArguments, possible};
use crate::command::progress;
use crate::report::{Output, print};

/// What the first line of a trace begins with, before the number of its form.
const TRACE: &str = "neuron-e2e trace v";
/// The form of traces that this release writes.
const TRACE_VERSION: u32 = 1;

/// Runs it, and makes the plan of what fails smaller.
pub(super) fn run(arguments: &SimulateArguments) -> anyhow::Result<ExitCode> {
    let plan = arguments.replay.as_deref().map(|path| read(path, &arguments.kills)).transpose();
    let plan = plan.with_context(|| cannot_be_run(arguments))?;
    let seconds = plan.as_ref().map_or(arguments.time.as_secs(), |plan| plan.seconds);
    let bar = bar(seconds)?;
    let began = Instant::now();
    let say = |bar: &ProgressBar| {
        let share = 100 * bar.position() / bar.length().unwrap_or_default().max(1);
        format!("{share} % of the simulated time, {}", bar.message())
    };
    let lines = (!arguments.no_progress).then(|| progress::lines(&bar, say));
    let options = options(arguments, &bar)?;
    let summary = match &plan {
        Some(plan) => run_plan(plan, options).with_context(|| cannot_be_run(arguments))?,
        None => arguments.seeded(arguments.seed).run(Neuron::default(), options)?,
    };
    drop(lines);
    bar.finish_and_clear();
    let row =
        Row { command: command(arguments), real_seconds: began.elapsed().as_secs_f64(), plan: None, summary };
    let row = match row.summary.unknown.first().cloned() {
        Some(signature) => failed(arguments, plan, &signature, row),
        None => row,
    };
    show(arguments.output, &row)?;
    if row.summary.unknown.is_empty() && !row.summary.missed_kills.is_empty() {
        bail!("{}; it changed nothing of the run", row.summary.missed_kills.join(", "));
    }
    exit_code(arguments, std::slice::from_ref(&row))
}

/// The command that runs it again.
fn command(arguments: &SimulateArguments) -> String {
    match &arguments.replay {
        Some(path) => format!("neuron-e2e simulate --replay {}{}", path.display(), arguments.besides()),
        None => arguments.command(arguments.seed),
    }
}

fn show(output: Output, row: &Row) -> anyhow::Result<()> {
    match output {
        Output::Json => print::json(row),
        Output::Table => print::line(table(std::slice::from_ref(row))),
    }
}

/// Reads a plan, to whose kills these are added.
fn read(path: &Path, kills: &[(String, u64)]) -> anyhow::Result<Plan> {
    let text = std::fs::read_to_string(path).context("cannot read it")?;
    if let Some(version) = text.strip_prefix(TRACE).and_then(|text| text.split_whitespace().next()) {
        bail!(
            "it is a trace (v{version}; this release writes v{TRACE_VERSION}), which tells what happened; plans are in the folder of --keep-failures"
        );
    }
    let mut plan = Plan::parse(&text)?;
    plan.kills.extend_from_slice(kills);
    possible(&plan)?;
    Ok(plan)
}

fn cannot_be_run(arguments: &SimulateArguments) -> String {
    format!("the plan {} cannot be run", arguments.replay.clone().unwrap_or_default().display())
}

fn bar(seconds: u64) -> anyhow::Result<ProgressBar> {
    let bar = ProgressBar::with_draw_target(Some(seconds), ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template("{bar:40} {percent}% {msg} {eta} left")?);
    Ok(bar)
}

fn options(arguments: &SimulateArguments, bar: &ProgressBar) -> anyhow::Result<RunOptions> {
    let trace = match &arguments.trace {
        Some(path) => {
            let told = || format!("cannot write the trace {}", path.display());
            let mut to = BufWriter::new(File::create(path).with_context(told)?);
            writeln!(to, "{TRACE}{TRACE_VERSION} of {}", command(arguments)).with_context(told)?;
            Some(Sink { to: Box::new(to), from: arguments.trace_from.unwrap_or_default() })
        }
        None => None,
    };
    let told = bar.clone();
    let progress = move |summary: &Summary| {
        told.set_position(summary.seconds);
        told.set_message(format!("{} pods placed", summary.placed));
    };
    #[allow(clippy::needless_update, reason = "a build with planted bugs has one more")]
    Ok(RunOptions {
        known: arguments.known()?,
        trace,
        progress: Some(Box::new(progress)),
        ..arguments.options()
    })
}

/// Keeps the plan of what failed, made smaller.
fn failed(arguments: &SimulateArguments, plan: Option<Plan>, signature: &str, row: Row) -> Row {
    let until = Duration::from_secs(row.summary.seconds + 1);
    let plan = match plan {
        Some(plan) => cut_off(plan, until),
        None => plan_of(&arguments.seeded(arguments.seed), until),
    };
    let plan = if arguments.shrink_for.is_zero() {
        plan
    } else if signature.starts_with(STUCK) {
        print::progress(format_args!(
            "{signature}: the plan is not made smaller; none that is tried would return"
        ));
        plan
    } else {
        print::progress(format_args!("{signature}: the plan is made smaller for {:?}", arguments.shrink_for));
        smaller(plan, signature, arguments.shrink_for, || arguments.options()).plan
    };
    with_plan(row, keep(&arguments.keep_failures, &plan))
}

/// What failed is told whether or not its plan could be kept.
fn with_plan(row: Row, kept: anyhow::Result<PathBuf>) -> Row {
    match kept {
        Ok(path) => Row { plan: Some(path), ..row },
        Err(error) => {
            print::progress(format_args!("{error:#}; the plan is not kept, name another --keep-failures"));
            row
        }
    }
}

/// Writes a plan to a file of its own: other plans of its seed stay.
fn keep(folder: &Path, plan: &Plan) -> anyhow::Result<PathBuf> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let text = plan.to_text();
    let name = format!("seed-{}-{}", plan.seed, plan.kubernetes);
    let mut path = folder.join(format!("{name}.json"));
    let mut number = 1;
    while std::fs::read_to_string(&path).is_ok_and(|there| there != text) {
        number += 1;
        path = folder.join(format!("{name}-{number}.json"));
    }
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use neuron_e2e_simulation::Neuron;
    use simulated_cluster::Seeded;
    use simulated_cluster::profile::Profile;

    use super::*;

    #[test]
    fn a_violation_is_told_though_its_plan_cannot_be_kept() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let plan =
            Seeded::new(7, Profile::Calm, ["trn1.2xlarge"], Duration::from_secs(60)).plan(&Neuron::default());
        let mut summary = Summary::default();
        summary.unknown.push("liveness: a pod waits".to_owned());
        let row = Row { command: String::new(), real_seconds: 1.0, plan: None, summary };
        let row = with_plan(row, keep(&file.path().join("folder"), &plan));
        assert_eq!((row.plan, &*row.summary.unknown[0]), (None, "liveness: a pod waits"));
    }

    #[test]
    fn a_kept_plan_overwrites_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let plan = |kubernetes: &str, seconds| {
            let seeded = Seeded::new(7, Profile::Calm, ["trn1.2xlarge"], Duration::from_secs(seconds));
            Seeded { kubernetes: kubernetes.to_owned(), ..seeded }.plan(&Neuron::default())
        };
        let plans = [plan("1.37", 60), plan("1.34", 60), plan("1.37", 61), plan("1.37", 60)];
        let kept = plans.map(|plan| keep(folder.path(), &plan).unwrap());
        let names = kept.map(|path| path.file_name().unwrap().to_string_lossy().into_owned());
        assert_eq!(names, ["seed-7-1.37.json", "seed-7-1.34.json", "seed-7-1.37-2.json", "seed-7-1.37.json"]);
    }
}
