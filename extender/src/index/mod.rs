//! What the watches have shown and what binds have reserved, by node. Pure: fed by the watches, read by
//! filter, bind and the explainer through [`Cluster`].

mod cluster;
mod node_view;
mod observed;
mod overlay;
mod topology_cache;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use neuron_core::ids::CoreSet;
use neuron_core::pod::BoundPod;

pub(crate) use self::cluster::{Cluster, NotListed};
use self::node_view::ShapedNode;
pub(crate) use self::node_view::{Denial, NodeView};
pub(crate) use self::observed::{Change, SeenNode, SeenPod};
use self::overlay::{Overlay, Reservation};
pub(crate) use self::topology_cache::Shapes;

/// Everything known.
#[derive(Debug)]
pub(crate) struct Index {
    shapes: Shapes,
    nodes: BTreeMap<String, ShapedNode>,
    views: HashMap<String, NodeView>,
    bound: HashMap<String, Vec<BoundPod>>,
    /// The node of each bound pod, by UID.
    homes: HashMap<String, String>,
    pending: HashMap<String, SeenPod>,
    overlay: Overlay,
    fresh: Fresh,
    pods_listed: bool,
    nodes_listed: bool,
    pods_cut: bool,
    nodes_cut: bool,
}

/// What changed since the explainer last looked.
#[derive(Debug, Default)]
pub(crate) struct Fresh {
    /// Nodes whose view changed.
    pub(crate) nodes: BTreeSet<String>,
    /// UIDs of pods that kube-scheduler found no node for.
    pub(crate) pods: BTreeSet<String>,
    /// A node got another shape, came or went: what can serve a waiting pod at all may be another answer now, so every
    /// one of them is among `pods`.
    shapes: bool,
}

impl Index {
    /// An index of an empty cluster.
    pub(crate) fn new(shapes: Shapes) -> Self {
        Self {
            shapes,
            nodes: BTreeMap::new(),
            views: HashMap::new(),
            bound: HashMap::new(),
            homes: HashMap::new(),
            pending: HashMap::new(),
            overlay: Overlay::default(),
            fresh: Fresh::default(),
            pods_listed: false,
            nodes_listed: false,
            pods_cut: false,
            nodes_cut: false,
        }
    }

    /// Whether pods and nodes have been listed.
    pub(crate) fn is_listed(&self) -> bool {
        self.pods_listed && self.nodes_listed
    }

    /// Whether a watch is cut, so that pods may have ended, or nodes come, of which nothing is known here.
    pub(crate) fn is_cut(&self) -> bool {
        self.pods_cut || self.nodes_cut
    }

    /// Takes in what the watch of pods shows.
    pub(crate) fn pods(&mut self, change: Change<SeenPod>) {
        match change {
            Change::ListBegins => self.overlay.list_begins(),
            Change::Cut => self.pods_cut = true,
            Change::Applied(pod) => self.apply_pod(pod),
            Change::Gone(uid) => self.remove_pod(&uid),
            Change::Listed(pods) => {
                let listed: BTreeSet<String> = pods.iter().map(|pod| pod.pod.uid.clone()).collect();
                let known = self.homes.keys().chain(self.pending.keys());
                let gone: Vec<String> = known.filter(|uid| !listed.contains(*uid)).cloned().collect();
                for uid in gone {
                    self.forget_pod(&uid);
                }
                for node in self.overlay.settle_unlisted(|uid| listed.contains(uid)) {
                    self.refresh(&node);
                }
                for pod in pods {
                    self.apply_pod(pod);
                }
                (self.pods_listed, self.pods_cut) = (true, false);
            }
        }
    }

    /// Takes in what the watch of nodes shows.
    pub(crate) fn nodes(&mut self, change: Change<SeenNode>) {
        match change {
            Change::ListBegins => {}
            Change::Cut => self.nodes_cut = true,
            Change::Applied(node) => self.apply_node(node),
            Change::Gone(name) => self.remove_node(&name),
            Change::Listed(nodes) => {
                let listed: BTreeSet<&String> = nodes.iter().map(|node| &node.name).collect();
                let gone: Vec<String> =
                    self.nodes.keys().filter(|name| !listed.contains(name)).cloned().collect();
                for name in gone {
                    self.remove_node(&name);
                }
                for node in nodes {
                    self.apply_node(node);
                }
                (self.nodes_listed, self.nodes_cut) = (true, false);
            }
        }
    }

    /// The node as filter and bind see it; `None` if there is no such node.
    pub(crate) fn view(&self, node: &str) -> Option<&NodeView> {
        self.views.get(node)
    }

    /// Every node, in no order.
    pub(crate) fn views(&self) -> impl Iterator<Item = &NodeView> {
        self.views.values()
    }

    /// A pod that asks for Neuron hardware and has not ended; with the node it is bound to.
    pub(crate) fn pod(&self, uid: &str) -> Option<(&BoundPod, Option<&str>)> {
        if let Some(pending) = self.pending.get(uid) {
            return Some((&pending.pod, None));
        }
        let node = self.homes.get(uid)?;
        let pod = self.bound.get(node)?.iter().find(|pod| pod.uid == uid)?;
        Some((pod, Some(node)))
    }

