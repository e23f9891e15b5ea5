//! The nodes of a simulation, as a command line says them.

use std::str::FromStr;

use simulated_cluster::plan::NodePlan;

use crate::machine::Machine;

/// The most nodes: more would not be simulated in a day, and hosts would run out of addresses.
const MOST: usize = 5000;

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
    /// More than can be simulated.
    #[error("{0} nodes are too many; at most {MOST} can be simulated")]
    TooMany(usize),
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
            let all = nodes.len().saturating_add(count);
            if all > MOST {
                return Err(NodesError::TooMany(all));
            }
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
            ("trn1.32xlarge=1,trn1.32xlarge=18446744073709551615", "nodes are too many; at most 5000"),
        ] {
            let error = text.parse::<Nodes>().unwrap_err().to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
