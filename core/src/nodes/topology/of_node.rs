//! Which topology a node has, by its label and its report. Called wherever a [`crate::holders::NodeFacts`] is made.

use super::{Policy, Topology, TopologyError};
use crate::catalog::Catalog;
use crate::names::INSTANCE_TYPE_LABEL;
use crate::report::NodeReport;

/// Why a node's topology is not known, so that it takes no Neuron pod.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeTopologyError {
    /// The node has neither a label nor a report.
    #[error(
        "Node has no label {INSTANCE_TYPE_LABEL} and no report of a Neuron device plugin; set the label or run the plugin on it"
    )]
    NoType,
    /// An instance type that is not in the catalog, on a node without a report.
    #[error(
        "Instance type {name} is not in the catalog and the node has no report of a Neuron device plugin; run the plugin on it or add the type to the catalog"
    )]
    UnknownType {
        /// The name of the type.
        name: String,
    },
    /// The label and the report name different instance types.
    #[error(
        "Node label {INSTANCE_TYPE_LABEL} says {label}, the node's Neuron device plugin reports {report}; correct the label"
    )]
    Disagree {
        /// What the label says.
        label: String,
        /// What the report says.
        report: String,
    },
    /// The type cannot run at the reported LNC, or the report says what no node has.
    #[error(transparent)]
    Topology(#[from] TopologyError),
}

impl Topology {
    /// The topology of a node with this [`INSTANCE_TYPE_LABEL`] and report: the type by the label, else by the
    /// report; LNC by the report, else the type's default. Two names of one type (an alias, `ml.` in front) agree;
    /// texts use the label's.
    ///
    /// # Errors
    /// [`NodeTopologyError`] if the type is unknown or contradictory, or cannot be as reported.
    pub fn of_node(
        label: Option<&str>,
        report: Option<&NodeReport>,
        catalog: &Catalog,
        policy: Policy,
    ) -> Result<Topology, NodeTopologyError> {
        let reported = report.map(|report| report.instance_type.as_str());
        if let (Some(label), Some(reported)) = (label, reported)
            && !is_same_type(label, reported, catalog)
        {
            return Err(NodeTopologyError::Disagree { label: label.to_owned(), report: reported.to_owned() });
        }
        let name = label.or(reported).ok_or(NodeTopologyError::NoType)?;
        let known = catalog.find(name).or_else(|| catalog.find(reported?));
        match (known, report) {
            (Some(row), _) => {
                let lnc = report.map_or(row.default_lnc, |report| report.lnc);
                Ok(Topology::named(name, row, lnc, policy)?)
            }
            (None, Some(report)) => Ok(Topology::of_report(report)?),
            (None, None) => Err(NodeTopologyError::UnknownType { name: name.to_owned() }),
        }
    }
}

fn is_same_type(label: &str, reported: &str, catalog: &Catalog) -> bool {
    match (catalog.find(label), catalog.find(reported)) {
        (Some(one), Some(other)) => one.name == other.name,
        (None, None) => label.trim_start_matches("ml.") == reported.trim_start_matches("ml."),
        _ => false,
    }
}