    /// Whether the pod has a reservation on the node.
    pub(crate) fn has_reservation(&self, uid: &str, node: &str) -> bool {
        self.reservations_of(uid).is_some_and(|nodes| nodes.contains_key(node))
    }

    /// The pod's reservations by node; mostly there are none.
    pub(crate) fn reservations_of(&self, uid: &str) -> Option<&BTreeMap<String, Reservation>> {
        self.overlay.of_pod(uid)
    }

    /// The reservation that the pod already has on the node, which one more bind now uses.
    pub(crate) fn join_reservation(&mut self, uid: &str, node: &str) -> Option<Reservation> {
        self.overlay.join(uid, node)
    }

    /// Holds `cores` of the node for the pod until the watch shows it bound or gone, or the bind fails.
    pub(crate) fn reserve(
        &mut self,
        uid: &str,
        node: &str,
        cores: CoreSet,
        annotations: Arc<BTreeMap<String, String>>,
    ) {
        self.overlay.add(uid, node, cores, annotations);
        self.overlay_changed(node);
    }

    /// A bind ended without binding the pod.
    pub(crate) fn release(&mut self, uid: &str, node: &str) {
        if self.overlay.leave(uid, node) {
            self.overlay_changed(node);
        }
    }

    /// Whether there is anything that the explainer has not looked at.
    pub(crate) fn has_fresh(&self) -> bool {
        let Fresh { nodes, pods, shapes } = &self.fresh;
        *shapes || !nodes.is_empty() || !pods.is_empty()
    }

    /// What changed since the last call.
    pub(crate) fn take_fresh(&mut self) -> Fresh {
        let mut fresh = std::mem::take(&mut self.fresh);
        if fresh.shapes {
            let waiting = self.pending.iter().filter(|(_, seen)| seen.unschedulable);
            fresh.pods.extend(waiting.map(|(uid, _)| uid.clone()));
        }
        fresh
    }

    fn apply_pod(&mut self, seen: SeenPod) {
        let uid = seen.pod.uid.clone();
        if seen.pod.terminal {
            return self.remove_pod(&uid);
        }
        let Some(node) = seen.node.clone() else {
            if seen.unschedulable {
                self.fresh.pods.insert(uid.clone());
            }
            self.pending.insert(uid, seen);
            return;
        };
        self.pending.remove(&uid);
        let mut touched: BTreeSet<String> = self.overlay.settle(&uid).into_iter().collect();
        self.homes.insert(uid.clone(), node.clone());
        let pods = self.bound.entry(node.clone()).or_default();
        match pods.iter_mut().find(|pod| pod.uid == uid) {
            Some(known) if *known == seen.pod => {}
            Some(known) => {
                *known = seen.pod;
                touched.insert(node);
            }
            None => {
                pods.push(seen.pod);
                touched.insert(node);
            }
        }
        for node in touched {
            self.refresh(&node);
        }
    }

    fn remove_pod(&mut self, uid: &str) {
        self.forget_pod(uid);
        for node in self.overlay.settle(uid) {
            self.refresh(&node);
        }
    }

    fn forget_pod(&mut self, uid: &str) {
        self.pending.remove(uid);
        let Some(node) = self.homes.remove(uid) else { return };
        if let Some(pods) = self.bound.get_mut(&node) {
            pods.retain(|pod| pod.uid != uid);
            if pods.is_empty() {
                self.bound.remove(&node);
            }
        }
        self.refresh(&node);
    }

    fn apply_node(&mut self, node: SeenNode) {
        if self.nodes.get(&node.name).is_none_or(|known| known.seen != node) {
            let name = node.name.clone();
            self.nodes.insert(name.clone(), ShapedNode::new(node, &mut self.shapes));
            self.refresh(&name);
        }
    }

    fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
        self.fresh.shapes |= self.views.remove(name).is_some_and(|view| view.is_neuron());
    }

    /// Settles one node anew, after its pods or the node itself changed.
    fn refresh(&mut self, name: &str) {
        let Some(node) = self.nodes.get(name) else { return };
        let pods = self.bound.get(name).map(Vec::as_slice).unwrap_or_default();
        let mut view = NodeView::new(node, pods);
        view.reserve(self.overlay.cores_on(name));
        let before = self.views.get(name).and_then(|view| view.topology());
        // Shapes are shared, so the same shape is the same allocation.
        self.fresh.shapes |= before.map(Arc::as_ptr) != view.topology().map(Arc::as_ptr);
        match self.views.get_mut(name) {
            Some(known) => *known = view,
            None => drop(self.views.insert(name.to_owned(), view)),
        }
        self.fresh.nodes.insert(name.to_owned());
    }

    /// Applies reservations to a node whose pods did not change.
    fn overlay_changed(&mut self, name: &str) {
        let reserved = self.overlay.cores_on(name);
        if let Some(view) = self.views.get_mut(name) {
            view.reserve(reserved);
        }
    }
}
