//! What the watches have shown and what binds have reserved, by node. Pure: fed by the watches, read by filter, bind and
//! the explainer through [`Cluster`].

mod bound;
mod cluster;
mod device_models;
mod leases;
mod node_view;
mod now;
mod observed;
mod overlay;
mod owners;
mod preemption;
mod refusal;
mod relist;
mod reservations;
#[cfg(test)]
mod tests;
mod topology_cache;
mod views;
mod watched;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use neuron_core::pod::BoundPod;
use runtime::reached;
use tokio::time::Instant;

use self::bound::BoundPods;
pub(crate) use self::cluster::Cluster;
use self::leases::Leases;
pub(crate) use self::leases::ObservedLease;
use self::node_view::IndexedNode;
pub(crate) use self::node_view::{NodeNumber, NodeView};
pub(crate) use self::observed::{Advertised, Change, ObservedNode, ObservedPod, Owner};
use self::overlay::Overlay;
pub(crate) use self::overlay::{Reservation, ReservationId, Reserved};
pub(crate) use self::owners::Audience;
pub(crate) use self::refusal::{Indeterminate, NodeRefusal, RefusalKind};
pub(crate) use self::relist::Relist;
pub(crate) use self::topology_cache::TopologyCache;
use self::views::Views;
use self::watched::Watched;
use crate::probe::Sizes;

/// So long a watch may be disconnected before this replica is not ready and does not lead: what it knows is old by then, while another one
/// may know more.
const SILENT: Duration = Duration::from_secs(30);

/// How long it counts as not known yet what an unknown holder has, which its plugin mostly reports within a second, what a node is that
/// kube-scheduler has seen before the extender, or what a call's searches have not come to. Then pods are refused for it, so that autoscalers and
/// preemption do something; a report that comes later has them tried again.
pub(crate) const UNKNOWN_AT_MOST: Duration = Duration::from_secs(30);

/// Everything known.
#[derive(Debug)]
pub(crate) struct Index {
    topologies: TopologyCache,
    nodes: BTreeMap<Arc<str>, IndexedNode>,
    /// How many nodes there have been.
    numbers: u32,
    /// One for each of `nodes`.
    views: Views,
    bound: BoundPods,
    /// Pods that are not bound, by UID.
    pending: BTreeMap<String, ObservedPod>,
    overlay: Overlay,
    leases: Leases,
    unexplained: Unexplained,
    pod_watch: Watched,
    node_watch: Watched,
}

/// What changed since the explainer last looked.
#[derive(Debug, Default)]
pub(crate) struct Unexplained {
    /// Nodes whose view changed.
    pub(crate) nodes: BTreeSet<String>,
    /// UIDs of pods that kube-scheduler found no node for.
    pub(crate) pods: BTreeSet<String>,
    /// A node got another topology, came or went: whether anything can serve a pending pod may have changed, so all of them
    /// are among `pods` when this is taken.
    topologies: bool,
}

impl Index {
    /// An index of an empty cluster.
    pub(crate) fn new(topologies: TopologyCache) -> Self {
        Self {
            topologies,
            nodes: BTreeMap::new(),
            numbers: 0,
            views: Views::default(),
            bound: BoundPods::default(),
            pending: BTreeMap::new(),
            overlay: Overlay::default(),
            leases: Leases::default(),
            unexplained: Unexplained::default(),
            pod_watch: Watched::default(),
            node_watch: Watched::default(),
        }
    }

    /// Whether pods and nodes have been listed.
    pub(crate) fn is_listed(&self) -> bool {
        self.pod_watch.is_listed && self.node_watch.is_listed
    }

    /// Whether a watch is disconnected, so that pods may have ended, or nodes come, unseen.
    pub(crate) fn is_disconnected(&self) -> bool {
        self.silent_watches().next().is_some()
    }

    /// The watches that are disconnected, each with the time since when. Not that of Leases, without which pods are placed all the same.
    pub(crate) fn silent_watches(&self) -> impl Iterator<Item = (&'static str, Instant)> {
        let watches = [("pods", &self.pod_watch), ("nodes", &self.node_watch)];
        watches.into_iter().filter_map(|(name, watch)| Some((name, watch.silent_since()?)))
    }

    /// The watch that has told nothing for longest, and for how long, if that is more than [`SILENT`]. Lists that succeed meanwhile tell
    /// nothing of a watch that may not begin.
    pub(crate) fn too_long_silent(&self) -> Option<(&'static str, Duration)> {
        let watches = [("pods", &self.pod_watch), ("nodes", &self.node_watch)];
        let gaps = watches.into_iter().filter_map(|(name, watch)| Some((name, watch.untold_since()?)));
        let silences = self.silent_watches().chain(gaps).map(|(watch, since)| (watch, since.elapsed()));
        silences.max_by_key(|(_, time)| *time).filter(|(_, time)| *time > SILENT)
    }

