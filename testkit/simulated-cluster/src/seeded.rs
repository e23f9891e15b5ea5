//! A simulation by its seed: the shortest way to run one.

use std::sync::Arc;
use std::time::Duration;

use fake_cluster::Version;

use crate::plan::{EventSource, NodePlan, Plan};
use crate::profile::{self, Generated, Profile};
use crate::run::{RunOptions, Summary, run};
use crate::suite::Suite;

/// A simulation by its seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seeded {
    /// The seed.
    pub seed: u64,
    /// How much happens.
    pub profile: Profile,
    /// The nodes; the first is `n1`.
    pub nodes: Vec<NodePlan>,
    /// Simulated time, in seconds.
    pub seconds: u64,
    /// The Kubernetes that the cluster is, such as `1.37`.
    pub kubernetes: String,
    /// Parts that are killed before a poll of their tasks, as in [`Plan::kills`].
    pub kills: Vec<(String, u64)>,
}

impl Seeded {
    /// Nodes of these machines for so long, of the newest Kubernetes.
    pub fn new<'a>(
        seed: u64,
        profile: Profile,
        machines: impl IntoIterator<Item = &'a str>,
        time: Duration,
    ) -> Self {
        let nodes = machines.into_iter().map(|machine| NodePlan { machine: machine.to_owned() }).collect();
        let kubernetes = Version::default().to_string();
        Self { seed, profile, nodes, seconds: time.as_secs(), kubernetes, kills: Vec::new() }
    }

    /// The plan, without what happens.
    pub fn plan(&self, suite: &dyn Suite) -> Plan {
        let nodes = self.nodes.clone();
        let plan = profile::plan(self.seed, self.profile, nodes, self.seconds, &self.kubernetes, suite);
        Plan { kills: self.kills.clone(), ..plan }
    }

    /// What happens in its plan.
    pub fn source(&self, suite: &Arc<dyn Suite>) -> Box<dyn EventSource> {
        Box::new(Generated::new(&self.plan(&**suite), self.profile, Arc::clone(suite)))
    }

    /// Runs it to its end, or to the first violation that is not known.
    ///
    /// # Errors
    /// It asks for what cannot be, such as a machine that the suite does not know; the trace could not be written.
    pub fn run(&self, suite: impl Suite, options: RunOptions) -> anyhow::Result<Summary> {
        let suite: Arc<dyn Suite> = Arc::new(suite);
        run(&self.plan(&*suite), self.source(&suite), suite, options)
    }
}
