//! Which scenarios a command is about. Part of the command line of `run`.

use std::iter::repeat_n;
use std::path::Path;

use anyhow::bail;
use clap::{Args, ValueEnum};
use neuron_e2e_engine::scenario::{CatalogSource, Scenario, Tier, library};

use super::catalog::CatalogArguments;
use super::suggest::did_you_mean;

/// The part of a command line that chooses scenarios.
#[derive(Clone, Debug, Args)]
pub(super) struct Selection {
    /// Names of scenarios, beginnings of names, or scenario files (`FILE.yaml`, of the fault tier in a folder `faults` or
    /// `endurance`); all of the tier if none is given.
    #[arg(value_name = "SCENARIO|FILE")]
    scenarios: Vec<String>,
    /// Where pods are placed (`placement`, what happens without it), what breaks meanwhile (`faults`), or both; named
    /// scenarios are found in either.
    #[arg(long, value_enum)]
    tier: Option<Tiers>,
    /// How often each scenario runs.
    #[arg(long, default_value_t = 1, value_name = "TIMES")]
    repeat: usize,
    /// The instance types that the scenarios may name.
    #[command(flatten)]
    pub(super) catalog: CatalogArguments,
}

/// Tiers to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Tiers {
    /// Where pods are placed and what they get.
    Placement,
    /// What breaks and comes back meanwhile.
    Faults,
    /// Every scenario.
    All,
}

impl Tiers {
    fn has(self, tier: Tier) -> bool {
        match self {
            Tiers::Placement => tier == Tier::Placement,
            Tiers::Faults => tier == Tier::Faults,
            Tiers::All => true,
        }
    }
}

impl Selection {
    /// The scenarios whose names are, or begin with, one of those given, and those of the files, each as often as asked for.
    ///
    /// # Errors
    /// A name or a file that is none; the name that was meant, where one is alike.
    pub(super) fn scenarios(&self) -> anyhow::Result<Vec<Scenario>> {
        let catalog = self.catalog.read()?;
        let (files, names): (Vec<&String>, Vec<&String>) =
            self.scenarios.iter().partition(|given| is_file(given));
        let mut chosen =
            if names.is_empty() && !files.is_empty() { Vec::new() } else { self.named(&names, &catalog)? };
        for file in files {
            chosen.extend(library::read(Path::new(file), &catalog)?);
        }
        Ok(chosen.iter().flat_map(|scenario| repeat_n(scenario, self.repeat)).cloned().collect())
    }

    /// Scenarios of the suite, in its order: those of these names, or all of the tier.
    fn named(&self, names: &[&String], catalog: &CatalogSource) -> anyhow::Result<Vec<Scenario>> {
        let tiers = self.tier.unwrap_or(if names.is_empty() { Tiers::Placement } else { Tiers::All });
        let mut all = library::all(catalog)?;
        for name in names {
            let meant: Vec<&Scenario> =
                all.iter().filter(|one| one.name.starts_with(name.as_str())).collect();
            if meant.is_empty() {
                if Path::new(name).exists() {
                    bail!("{name} is no scenario file: the name of one ends in .yaml");
                }
                bail!("there is no scenario {name:?}{} `neuron-e2e list` shows all", suggestion(name, &all));
            }
            if !meant.iter().any(|scenario| tiers.has(scenario.tier)) {
                let tier = meant.first().map(|scenario| scenario.tier.name()).unwrap_or_default();
                bail!("scenario {name:?} is of tier {tier}; leave --tier out, or give --tier {tier}");
            }
        }
        all.retain(|scenario| tiers.has(scenario.tier));
        // A whole name means that scenario alone, even where others begin with it.
        let is_whole = |name: &str| all.iter().any(|scenario| scenario.name == name);
        let is_wanted = |scenario: &Scenario| {
            names.is_empty()
                || names.iter().any(|name| match is_whole(name) {
                    true => scenario.name == **name,
                    false => scenario.name.starts_with(name.as_str()),
                })
        };
        Ok(all.iter().filter(|scenario| is_wanted(scenario)).cloned().collect())
    }
}

/// Whether an argument is a scenario file and not a name, which has no ending.
fn is_file(given: &str) -> bool {
    Path::new(given).extension().is_some_and(|ending| ending == "yaml" || ending == "yml")
}

/// Names that are like this one, also those of files whose scenarios have an ending each: `every-type`.
fn suggestion(name: &str, all: &[Scenario]) -> String {
    let whole = all.iter().map(|scenario| scenario.name.as_str());
    let files = whole.clone().filter_map(|name| name.split_once('/').map(|(file, _)| file));
    did_you_mean(name, files.chain(whole))
}
