//! What is simulated: a vendor's hardware, device plugin, extender and pods. Whoever wants their own in a simulated cluster
//! implements [`Suite`]; everything else here knows only Kubernetes.
//!
//! Two methods have to be written: [`Suite::programs`] and [`Suite::run`]. The others have defaults for the plain case, in
//! which every id of a [`Suite::resources`] is a device of its own and pods have one container. A device plugin adds what its
//! resource is, and [`Suite::units`], which reads what its Allocate gave; an extender adds [`Suite::extenders`].

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use fake_cluster::kubelet::{ContainerRun, ContainerStart};
use fake_cluster::scheduler::ExtenderConfig;
use futures::future::BoxFuture;
use serde_json::Value;
use simulator::random::Rng;
use simulator::{Host, Process};
use tokio_util::sync::CancellationToken;

use crate::observer::{PodTruth, Truth};
use crate::plan::{NodePlan, Place, Settings};
use crate::resource;
pub use crate::resource::{Resource, container_run, one_container, units_of_ids};
pub use crate::units::Units;

/// Where one process of a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunsOn {
    /// One on the control plane's host.
    Control,
    /// One on every node.
    EveryNode,
}

/// A program of the suite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its name, such as `extender`.
    pub name: &'static str,
    /// Where it runs.
    pub runs_on: RunsOn,
    /// The port that it listens on for others, if any.
    pub port: Option<u16>,
}

/// What a program is started with.
pub struct Start {
    /// Which program.
    pub program: &'static str,
    /// Where.
    pub place: Place,
    /// Its process: its files, sockets and tasks.
    pub process: Process,
    /// Its way to the API server.
    pub client: kube::Client,
    /// The node's name; empty on the control plane.
    pub node: String,
    /// What kind of node it is; none on the control plane.
    pub machine: Option<NodePlan>,
    /// kubelet's folder on a node.
    pub kubelet_dir: PathBuf,
    /// The plan's settings, the programs' time-outs among them.
    pub settings: Settings,
    /// Cancelled when the program is asked to end, as by SIGTERM. One that has not ended half a minute later is killed.
    pub shutdown: CancellationToken,
}

/// A device of a node that broke, or was mended.
pub struct DeviceFault<'a> {
    /// The node's host, whose files show it.
    pub host: &'a Host,
    /// What kind of node it is.
    pub node: &'a NodePlan,
    /// The device.
    pub device: u32,
    /// What about it, as the plan calls it.
    pub fault: &'a str,
    /// Whether it breaks; else it is mended.
    pub breaks: bool,
}

/// Something about a whole machine that went wrong, or was put right.
pub struct MachineFault<'a> {
    /// The node's host, whose files show it.
    pub host: &'a Host,
    /// What kind of node it is.
    pub node: &'a NodePlan,
    /// What, as the plan calls it.
    pub fault: &'a str,
    /// Whether it goes wrong; else it is put right.
    pub breaks: bool,
}

/// The units that kubelet's books give containers of a node, by pod UID and container.
pub type Books = BTreeMap<(String, String), Units>;

