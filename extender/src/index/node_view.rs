//! One node as filter and bind see it: settled once when its inputs change, then only read.

use std::sync::Arc;

use neuron_core::holders::{NodeFacts, NodeRefusal, Settled, record_counts, settle};
use neuron_core::ids::CoreSet;
use neuron_core::occupancy::Occupancy;
use neuron_core::placement::{self, Placement, Refusal};
use neuron_core::pod::BoundPod;
use neuron_core::report::NodeReport;
use neuron_core::request::PodRequest;
use neuron_core::topology::Topology;

use super::{SeenNode, Shapes};

/// One node.
#[derive(Debug)]
pub(crate) struct NodeView {
    /// Its name.
    pub(crate) name: String,
    standing: Standing,
}

#[derive(Debug)]
enum Standing {
    /// Its shape is known.
    Known {
        settled: Box<Settled>,
        /// What the settled pods hold and what is reserved beside them.
        occupancy: Occupancy,
        /// Why it takes no Neuron pod for now, though its shape is known.
        closed: Option<Denial>,
    },
    /// Its shape is not known.
    Closed { denial: Denial, is_neuron: bool },
}

/// Why a node does not take a pod.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denial {
    /// Placement refuses.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Nobody knows what these pods hold.
    #[error(
        "it is not known yet which devices pod {pods} holds; the node takes no new Neuron pod until its device plugin reports it"
    )]
    UnknownHolder {
        /// The pods, as `namespace/name`, comma separated.
        pods: String,
    },
    /// The node's shape is not known.
    #[error(transparent)]
    NoShape(#[from] NodeRefusal),
    /// The node's report cannot be read.
    #[error("{0}")]
    Report(String),
}

impl Denial {
    /// Whether this node can never serve the pod, so that preemption need not try.
    pub(crate) fn is_permanent(&self) -> bool {
        match self {
            Denial::Refused(refusal) => refusal.is_permanent(),
            Denial::NoShape(refusal) => is_no_neuron_node(refusal),
            Denial::UnknownHolder { .. } | Denial::Report(_) => false,
        }
    }

    /// Whether it may turn out in a moment that the pod fits, so that it is not refused for this.
    pub(crate) fn is_unclear(&self) -> bool {
        matches!(self, Denial::UnknownHolder { .. })
    }
}

/// A node with its report read and its shape worked out: once for every change of the node, not of its pods.
#[derive(Clone, Debug)]
pub(crate) struct ShapedNode {
    /// What the watch shows.
    pub(crate) seen: SeenNode,
    shape: Result<Shape, Denial>,
}

type Shape = (Arc<Topology>, Option<NodeReport>);

impl ShapedNode {
    /// The node with its shape.
    pub(crate) fn new(seen: SeenNode, shapes: &mut Shapes) -> Self {
        Self { shape: shape_of(&seen, shapes), seen }
    }
}

impl NodeView {
    /// Settles a node with the pods bound to it.
    pub(crate) fn new(node: &ShapedNode, pods: &[BoundPod]) -> Self {
        let ShapedNode { seen, shape } = node;
        let standing = match shape {
            Ok((topology, report)) => {
                let topology = Arc::clone(topology);
                let facts = NodeFacts { name: &seen.name, topology, report: report.as_ref(), pods };
                let settled = settle(&facts);
                Standing::Known {
                    occupancy: settled.occupancy.clone(),
                    closed: unknown_holder(&settled),
                    settled: Box::new(settled),
                }
            }
            Err(denial) => {
                let is_neuron = !matches!(denial, Denial::NoShape(refusal) if is_no_neuron_node(refusal));
                Standing::Closed { denial: denial.clone(), is_neuron }
            }
        };
        Self { name: seen.name.clone(), standing }
    }

    /// Has `reserved`, and of what was reserved before only that, held beside what its pods hold.
    pub(crate) fn reserve(&mut self, reserved: CoreSet) {
        if let Standing::Known { settled, occupancy, .. } = &mut self.standing {
            *occupancy = settled.occupancy.clone();
            occupancy.hold(reserved);
        }
    }

    /// Whether the pod fits now.
    pub(crate) fn admits(&self, request: &PodRequest) -> Result<(), Denial> {
        let (occupancy, closed) = self.known()?;
        match (placement::fits(request, occupancy), closed) {
            (Err(refusal), Some(_)) if refusal.is_permanent() => Err(refusal.into()),
            (_, Some(denial)) => Err(denial.clone()),
            (fits, None) => Ok(fits?),
        }
    }

    /// Chooses the pod's hardware.
    pub(crate) fn place(&self, request: &PodRequest) -> Result<(Placement, &Occupancy), Denial> {
        let (occupancy, closed) = self.known()?;
        match closed {
            Some(denial) => Err(denial.clone()),
            None => Ok((placement::place(request, occupancy)?, occupancy)),
        }
    }

    /// Whether the pod, which is bound to this node, has a record that counts.
    pub(crate) fn has_record_of(&self, pod: &BoundPod) -> bool {
        let ignored = self.settled().into_iter().flat_map(|settled| &settled.ignored);
        self.reads_record_of(pod) && !ignored.into_iter().any(|ignored| ignored.uid == pod.uid)
    }

    /// Whether the pod's record, looked at by itself, is one for this node.
    pub(crate) fn reads_record_of(&self, pod: &BoundPod) -> bool {
        self.topology()
            .is_some_and(|topology| matches!(record_counts(pod, &self.name, topology), Ok(Some(_))))
    }

    /// Who holds what; `None` if the node's shape is not known.
    pub(crate) fn settled(&self) -> Option<&Settled> {
        match &self.standing {
            Standing::Known { settled, .. } => Some(settled),
            Standing::Closed { .. } => None,
        }
    }

    /// Its shape; `None` if that is not known.
    pub(crate) fn topology(&self) -> Option<&Arc<Topology>> {
        self.settled().map(|settled| settled.occupancy.topology())
    }

    /// Whether anything says that the node has Neuron devices.
    pub(crate) fn is_neuron(&self) -> bool {
        matches!(self.standing, Standing::Known { .. } | Standing::Closed { is_neuron: true, .. })
    }

    fn known(&self) -> Result<(&Occupancy, Option<&Denial>), Denial> {
        match &self.standing {
            Standing::Known { occupancy, closed, .. } => Ok((occupancy, closed.as_ref())),
            Standing::Closed { denial, .. } => Err(denial.clone()),
        }
    }
}

fn shape_of(node: &SeenNode, shapes: &mut Shapes) -> Result<Shape, Denial> {
    let report = node.report.as_deref().map(NodeReport::parse).transpose();
    let report = report.map_err(|error| Denial::Report(error.to_string()))?;
    Ok((shapes.of(node.instance_type.as_deref(), report.as_ref())?, report))
}

fn is_no_neuron_node(refusal: &NodeRefusal) -> bool {
    matches!(refusal, NodeRefusal::NoType | NodeRefusal::NoShape { .. })
}

fn unknown_holder(settled: &Settled) -> Option<Denial> {
    let mut pods: Vec<&str> = settled.unknown.iter().map(|holder| holder.pod.as_str()).collect();
    pods.sort_unstable();
    (!pods.is_empty()).then(|| Denial::UnknownHolder { pods: pods.join(", ") })
}
