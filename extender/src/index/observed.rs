//! What the watches show of pods and nodes: the parts that decide. Made by the watches, taken in by the index.

use std::sync::Arc;

use neuron_core::names::Resource;
use neuron_core::pod::BoundPod;
use neuron_core::report::NodeReport;
use neuron_core::request::PodRequest;

/// A pod. The index gets those that ask for Neuron hardware or carry a record.
#[derive(Clone, Debug)]
pub(crate) struct ObservedPod {
    /// The node it is bound to.
    pub(crate) node: Option<Arc<str>>,
    /// Whether kube-scheduler found no node for it, and has no other pods end for it (`status.nominatedNodeName`).
    pub(crate) unschedulable: bool,
    /// The device models that its author wants, as written.
    pub(crate) device_model: Option<String>,
    /// Who makes pods like it; not kept of a pod that is bound.
    pub(crate) owner: Option<Box<Owner>>,
    /// What it asks for and holds.
    pub(crate) pod: Arc<BoundPod>,
}

impl ObservedPod {
    /// Has the pod and its record share this name of the node that it is bound to.
    pub(crate) fn share_node(&mut self, name: &Arc<str>) {
        Arc::make_mut(&mut self.pod).share_node(name);
        self.node = Some(Arc::clone(name));
    }
}

/// The owner that manages a pod, such as its ReplicaSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Such as `ReplicaSet`.
    pub(crate) kind: String,
    /// Its name, in the pod's namespace.
    pub(crate) name: String,
    /// Its UID: an owner that is made anew under the name has another.
    pub(crate) uid: String,
}

/// A node as the watch shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObservedNode {
    /// The node's name.
    pub(crate) name: String,
    /// The value of its instance type label.
    pub(crate) instance_type: Option<String>,
    /// Its device plugin's report, or why that cannot be read. Its text is not kept: it would take as much memory again. So each event of the
    /// node reads it anew, of which kubelet makes one in five minutes at rest.
    pub(crate) report: Option<Result<NodeReport, String>>,
    /// What its device plugin advertises.
    pub(crate) advertised: Advertised,
}

impl ObservedNode {
    /// Reads the value of the annotation with the report.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(crate) fn read_report(text: &str) -> Result<NodeReport, String> {
        // Planted: a report that is too short to be one.
        #[cfg(planted)]
        if runtime::is_planted("garbled-report-panics") {
            let _version = &text[..8];
        }
        NodeReport::parse(text).map_err(|error| error.to_string())
    }
}

/// Which Neuron resources a node has from a device plugin, as kubelet writes it to the node's status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Advertised {
    /// Whether any has a capacity: unhealthy devices count, and those of a plugin that ended in the last five minutes.
    pub(crate) any: bool,
    /// Whether devices are allocatable.
    pub(crate) devices: bool,
    /// Whether cores are allocatable.
    pub(crate) cores: bool,
}

impl Advertised {
    /// Whether the node has everything that is requested, in whatever number. What it has not DRA may give, and only that.
    pub(crate) fn covers(self, request: &PodRequest) -> bool {
        (self.devices || !request.requests(Resource::Device))
            && (self.cores || !request.requests(Resource::Core))
    }
}

/// What a watch shows.
#[derive(Debug)]
pub(crate) enum Change<T> {
    /// A list of all objects begins; what it shows comes with `Listed`.
    ListBegins,
    /// The list is complete: what is not in it is gone.
    Listed(Vec<T>),
    /// Added or modified.
    Applied(T),
    /// The pod of this UID or the node of this name is gone, or nothing about it decides any more.
    Gone(String),
    /// What happens until the next complete list is not known.
    Disconnected,
}