/// A vendor's hardware, programs and pods, in a simulated cluster.
pub trait Suite: Send + Sync + 'static {
    /// The programs, in the order in which they are started.
    fn programs(&self) -> Vec<Program>;

    /// Whether a program of the control plane runs on each of its two hosts, and not on the first alone.
    fn has_replicas(&self, _program: &Program, _settings: &Settings) -> bool {
        false
    }

    /// Where the replica of a program is that leads, by an object that was just written, such as its Lease: calls go there and to no
    /// other soon after.
    fn leader(&self, _kind: &str, _name: &str, _object: &Value) -> Option<Place> {
        None
    }

    /// Runs a program until it ends by itself, which it should not.
    fn run(&self, start: Start) -> BoxFuture<'static, anyhow::Result<()>>;

    /// What kube-scheduler asks. Connections to a port of `service` go to a process of the suite that listens on it on the
    /// control plane.
    fn extenders(&self, _service: Ipv4Addr, _settings: &Settings) -> Vec<ExtenderConfig> {
        Vec::new()
    }

    /// Resources of a node whose every id is a device of its own: the defaults of the other methods are about them.
    fn resources(&self, _node: &NodePlan) -> Vec<Resource> {
        Vec::new()
    }

    /// Makes a node's machine in its host's files; one that is there is replaced.
    ///
    /// # Errors
    /// There is no such machine; the text says which there are.
    fn make_machine(&self, _host: &Host, _name: &str, _node: &NodePlan) -> Result<(), String> {
        Ok(())
    }

    /// A pod of a shape that is drawn, which these nodes could run, with a container that ends by itself after so many
    /// seconds, or never.
    fn pod(&self, draws: &mut Rng, nodes: &[NodePlan], ends_after: Option<u32>) -> Value {
        let resources = draws.choice(nodes).map(|node| self.resources(node)).unwrap_or_default();
        resource::pod(draws, &resources, ends_after)
    }

    /// Number of devices of a node.
    fn devices(&self, node: &NodePlan) -> u32 {
        self.resources(node).iter().map(|resource| resource.ids.len() as u32).sum()
    }

    /// What can break about a device of a node.
    fn device_faults(&self, _node: &NodePlan) -> Vec<&'static str> {
        Vec::new()
    }

    /// What can go wrong with the whole machine of a node, and whether seeds may draw it; what they may not is for plans alone.
    fn machine_faults(&self, _node: &NodePlan) -> Vec<(&'static str, bool)> {
        Vec::new()
    }

    /// Has something go wrong with a node's machine in its host's files, or puts it right.
    ///
    /// # Errors
    /// There is no such fault.
    fn set_machine(&self, fault: MachineFault<'_>) -> Result<(), String> {
        Err(format!("a machine cannot have {}; implement Suite::set_machine", fault.fault))
    }

    /// What people edit by hand on a pod that runs.
    fn pod_edits(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// The merge patch by which somebody edits a pod by hand; none if there is nothing to edit.
    fn edit_pod(&self, _node: &NodePlan, _pod: &Value, _what: &str) -> Option<Value> {
        None
    }

    /// Whether a container that starts now may have been given what a container of a pod that has ended or is gone still has, because
    /// nobody could see that one. `pod` is the pod of the new one.
    fn may_share_with_gone(&self, _node: &str, _pod: &PodTruth, _now: Duration) -> bool {
        false
    }

    /// What people edit by hand on a node.
    fn edits(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// The programs' own time-outs and the like, in milliseconds: each time the same names, which are those that a plan may have.
    fn draw_settings(&self, _draws: &mut Rng) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }

    /// What is wrong with a setting of this name that it has: none where the program can run with it.
    fn problem_of_setting(&self, _name: &str, _value: u64) -> Option<String> {
        None
    }

    /// Labels of the node.
    fn node_labels(&self, _node: &NodePlan) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// The units of a device.
    fn units_of_device(&self, _node: &NodePlan, device: u32) -> Units {
        Units::from([device])
    }

    /// Breaks or mends a device in its host's files.
    ///
    /// # Errors
    /// There is no such device or fault.
    fn set_device(&self, fault: DeviceFault<'_>) -> Result<(), String> {
        Err(format!("a device cannot be {}; implement Suite::set_device", fault.fault))
    }

    /// The merge patch by which somebody edits a Node by hand, and the one that puts it right; none if there is no such edit.
    fn edit(&self, _node: &NodePlan, _what: &str) -> Option<(Value, Value)> {
        None
    }

    /// What a container does that was started with this.
    fn container(&self, start: &ContainerStart) -> ContainerRun {
        container_run(start)
    }

    /// The units that a container really has, by what it was started with. The default takes kubelet's word for it: with a
    /// device plugin of your own, read what it gave, such as environment and device nodes.
    ///
    /// # Errors
    /// Its environment and device nodes contradict each other; the text says how.
    fn units(&self, node: &NodePlan, start: &ContainerStart) -> Result<Units, String> {
        let units = start.ids.iter().map(|(resource, ids)| self.units_of_ids(node, resource, ids));
        Ok(units.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    /// The units that kubelet's books give a container by ids of a resource.
    ///
    /// # Errors
    /// An id that the node does not have.
    fn units_of_ids(&self, node: &NodePlan, resource: &str, ids: &BTreeSet<String>) -> Result<Units, String> {
        units_of_ids(&self.resources(node), resource, ids.iter().map(String::as_str))
    }

    /// Whether the pod can run on a node of which these units are held or broken: by the documented rules, naively. None where it is
    /// not sure, as after a search that was given up.
    fn can_run(&self, node: &NodePlan, pod: &Value, held: &Units) -> Option<bool> {
        resource::can_run(&self.resources(node), pod, held)
    }

    /// Whether kube-scheduler's count leaves room for the pod on a node with these live pods: it subtracts what they ask for from
    /// what is not broken, though what they have may be broken, too.
    fn counts_allow(&self, node: &NodePlan, live: &[&Value], pod: &Value, broken: &Units) -> bool {
        resource::counts_allow(&self.resources(node), live, pod, broken)
    }

    /// Why a pod should not have failed its admission with this text: the cause. None if the text is true, or if it is what
    /// Kubernetes itself does now and then.
    fn judge_refusal(&self, _refused: &RefusedPod<'_>) -> Option<String> {
        None
    }

    /// What excuses a refusal that [`judge_refusal`](Self::judge_refusal) has nothing against, for those that are counted.
    fn excuse(&self, _refused: &RefusedPod<'_>) -> Option<&'static str> {
        None
    }

    /// What is wrong with a text that a pod has just been told, whatever becomes free: the cause. The nodes are one of each kind, and
    /// nothing of them is held.
    fn judge_told(&self, _told: &WaitingPod<'_>) -> Option<String> {
        None
    }

    /// What is wrong with how a pod was bound to a node right now, such as to hardware that another pod has: the cause, and a
    /// sentence.
    fn judge_binding(
        &self,
        _truth: &Truth,
        _node: &NodePlan,
        _pod: &PodTruth,
        _books: &Books,
    ) -> Option<(String, String)> {
        None
    }

    /// What is wrong with what a Node of a cluster at rest says of itself: the cause, and a sentence. `settled` are the pods
    /// that have run on it for a while.
    fn judge_node(
        &self,
        _truth: &Truth,
        _node: &NodeTruth<'_>,
        _object: &Value,
        _settled: &[&PodTruth],
    ) -> Option<(String, String)> {
        None
    }

    /// What is wrong with a pod that has run for a while in a cluster at rest, such as a record that is not what its containers
    /// have: the cause, and a sentence.
    fn judge_pod(&self, _truth: &Truth, _node: &NodePlan, _pod: &PodTruth) -> Option<(String, String)> {
        None
    }

    /// Whether a kubelet that has lost its books, and gave some of the bound pod's containers units again, has none left for the others:
    /// `held` is what others have. Nothing the suite's programs do could start them.
    fn cannot_start(&self, _node: &NodePlan, _pod: &PodTruth, _books: &Books, _held: &Units) -> bool {
        false
    }

    /// What is wrong with the text by which a pod is told why it waits, in a cluster that nothing has changed for a while: the
    /// cause.
    fn judge_text(&self, _waiting: &WaitingPod<'_>) -> Option<String> {
        None
    }

    /// Sizes of what programs keep in memory, at a place, with how many of each there may be now.
    fn sizes(&self, _place: Place, _truth: &Truth) -> Vec<Size> {
        Vec::new()
    }
}

/// A pod that has failed its admission.
pub struct RefusedPod<'a> {
    /// Everything that is known.
    pub truth: &'a Truth,
    /// What kind of node it is on.
    pub node: &'a NodePlan,
    /// The pod.
    pub pod: &'a PodTruth,
    /// Why, as its status says.
    pub message: &'a str,
    /// What other pods have on the node, by running containers or by kubelet's books.
    pub held: Units,
    /// kubelet's books, which may still have what no pod is left of.
    pub books: Books,
}

/// A pod that waits, and is told why.
pub struct WaitingPod<'a> {
    /// Everything that is known.
    pub truth: &'a Truth,
    /// The nodes that pods may be placed on.
    pub nodes: &'a [NodeTruth<'a>],
    /// The pod's object.
    pub pod: &'a Value,
    /// What it is told.
    pub message: &'a str,
}

/// A node that pods may be placed on.
pub struct NodeTruth<'a> {
    /// Its name.
    pub name: &'a str,
    /// What kind of node it is.
    pub node: &'a NodePlan,
    /// What pods hold.
    pub held: Units,
    /// What is broken.
    pub broken: Units,
}

/// How much of something a program keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size {
    /// What, such as `extender reservations`.
    pub what: String,
    /// How many.
    pub is: usize,
    /// How many there may be at most.
    pub at_most: usize,
}
