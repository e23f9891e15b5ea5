//! Which shape a node has, from its label and its report. Called wherever a [`crate::holders::NodeFacts`] is made.

use super::{Policy, Topology, TopologyError};
use crate::catalog::Catalog;
use crate::names::INSTANCE_TYPE_LABEL;
use crate::report::NodeReport;

/// Why a node's shape is not known, so that it takes no Neuron pod.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeRefusal {
    /// Neither label nor report.
    #[error(
        "Node has no label {INSTANCE_TYPE_LABEL} and no report of a Neuron device plugin; set the label or run the plugin on it"
    )]
    NoType,
    /// A type whose shape only a report can tell.
    #[error(
        "Instance type {name} is not in the catalog and the node has no report of a Neuron device plugin; run the plugin on it or add the type to the catalog"
    )]
    NoShape {
        /// The type.
        name: String,
    },
    /// The label and the report name different types.
    #[error(
        "Node label {INSTANCE_TYPE_LABEL} says {label}, the node's Neuron device plugin reports {report}; correct the label"
    )]
    Disagree {
        /// What the label says.
        label: String,
        /// What the report says.
        report: String,
    },
    /// The shape cannot be worked out.
    #[error(transparent)]
    Shape(#[from] TopologyError),
}

/// A node's shape: the type from its label, else from its report; LNC from the report, else the type's
/// default. Two names of one type (an alias, `ml.` in front) agree; texts use the label's.
pub fn topology_of(
    label: Option<&str>,
    report: Option<&NodeReport>,
    catalog: &Catalog,
    policy: Policy,
) -> Result<Topology, NodeRefusal> {
    let reported = report.map(|report| report.instance_type.as_str());
    if let (Some(label), Some(reported)) = (label, reported)
        && !same_type(label, reported, catalog)
    {
        return Err(NodeRefusal::Disagree { label: label.to_owned(), report: reported.to_owned() });
    }
    let name = label.or(reported).ok_or(NodeRefusal::NoType)?;
    let known = catalog.find(name).or_else(|| catalog.find(reported?));
    match (known, report) {
        (Some(row), _) => {
            let lnc = report.map_or(row.default_lnc, |report| report.lnc);
            Ok(Topology::named(name, row, lnc, policy)?)
        }
        (None, Some(report)) => Ok(Topology::described(report, policy)?),
        (None, None) => Err(NodeRefusal::NoShape { name: name.to_owned() }),
    }
}

fn same_type(label: &str, reported: &str, catalog: &Catalog) -> bool {
    match (catalog.find(label), catalog.find(reported)) {
        (Some(one), Some(other)) => one.name == other.name,
        (None, None) => label.trim_start_matches("ml.") == reported.trim_start_matches("ml."),
        _ => false,
    }
}
