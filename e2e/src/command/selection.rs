//! Which scenarios a command is about. Part of the command line of `run`.

use anyhow::bail;
use clap::{Args, ValueEnum};

use neuron_e2e_engine::scenario::{Scenario, Tier, library};

/// The part of a command line that chooses scenarios.
#[derive(Clone, Debug, Args)]
pub(super) struct Selection {
    /// Names of scenarios, or beginnings of names; all of the tier if none is given.
    scenarios: Vec<String>,
    /// Where pods are placed (`placement`, what happens without it), what breaks meanwhile (`faults`), or both; named
    /// scenarios are found in either.
    #[arg(long, value_enum)]
    tier: Option<Tiers>,
    /// How often each scenario runs.
    #[arg(long, default_value_t = 1, value_name = "TIMES")]
    repeat: usize,
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
    /// The scenarios whose names are, or begin with, one of those given, each as often as asked for.
    pub(super) fn scenarios(&self) -> anyhow::Result<Vec<Scenario>> {
        let tiers = match self.tier {
            Some(tiers) => tiers,
            None if self.scenarios.is_empty() => Tiers::Placement,
            None => Tiers::All,
        };
        let mut all = library::all(&Default::default())?;
        all.retain(|scenario| tiers.has(scenario.tier));
        for name in &self.scenarios {
            if !all.iter().any(|scenario| scenario.name.starts_with(name.as_str())) {
                bail!("there is no scenario {name:?}; `neuron-e2e list` shows them");
            }
        }
        // A whole name means that scenario alone, even where others begin with it.
        let is_whole = |name: &str| all.iter().any(|scenario| scenario.name == name);
        let wanted = |scenario: &&Scenario| {
            self.scenarios.is_empty()
                || self.scenarios.iter().any(|name| match is_whole(name) {
                    true => scenario.name == *name,
                    false => scenario.name.starts_with(name.as_str()),
                })
        };
        let chosen = all.iter().filter(wanted);
        Ok(chosen.flat_map(|scenario| std::iter::repeat_n(scenario, self.repeat)).cloned().collect())
    }
}
