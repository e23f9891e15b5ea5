//! `neuron-e2e simulate`: the suite in simulated time, by a seed or by a plan.

mod many;
mod one;
#[cfg(planted)]
mod planted;
mod show;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use neuron_e2e_engine::embedded::Version;
use neuron_e2e_simulation::{Neuron, Nodes};
use simulated_cluster::observer::Known;
use simulated_cluster::plan::Plan;
use simulated_cluster::profile::Profile;
use simulated_cluster::{RunOptions, Seeded};

use crate::report::Output;

/// The command line of `neuron-e2e simulate`.
#[derive(Clone, Debug, Args)]
pub(super) struct SimulateArguments {
    /// Everything random comes from it: the same seed is the same run.
    #[arg(long, default_value_t = 0, conflicts_with_all = ["seeds", "replay"])]
    seed: u64,
    /// Seeds from A to below B, one after the other on each processor.
    #[arg(long, value_name = "A..B", value_parser = seeds, conflicts_with = "replay")]
    seeds: Option<std::ops::Range<u64>>,
    /// Begins no other seed after so much real time.
    #[arg(long, value_name = "TIME", value_parser = some_time, requires = "seeds")]
    within: Option<Duration>,
    /// Simulated time, such as 24h, 90m or 30d.
    #[arg(long = "for", default_value = "24h", value_name = "TIME", value_parser = some_time)]
    time: Duration,
    /// The nodes, such as trn1.32xlarge=10,trn2.48xlarge:lnc1=2.
    #[arg(long, default_value = "trn1.32xlarge=2,inf2.48xlarge=1", value_name = "TYPE=NUMBER,..")]
    nodes: Nodes,
    /// How much happens: calm, churn or chaos.
    #[arg(long, default_value_t)]
    profile: Profile,
    /// Kubernetes version that the cluster is, 1.34 or 1.37.
    #[arg(long, value_name = "VERSION", default_value_t)]
    kubernetes: Version,
    /// Kills a part before a poll of its tasks, by its number from 1, such as extender:1234 or plugin/n1:500.
    #[arg(long = "kill", value_name = "PART:POLL", value_parser = kill)]
    kills: Vec<(String, u64)>,
    /// Runs a plan from a file in place of a seed's; kills are added to its own.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["time", "nodes", "profile", "kubernetes"])]
    replay: Option<PathBuf>,
    /// Writes every event to a file, after a line that says what was run.
    #[arg(long, value_name = "FILE", conflicts_with = "seeds")]
    trace: Option<PathBuf>,
    /// Leaves out events of the trace before this time.
    #[arg(long, value_name = "TIME", value_parser = time, requires = "trace")]
    trace_from: Option<Duration>,
    /// Folder for the plans of what fails, made smaller.
    #[arg(long, value_name = "DIR", default_value = "simulation-failures")]
    keep_failures: PathBuf,
    /// How long a plan that fails is made smaller, in real time; 0s leaves it as it is.
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = time)]
    shrink_for: Duration,
    /// Has the programs have a bug, to see what finds it; --planted list tells them all.
    #[cfg(planted)]
    #[arg(long, value_name = "NAME", value_parser = planted::names())]
    planted: Option<String>,
    /// Treats a violation that is known, by its signature, as if it were not: its plan is kept and made smaller.
    #[arg(long, value_name = "SIGNATURE", value_parser = known_signature)]
    unknown: Vec<String>,
    /// Fails if a fault or a recovery branch was never reached.
    #[arg(long)]
    every_branch: bool,
    /// Says nothing of how far it is: nobody reads what each of many seeds would say.
    #[arg(long, hide = true)]
    no_progress: bool,
    /// How to print what came of it.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// The longest simulated time: clocks and times of objects are of the years that people count.
const LONGEST: Duration = Duration::from_secs(3650 * 86_400);

/// Runs the simulation. Exit code 1 if something must not be that nobody knows.
pub(super) fn run(arguments: SimulateArguments) -> anyhow::Result<ExitCode> {
    #[cfg(planted)]
    if arguments.planted.as_deref() == Some(planted::LIST) {
        return planted::list(arguments.output);
    }
    if arguments.replay.is_none() {
        if let Some(from) = arguments.trace_from.filter(|from| *from >= arguments.time) {
            anyhow::bail!(
                "nothing is traced from {from:?} on: --for ends the run after {:?}",
                arguments.time
            );
        }
        possible(&arguments.seeded(arguments.seed).plan(&Neuron::default()))?;
    }
    match &arguments.seeds {
        Some(seeds) => many::run(&arguments, seeds.clone()),
        None => one::run(&arguments),
    }
}

/// Looks whether a plan asks for what there is, before anything is run or written.
fn possible(plan: &Plan) -> anyhow::Result<()> {
    match plan.problem_with(&Neuron::default()) {
        Some(problem) => anyhow::bail!(problem),
        None => Ok(()),
    }
}

