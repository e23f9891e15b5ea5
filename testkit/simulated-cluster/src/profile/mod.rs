//! Makes plans of a seed: how much happens, and what goes wrong.

mod binds;
mod faults;
mod pods;
mod series;
mod settings;

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use simulator::random::{Rng, stream};

use self::faults::Kind;
use crate::plan::{Event, EventSource, NodePlan, PLAN_VERSION, Plan, Settings, What};
use crate::suite::Suite;

/// How much happens. Each hour ends with a rest, after which everything is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Few pods, and nothing goes wrong.
    Calm,
    /// 30 pods an hour and node, and now and then a part is restarted.
    #[default]
    Churn,
    /// 10 pods an hour and node, and everything goes wrong.
    Chaos,
}

/// A text that names no profile.
#[derive(Debug, thiserror::Error)]
#[error("there is no profile {0:?}; there are calm, churn and chaos")]
pub struct UnknownProfile(String);

/// Milliseconds of an hour.
const HOUR: u64 = 3_600_000;
/// How long a rest lasts, in seconds: kube-scheduler tries again every five minutes, and a Binding that was cut off keeps its
/// devices for one.
const REST: u32 = 900;
/// When the rest of an hour begins, in milliseconds: all faults are over by then, and no pod comes in it.
const REST_BEGINS: u64 = 40 * 60_000;

impl Profile {
    /// Pods that come in an hour, for each node.
    fn pods(self) -> u64 {
        match self {
            Profile::Calm => 3,
            Profile::Churn => 30,
            Profile::Chaos => 10,
        }
    }

    /// How long a pod runs at most, in seconds, that does not stay: `churn` is of clusters where most pods find their place, `chaos` of
    /// full ones.
    fn longest_run(self) -> u32 {
        match self {
            Profile::Calm | Profile::Chaos => 1800,
            Profile::Churn => 900,
        }
    }

    /// Of how many long pods of an hour whose rest is still one runs past it. Such pods run some four times as long as others: where
    /// many pods come, they would fill the cluster for the whole hour.
    fn long_pods_for_one_still(self) -> u8 {
        match self {
            Profile::Calm | Profile::Chaos => 1,
            Profile::Churn => 5,
        }
    }

    /// How many shapes of pods that no node could ever run are drawn for an hour, at most, but for pods made anew under their names.
    /// kube-scheduler tries such pods again with whatever happens: where much happens, more would be most of what it does.
    fn hopeless_shapes(self) -> usize {
        match self {
            Profile::Calm | Profile::Chaos => usize::MAX,
            Profile::Churn => 12,
        }
    }
}

/// The plan of a seed, without what happens: that is [`Generated`]'s.
pub fn plan(
    seed: u64,
    profile: Profile,
    nodes: Vec<NodePlan>,
    seconds: u64,
    kubernetes: &str,
    suite: &dyn Suite,
) -> Plan {
    let (mut draws, mut cluster) =
        (stream(seed, "settings"), stream(seed, "settings of the cluster's parts"));
    Plan {
        v: PLAN_VERSION,
        seed,
        kubernetes: kubernetes.to_owned(),
        seconds,
        nodes,
        settings: settings::draw(profile, &mut draws, &mut cluster, suite),
        kills: Vec::new(),
        events: Vec::new(),
    }
}

/// What happens in a plan of a seed, hour by hour: the same for the same seed, profile and nodes.
pub struct Generated {
    seed: u64,
    profile: Profile,
    nodes: Vec<NodePlan>,
    settings: Settings,
    suite: Arc<dyn Suite>,
    hour: u64,
    seconds: u64,
    /// What may go wrong, and how often beside the others.
    kinds: Vec<(Kind, u32)>,
    /// Pods named so far.
    named: u64,
    /// Shapes that no node could ever run and that may yet be drawn in this hour.
    hopeless_left: usize,
    /// Pods that run until they are deleted.
    staying: VecDeque<String>,
    /// Owners that are there.
    owners: VecDeque<String>,
}

impl Generated {
    /// What happens in the plan.
    pub fn new(plan: &Plan, profile: Profile, suite: Arc<dyn Suite>) -> Self {
        Self {
            seed: plan.seed,
            profile,
            nodes: plan.nodes.clone(),
            settings: plan.settings.clone(),
            suite,
            hour: 0,
            seconds: plan.seconds,
            kinds: Kind::of_seed(&mut stream(plan.seed, "kinds of faults")),
            named: 0,
            hopeless_left: 0,
            staying: VecDeque::new(),
            owners: VecDeque::new(),
        }
    }

    fn draws(&self, kind: &str) -> Rng {
        stream(self.seed, &format!("{kind} of hour {}", self.hour))
    }
}

impl EventSource for Generated {
    fn next_hour(&mut self) -> Option<Vec<Event>> {
        let begins = self.hour * HOUR;
        if begins >= self.seconds * 1000 {
            return None;
        }
        let mut events = self.pods_of_hour(REST_BEGINS);
        events.extend(self.faults_of_hour(REST_BEGINS));
        events.push(Event { at: REST_BEGINS, what: What::Rest { seconds: REST } });
        // The order of equal times is that in which they were made.
        events.sort_by_key(|event| event.at);
        for event in &mut events {
            event.at += begins;
        }
        events.retain(|event| event.at < self.seconds * 1000);
        self.hour += 1;
        Some(events)
    }
}

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(text: &str) -> Result<Self, UnknownProfile> {
        match text {
            "calm" => Ok(Profile::Calm),
            "churn" => Ok(Profile::Churn),
            "chaos" => Ok(Profile::Chaos),
            _ => Err(UnknownProfile(text.to_owned())),
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Profile::Calm => "calm",
            Profile::Churn => "churn",
            Profile::Chaos => "chaos",
        })
    }
}
