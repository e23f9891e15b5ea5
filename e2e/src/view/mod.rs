//! A cluster's Neuron nodes and pods as they are now. Who holds what is settled by the rules that the extender and the
//! plugin use. Shown by `cluster status`, checked by `verify`.

pub mod client;
pub mod look;
mod pods;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use neuron_core::catalog::{Catalog, Shape};
use neuron_core::holders::{Holding, NodeFacts, Settled, settle};
use neuron_core::ids::{CoreSet, DeviceSet};
use neuron_core::names;
use neuron_core::occupancy::Occupancy;
use neuron_core::pod::BoundPod;
use neuron_core::report::{Health, NodeReport, Reported};
use neuron_core::topology::{NodeTopologyError, Policy, Topology};
use serde::Serialize;

pub use pods::{Failed, Waiting};

/// Everything that the status shows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct View {
    /// Neuron nodes, by name.
    pub nodes: Vec<NodeView>,
    /// Pods that ask for Neuron devices and have no node.
    pub waiting: Vec<Waiting>,
    /// Pods that ask for Neuron devices and were failed by kubelet, not by their own program.
    pub failed: Vec<Failed>,
}

/// One Neuron node.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeView {
    /// The Node object's name.
    pub name: String,
    /// What it has; left out where that is not known.
    #[serde(flatten)]
    pub hardware: Option<Hardware>,
    /// Who holds what.
    pub holders: Vec<HolderView>,
    /// What is not as it should be.
    pub notes: Vec<String>,
}

/// What a node has.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hardware {
    /// The name of its type, such as `trn1.32xlarge`.
    pub instance_type: String,
    /// Physical cores in one logical core.
    pub lnc: u8,
    /// Logical cores of one device.
    pub cores_per_device: u8,
    /// Its devices, in the order of their ids.
    pub devices: Vec<Device>,
    /// Healthy devices of which nothing is held.
    pub free_devices: DeviceSet,
    /// Logical cores of healthy devices that nobody holds.
    pub free_cores: CoreSet,
    /// The devices as placement sees them.
    #[serde(skip)]
    pub topology: Arc<Topology>,
    /// How they are linked; none where the type is not in the catalog.
    #[serde(skip)]
    pub shape: Option<Shape>,
}

/// One device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Device {
    /// N of `/dev/neuronN`, from 0.
    pub id: u8,
    /// Devices it is linked to.
    pub links: DeviceSet,
    /// Whether new pods may get it.
    pub health: Health,
}

/// A pod that holds devices or cores.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HolderView {
    /// The pod as `namespace/name`.
    pub pod: String,
    /// The pod's `metadata.uid`: another one for a pod of the same name made anew.
    pub uid: String,
    /// Devices it was given as devices, by its record.
    pub devices: DeviceSet,
    /// Logical cores it was given as cores, by its record.
    pub cores: CoreSet,
    /// Every logical core it holds under either name.
    pub held_cores: CoreSet,
    /// Whether it has a record that counts; else only kubelet knows what it was given.
    pub recorded: bool,
    /// `Running`, or what keeps it from that.
    pub state: String,
}

impl View {
    /// A view of all nodes and pods, and of the events about pods that wait.
    pub fn of(nodes: &[Node], pods: &[Pod], events: &[Event]) -> Self {
        let mut on: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
        for pod in pods {
            if let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) {
                on.entry(node).or_default().push(pod);
            }
        }
        let here = |node: &Node| {
            let name = node.metadata.name.as_deref()?;
            NodeView::of(name, node, on.get(name).map(Vec::as_slice).unwrap_or_default())
        };
        let mut nodes: Vec<NodeView> = nodes.iter().filter_map(here).collect();
        nodes.sort_by(|one, other| one.name.cmp(&other.name));
        let waiting = pods::waiting(pods).map(|pod| Waiting::of(pod, events)).collect();
        Self { nodes, waiting, failed: pods.iter().filter_map(Failed::of).collect() }
    }
}

