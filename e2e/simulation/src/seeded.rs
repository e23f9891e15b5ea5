//! A simulation by its seed: what a command line says of it, and the plan that comes of that.

use std::str::FromStr;
use std::sync::Arc;

use simulated_cluster::plan::{EventSource, NodePlan, Plan};
use simulated_cluster::profile::{self, Generated, Profile};
use simulated_cluster::{RunOptions, Summary};

use crate::Neuron;
use crate::machine::Machine;

/// A simulation by its seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seeded {
    /// The seed.
    pub seed: u64,
    /// How much happens.
    pub profile: Profile,
    /// The nodes.
    pub nodes: Nodes,
    /// Simulated time, in seconds.
    pub seconds: u64,
    /// The Kubernetes that the cluster is, such as `1.37`.
    pub kubernetes: String,
}

/// The nodes of a simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes(pub Vec<NodePlan>);

/// Nodes that cannot be.
#[derive(Debug, thiserror::Error)]
pub enum NodesError {
    /// It is not of the form.
    #[error("{0:?} is not TYPE=NUMBER, such as trn1.32xlarge=10; give several with commas between them")]
    Form(String),
    /// There is no such machine.
    #[error("{0}")]
    Machine(String),
}

impl Seeded {
    /// The plan, without what happens.
    pub fn plan(&self) -> Plan {
        let Self { seed, profile, nodes, seconds, kubernetes } = self.clone();
        profile::plan(seed, profile, nodes.0, seconds, &kubernetes, &Neuron::default())
    }

    /// What happens in its plan.
    pub fn source(&self) -> Box<dyn EventSource> {
        Box::new(Generated::new(&self.plan(), self.profile, Arc::new(Neuron::default())))
    }

    /// Runs it.
    ///
    /// # Errors
    /// It asks for what cannot be, or the trace could not be written.
    pub fn run(&self, kills: &[(String, u64)], options: RunOptions) -> anyhow::Result<Summary> {
        let plan = Plan { kills: kills.to_vec(), ..self.plan() };
        simulated_cluster::run(&plan, self.source(), Arc::new(Neuron::default()), options)
    }
}

impl FromStr for Nodes {
    type Err = NodesError;

    fn from_str(text: &str) -> Result<Self, NodesError> {
        let mut nodes = Vec::new();
        for part in text.split(',') {
            let form = || NodesError::Form(part.to_owned());
            let (machine, count) = part.split_once('=').ok_or_else(form)?;
            let count: usize = count.parse().map_err(|_| form())?;
            let node = NodePlan { machine: machine.to_owned() };
            Machine::of(&node).map_err(NodesError::Machine)?;
            nodes.extend(std::iter::repeat_n(node, count));
        }
        if nodes.is_empty() { Err(NodesError::Form(text.to_owned())) } else { Ok(Self(nodes)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_read_and_what_is_wrong_is_told() {
        let nodes: Nodes = "trn1.32xlarge=2,trn2.48xlarge:lnc1=1".parse().unwrap();
        let machines: Vec<_> = nodes.0.iter().map(|node| node.machine.as_str()).collect();
        assert_eq!(machines, ["trn1.32xlarge", "trn1.32xlarge", "trn2.48xlarge:lnc1"]);
        for (text, told) in [
            ("trn1.32xlarge", "\"trn1.32xlarge\" is not TYPE=NUMBER"),
            ("trn1.32xlarge=0", "is not TYPE=NUMBER"),
            ("trn9.large=1", "trn9.large"),
            ("trn1.32xlarge:lnc2=1", "give 1 or leave it out"),
        ] {
            let error = text.parse::<Nodes>().unwrap_err().to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