    /// The watch of pods is given up for a list, since one is asked for.
    pub(crate) fn ask_for_list_of_pods(&mut self) {
        self.pod_watch.ask_for_list();
    }

    /// Takes in what the watch of pods shows.
    pub(crate) fn change_pods(&mut self, change: Change<ObservedPod>) {
        match change {
            Change::ListBegins => self.overlay.list_begins(),
            Change::Disconnected => {
                reached("extender: pod watch disconnected");
                self.pod_watch.disconnect();
            }
            Change::Applied(pod) => self.apply_pod(pod),
            // Planted: a pod that has ended holds its devices until the next list.
            #[cfg(planted)]
            Change::Gone(_) if runtime::is_planted("deletion-not-seen") => {}
            Change::Gone(uid) => self.remove_pod(&uid),
            Change::Listed(pods) => {
                // Planted: the devices of the list's last pod seem to be free.
                #[cfg(planted)]
                let pods = if runtime::is_planted("relist-forgets-pod") { all_but_last(pods) } else { pods };
                let listed: BTreeSet<&str> = pods.iter().map(|pod| &*pod.pod.uid).collect();
                let known = self.bound.uids().chain(self.pending.keys().map(String::as_str));
                let gone: Vec<String> =
                    known.filter(|uid| !listed.contains(uid)).map(str::to_owned).collect();
                for uid in gone {
                    reached("extender: pod gone unseen");
                    self.forget_pod(&uid);
                }
                for node in self.overlay.remove_unlisted(|uid| listed.contains(uid)) {
                    reached("extender: reservation of an unlisted pod removed");
                    self.rebuild_view(&node);
                }
                for pod in letting_go(pods) {
                    self.apply_pod(pod);
                }
                if self.pod_watch.complete_list() {
                    reached("extender: pods listed again");
                }
            }
        }
    }

    /// Takes in what the watch of nodes shows.
    pub(crate) fn change_nodes(&mut self, change: Change<ObservedNode>) {
        match change {
            Change::ListBegins => {}
            Change::Disconnected => {
                reached("extender: node watch disconnected");
                self.node_watch.disconnect();
            }
            Change::Applied(node) => self.apply_node(node),
            Change::Gone(name) => self.remove_node(&name),
            Change::Listed(nodes) => {
                let listed: BTreeSet<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
                let gone: Vec<Arc<str>> =
                    self.nodes.keys().filter(|name| !listed.contains(&***name)).cloned().collect();
                for name in gone {
                    reached("extender: node gone unseen");
                    self.remove_node(&name);
                }
                for node in letting_go(nodes) {
                    self.apply_node(node);
                }
                if self.node_watch.complete_list() {
                    reached("extender: nodes listed again");
                }
            }
        }
    }

    /// The node as filter and bind see it; `None` if there is no such node.
    pub(crate) fn view(&self, node: &str) -> Option<&NodeView> {
        self.views.get(node)
    }

    /// Every node, by name.
    pub(crate) fn views(&self) -> impl Iterator<Item = &NodeView> {
        self.nodes.keys().filter_map(|name| self.views.get(name))
    }

    /// How many nodes there are.
    pub(crate) fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// How much is known.
    pub(crate) fn sizes(&self) -> Sizes {
        Sizes {
            pods: self.bound.len() + self.pending.len(),
            nodes: self.nodes.len(),
            topologies: self.topologies.len(),
            leases: self.leases.len(),
            reservations: self.overlay.len(),
            cores_taken: self.views().map(NodeView::cores_taken).sum(),
            unexplained: self.unexplained.nodes.len() + self.unexplained.pods.len(),
            ..Sizes::default()
        }
    }

    /// A pod that asks for Neuron hardware or gets it from a ResourceClaim, and has not ended, with the node it is bound to.
    pub(crate) fn pod(&self, uid: &str) -> Option<(&Arc<BoundPod>, Option<&str>)> {
        if let Some(pending) = self.pending.get(uid) {
            return Some((&pending.pod, None));
        }
        self.bound.get(uid).map(|(pod, node)| (pod, Some(node)))
    }