impl SimulateArguments {
    /// The violations that are known.
    fn known(&self) -> anyhow::Result<Vec<Known>> {
        let mut known = neuron_e2e_simulation::known()?;
        known.retain(|known| !self.unknown.iter().any(|signature| known.is(signature)));
        Ok(known)
    }

    fn seeded(&self, seed: u64) -> Seeded {
        Seeded {
            seed,
            profile: self.profile,
            nodes: self.nodes.0.clone(),
            seconds: self.time.as_secs(),
            kubernetes: self.kubernetes.to_string(),
            kills: self.kills.clone(),
        }
    }

    /// The command that runs a seed again.
    fn command(&self, seed: u64) -> String {
        let nodes: Vec<String> = counted(&self.nodes);
        let mut command = format!(
            "neuron-e2e simulate --seed {seed} --for {}s --nodes {} --profile {}",
            self.time.as_secs(),
            nodes.join(","),
            self.profile
        );
        if self.kubernetes != Version::default() {
            command.push_str(&format!(" --kubernetes {}", self.kubernetes));
        }
        command + &self.besides()
    }

    /// What is added to a seed or a plan, as on the command line.
    fn besides(&self) -> String {
        let kills = self.kills.iter().map(|(part, poll)| format!(" --kill {part}:{poll}"));
        let unknown = self.unknown.iter().map(|signature| format!(" --unknown '{signature}'"));
        kills.chain(unknown).collect::<String>() + &self.planting()
    }

    /// What a run needs beside its plan.
    fn options(&self) -> RunOptions {
        RunOptions {
            #[cfg(planted)]
            planted: self.planted.clone(),
            ..RunOptions::default()
        }
    }

    /// The planted bug as on the command line, empty if there is none.
    fn planting(&self) -> String {
        #[cfg(planted)]
        if let Some(bug) = &self.planted {
            return format!(" --planted {bug}");
        }
        String::new()
    }
}

/// Nodes as on the command line.
fn counted(nodes: &Nodes) -> Vec<String> {
    let mut counted: Vec<(&str, usize)> = Vec::new();
    for node in &nodes.0 {
        match counted.last_mut() {
            Some((machine, count)) if *machine == node.machine => *count += 1,
            _ => counted.push((&node.machine, 1)),
        }
    }
    counted.into_iter().map(|(machine, count)| format!("{machine}={count}")).collect()
}

fn seeds(text: &str) -> anyhow::Result<std::ops::Range<u64>> {
    let wrong = || format!("{text:?} is not A..B, two numbers such as 0..300");
    let (from, to) = text.split_once("..").with_context(wrong)?;
    let number = |text: &str| text.parse::<u64>().ok().with_context(wrong);
    let seeds = number(from)?..number(to)?;
    anyhow::ensure!(!seeds.is_empty(), "there is no seed in {text}; the first must be below the second");
    Ok(seeds)
}

fn time(text: &str) -> anyhow::Result<Duration> {
    let wrong = || format!("{text:?} is no time; write a number with s, m, h or d, such as 24h");
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).with_context(wrong)?;
    let number: u64 = number.parse().ok().with_context(wrong)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => anyhow::bail!(wrong()),
    };
    Ok(Duration::from_secs(number.saturating_mul(seconds)))
}

fn some_time(text: &str) -> anyhow::Result<Duration> {
    let time = time(text)?;
    anyhow::ensure!(!time.is_zero(), "nothing happens in no time; the shortest is 1s");
    anyhow::ensure!(
        time <= LONGEST,
        "nobody waits for that; the longest is {} days",
        LONGEST.as_secs() / 86_400
    );
    Ok(time)
}

fn known_signature(text: &str) -> anyhow::Result<String> {
    let known = neuron_e2e_simulation::known()?;
    if known.iter().any(|known| known.is(text)) {
        return Ok(text.to_owned());
    }
    let all: Vec<String> = known.iter().map(|known| format!("{:?}", known.signature)).collect();
    let there_is = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
    anyhow::bail!("no such violation is known; known is {there_is}")
}

fn kill(text: &str) -> anyhow::Result<(String, u64)> {
    let wrong = || format!("{text:?} is not PART:POLL, such as extender:1234");
    let (part, poll) = text.rsplit_once(':').with_context(wrong)?;
    let poll = poll.parse().ok().filter(|poll| *poll > 0).with_context(wrong)?;
    Ok((part.to_owned(), poll))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_seeds_and_kills_are_read_and_what_is_wrong_is_told() {
        assert_eq!(time("90m").unwrap(), Duration::from_secs(5400));
        assert_eq!(seeds("3..5").unwrap(), 3..5);
        assert_eq!(kill("plugin/n1:500").unwrap(), ("plugin/n1".to_owned(), 500));
        for wrong in ["", "h", "24", "-1h", "1w"] {
            assert!(time(wrong).unwrap_err().to_string().contains("is no time"), "{wrong}");
        }
        assert!(
            seeds("5..5").is_err()
                && seeds("5").is_err()
                && kill("extender").is_err()
                && kill("e:0").is_err()
        );
    }
}