impl NodeView {
    /// None if nothing says that the node has Neuron devices.
    fn of(name: &str, node: &Node, pods: &[&Pod]) -> Option<Self> {
        let mut view =
            Self { name: name.to_owned(), hardware: None, holders: Vec::new(), notes: standing(node) };
        let annotations = node.metadata.annotations.as_ref();
        let report =
            annotations.and_then(|all| all.get(names::NODE_REPORT)).map(|text| NodeReport::parse(text));
        let report = match report.transpose() {
            Ok(report) => report,
            Err(error) => {
                view.notes.push(error.to_string());
                return Some(view);
            }
        };
        let label = node.metadata.labels.as_ref().and_then(|all| all.get(names::INSTANCE_TYPE_LABEL));
        let catalog = Catalog::embedded();
        // Which sets are allowed is not drawn, so the policy does not matter.
        let shaped =
            Topology::of_node(label.map(String::as_str), report.as_ref(), catalog, Policy::Documented);
        let topology = match shaped {
            Ok(topology) => Arc::new(topology),
            Err(NodeTopologyError::NoType) => return None,
            Err(NodeTopologyError::UnknownType { name }) if !catalog.is_known_name(&name) => return None,
            Err(refusal) => {
                view.notes.push(refusal.to_string());
                return Some(view);
            }
        };
        if report.is_none() {
            view.notes.push("No device plugin has reported yet: the node advertises nothing".to_owned());
        }
        let bound: Vec<BoundPod> = pods.iter().map(|pod| pods::bound(pod)).collect();
        let reported = report.as_ref().map(Reported::from);
        let facts = NodeFacts { name, topology, report: reported.as_ref(), pods: &bound };
        view.take(settle(&facts), pods);
        Some(view)
    }

    /// Takes over who holds what.
    fn take(&mut self, mut settled: Settled, pods: &[&Pod]) {
        let ignored = settled.ignored.iter().map(|ignored| format!("{}: {}", ignored.pod, ignored.reason));
        self.notes.extend(ignored);
        self.notes.extend(settled.unknown.iter().map(|holder| {
            let pod = &holder.pod;
            format!(
                "{pod}: it is not known yet which devices it holds; the node takes no new Neuron pod until its device \
                 plugin reports it"
            )
        }));
        settled.holdings.sort_by_key(|holding| (holding.cores.first(), holding.pod.full_name.clone()));
        let of = |holding: &Holding| {
            let pod = pods.iter().find(|pod| pod.metadata.uid.as_deref() == Some(holding.uid()));
            HolderView::of(holding, pod.map(|pod| pods::state(pod)).unwrap_or_default())
        };
        self.holders = settled.holdings.iter().map(of).collect();
        self.hardware = Some(Hardware::of(&settled.occupancy));
    }
}

impl Hardware {
    fn of(occupancy: &Occupancy) -> Self {
        let topology = occupancy.topology();
        let device = |id| Device {
            id,
            links: topology.links(id),
            health: if occupancy.unhealthy().contains(id) { Health::Unhealthy } else { Health::Healthy },
        };
        Self {
            instance_type: topology.instance_type().to_owned(),
            lnc: topology.lnc(),
            cores_per_device: topology.cores_per_device(),
            devices: topology.all_devices().iter().map(device).collect(),
            free_devices: occupancy.free_devices(),
            free_cores: occupancy.free_cores(),
            shape: Catalog::embedded().find(topology.instance_type()).map(|model| model.shape),
            topology: topology.clone(),
        }
    }
}

impl HolderView {
    fn of(holding: &Holding, state: String) -> Self {
        let record = holding.allocation.as_deref();
        Self {
            pod: holding.full_name().to_owned(),
            uid: holding.uid().to_owned(),
            devices: record.map(|record| record.union_devices()).unwrap_or_default(),
            cores: record.map(|record| record.union_cores()).unwrap_or_default(),
            held_cores: holding.cores,
            recorded: record.is_some(),
            state,
        }
    }
}

/// What of the node itself keeps pods away.
fn standing(node: &Node) -> Vec<String> {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.into_iter().any(|known| known.type_ == "Ready" && known.status == "True");
    let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    let notes = [(!ready, "The node is not ready"), (cordoned, "The node is cordoned: it takes no new pod")];
    notes.into_iter().filter(|(is_so, _)| *is_so).map(|(_, note)| note.to_owned()).collect()
}