    /// Whether a pod that asks for Neuron hardware is not bound.
    pub(crate) fn has_pending_pods(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether there is anything that the explainer has not looked at.
    pub(crate) fn has_unexplained(&self) -> bool {
        let Unexplained { nodes, pods, topologies } = &self.unexplained;
        *topologies || !nodes.is_empty() || !pods.is_empty()
    }

    /// What changed since the last call.
    pub(crate) fn take_unexplained(&mut self) -> Unexplained {
        let mut unexplained = std::mem::take(&mut self.unexplained);
        if unexplained.topologies {
            let unschedulable = self.pending.iter().filter(|(_, pod)| pod.unschedulable);
            unexplained.pods.extend(unschedulable.map(|(uid, _)| uid.clone()));
        }
        unexplained
    }

    fn apply_pod(&mut self, observed: ObservedPod) {
        let uid = Arc::clone(&observed.pod.uid);
        if observed.pod.terminal {
            return self.remove_pod(&uid);
        }
        let Some(node) = observed.node.clone() else {
            if observed.unschedulable {
                self.unexplained.pods.insert(uid.to_string());
            }
            self.overlay.mark_shown(&uid);
            self.pending.insert(uid.to_string(), observed);
            return;
        };
        self.pending.remove(&*uid);
        let mut changed: BTreeSet<String> = self.overlay.remove(&uid).into_iter().collect();
        if self.bound.apply(&node, observed.pod) {
            changed.insert(node.to_string());
        }
        for node in changed {
            self.rebuild_view(&node);
        }
    }

    fn remove_pod(&mut self, uid: &str) {
        self.forget_pod(uid);
        for node in self.overlay.remove(uid) {
            self.rebuild_view(&node);
        }
    }

    /// Removes the pod but not its reservations.
    fn forget_pod(&mut self, uid: &str) {
        if self.pending.remove(uid).is_some() {
            // Who explains pods has to forget it.
            self.unexplained.pods.insert(uid.to_owned());
        }
        if let Some(node) = self.bound.remove(uid) {
            self.rebuild_view(&node);
        }
    }

    fn apply_node(&mut self, node: ObservedNode) {
        let known = self.nodes.get_key_value(node.name.as_str());
        let number = known.map(|(_, known)| known.number()).unwrap_or_else(|| {
            self.numbers = self.numbers.wrapping_add(1);
            self.numbers.into()
        });
        let name = known.map_or_else(|| node.name.as_str().into(), |(name, _)| Arc::clone(name));
        let node = IndexedNode::new(node, number, &mut self.topologies);
        let before = self.nodes.get(&name);
        if before.is_none_or(|before| *before != node) {
            self.tell_rules(&name, before.and_then(IndexedNode::other_rules), node.other_rules());
            self.nodes.insert(Arc::clone(&name), node);
            self.rebuild_view(&name);
        }
    }

    /// Says once that a node's plugin follows other rules.
    fn tell_rules(&self, node: &str, before: Option<&str>, now: Option<&str>) {
        let (Some(theirs), ours) = (now, self.topologies.rules()) else { return };
        if now != before {
            tracing::warn!(
                node,
                theirs,
                ours,
                "the node's device plugin follows another policy or catalog, and may refuse what is placed there; give both \
                 programs the same --policy and --catalog, and run the same release of both"
            );
        }
    }

    /// The rules by which pods are placed.
    pub(crate) fn rules(&self) -> &str {
        self.topologies.rules()
    }

    fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
        if self.views.remove(name).is_some_and(|view| view.is_neuron()) {
            self.unexplained.topologies = true;
            self.unexplained.nodes.insert(name.to_owned());
        }
    }

    /// Settles one node again, after its pods or the node itself changed.
    fn rebuild_view(&mut self, name: &str) {
        let Some((known_name, node)) = self.nodes.get_key_value(name) else { return };
        let mut view = NodeView::new(Arc::clone(known_name), node, self.bound.on(name));
        view.reserve(self.overlay.reserved_on(name));
        view.lease_ends = self.leases.ends(name);
        let before = self.views.get(name);
        view.follows(before);
        let before = before.and_then(|view| view.topology());
        // Topologies are shared, so the same one is the same allocation.
        self.unexplained.topologies |= before.map(Arc::as_ptr) != view.topology().map(Arc::as_ptr);
        self.views.insert(view);
        self.unexplained.nodes.insert(name.to_owned());
    }
}

/// What a list shows, in its order. Its memory is let go as it is taken in, and what is kept of it takes that place: at the end it would be
/// a hole of megabytes below what is kept, which no allocator gives back.
fn letting_go<T>(mut listed: Vec<T>) -> impl Iterator<Item = T> {
    listed.reverse();
    std::iter::from_fn(move || {
        let next = listed.pop();
        if listed.len() < listed.capacity() / 2 {
            listed.shrink_to_fit();
        }
        next
    })
}

#[cfg(planted)]
fn all_but_last(mut pods: Vec<ObservedPod>) -> Vec<ObservedPod> {
    pods.pop();
    pods
}
