//! One simulation, in this process.

use std::fs::File;
use std::io::BufWriter;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use neuron_e2e_simulation::{plan_of, run_plan, smaller};
use simulated_cluster::plan::Plan;
use simulated_cluster::{RunOptions, Summary};
use simulator::Stuck;
use simulator::trace::Sink;

use super::{SimulateArguments, show};
use crate::report::{Output, print};

/// How long a poll may take in real time; one that takes longer does not return.
const POLL_LIMIT: Duration = Duration::from_secs(60);

/// Runs it, and makes the plan of what fails smaller.
pub(super) fn run(arguments: &SimulateArguments) -> anyhow::Result<ExitCode> {
    let plan = arguments.replay.as_deref().map(read).transpose()?;
    let seconds = plan.as_ref().map_or(arguments.time.as_secs(), |plan| plan.seconds);
    let bar = bar(seconds)?;
    let began = Instant::now();
    let options = options(arguments, &bar)?;
    let summary = match &plan {
        Some(plan) => run_plan(plan, options)?,
        None => arguments.seeded(arguments.seed).run(&arguments.kills, options)?,
    };
    bar.finish_and_clear();
    let command = match &arguments.replay {
        Some(path) => format!("neuron-e2e simulate --replay {}", path.display()),
        None => arguments.command(arguments.seed),
    };
    let row = show::Row { command, real_seconds: began.elapsed().as_secs_f64(), plan: None, summary };
    let row = match row.summary.unknown.first().cloned() {
        Some(signature) => failed(arguments, plan, &signature, row)?,
        None => row,
    };
    match arguments.output {
        Output::Json => print::json(&row)?,
        Output::Table => print::line(show::table(std::slice::from_ref(&row)))?,
    }
    show::exit_code(arguments, std::slice::from_ref(&row))
}

fn read(path: &std::path::Path) -> anyhow::Result<Plan> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read the plan {}", path.display()))?;
    Plan::parse(&text).with_context(|| format!("the plan {} cannot be run", path.display()))
}

fn bar(seconds: u64) -> anyhow::Result<ProgressBar> {
    let bar = ProgressBar::with_draw_target(Some(seconds), ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template("{bar:40} {percent}% {msg} {eta} left")?);
    Ok(bar)
}

fn options(arguments: &SimulateArguments, bar: &ProgressBar) -> anyhow::Result<RunOptions> {
    let trace = match &arguments.trace {
        Some(path) => {
            let file =
                File::create(path).with_context(|| format!("cannot write the trace {}", path.display()))?;
            let from = arguments.trace_from.unwrap_or_default();
            Some(Sink { to: Box::new(BufWriter::new(file)), from })
        }
        None => None,
    };
    let told = bar.clone();
    let progress = move |summary: &Summary| {
        told.set_position(summary.seconds);
        told.set_message(format!("{} pods placed", summary.placed));
    };
    let command = arguments.command(arguments.seed);
    let tell = move |stuck: Stuck| {
        let time = simulator::trace::Time(stuck.elapsed);
        print::progress(format_args!("{time}: a poll of {} does not return; {command}", stuck.part));
        // Nothing ends a thread that does not yield.
        std::process::abort();
    };
    Ok(RunOptions {
        known: arguments.known()?,
        trace,
        watchdog: Some((POLL_LIMIT, Box::new(tell))),
        progress: Some(Box::new(progress)),
    })
}

/// Keeps the plan of what failed, made smaller.
fn failed(
    arguments: &SimulateArguments,
    plan: Option<Plan>,
    signature: &str,
    row: show::Row,
) -> anyhow::Result<show::Row> {
    let until = Duration::from_secs(row.summary.seconds + 1);
    let plan = plan.unwrap_or_else(|| plan_of(&arguments.seeded(arguments.seed), &arguments.kills, until));
    let plan = if arguments.shrink_for.is_zero() {
        plan
    } else {
        print::progress(format_args!("{signature}: the plan is made smaller for {:?}", arguments.shrink_for));
        smaller(plan, signature, arguments.shrink_for).plan
    };
    let folder = &arguments.keep_failures;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let path = folder.join(format!("seed-{}.json", plan.seed));
    std::fs::write(&path, plan.to_text()).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(show::Row { plan: Some(path), ..row })
}
