//! Why pods wait in vain that kube-scheduler found no node for. Asked by the loop of [`super`] about one pod after the other.
//!
//! Nodes that kube-scheduler's own plugins drop never reach the extender (docs/reference/kubernetes.md §1), so a pod that no node
//! type can serve would otherwise only read `Insufficient aws.amazon.com/neuron`.
//!
//! What all pods of one controlling owner are told is one event, on the first of them that waits: users describe a pod that waits, and
//! seldom its ReplicaSet.

use std::sync::Arc;

use neuron_core::placement::{EqualNodes, Refusal};
use neuron_core::request::{ContainerRequest, PodRequest, RequestError};
use tokio::task::yield_now;

use super::explain::Explanation;
use super::freeing::fewest_that_free;
use crate::index::{Audience, Cluster, Index, NodeRefusal, NodeView, ObservedPod, Owner};
use crate::note::{self, Note};
use crate::verbs::MOVES_OF_TURN;

/// No node type of the cluster can ever serve the pod.
const UNSUPPORTED: &str = "NeuronRequestUnsupported";
/// Enough is free, but not linked.
const NO_LINKED_SET: &str = "NeuronNoLinkedSet";

/// Answers that are kept: pods of few shapes wait at a time.
const MOST_ANSWERS: usize = 16;
/// Different reasons of nodes that are looked at; a note holds fewer.
const MOST_REASONS: usize = 16;
/// Nodes of which it is asked which pods would have to end: some milliseconds.
const MOST_NODES: usize = 1000;

/// Why a pod waits, which is the same for all pods of its shape.
#[derive(Debug)]
pub(super) struct Reason {
    /// The event's reason, in CamelCase.
    reason: &'static str,
    /// What the pods ask for.
    asked: String,
    note: Note,
    /// The first nodes on which what is free is not linked.
    unlinked: Vec<String>,
}

/// What of a pod decides why it waits.
#[derive(Debug, PartialEq, Eq)]
struct Shape {
    request: Result<PodRequest, Box<RequestError>>,
    device_model: Option<String>,
}

/// Why pods wait, by their shape: each shape is looked at on every node once, as long as no time passes.
#[derive(Debug, Default)]
pub(super) struct Answers {
    known: Vec<(Shape, Option<Arc<Reason>>)>,
}

impl Answers {
    /// Why the pod with this UID waits in vain and who is to be told, if it waits and the reason lies in the devices.
    pub(super) async fn of(&mut self, cluster: &Cluster, uid: &str) -> Option<(Audience, Arc<Reason>)> {
        let (audience, shape) = cluster.read(|index| {
            let pod = index.unschedulable(uid)?;
            let shape = Shape { request: pod.pod.request.clone(), device_model: pod.device_model.clone() };
            Some((pod.audience(), shape))
        })?;
        if let Some((_, reason)) = self.known.iter().find(|(known, _)| *known == shape) {
            return Some((audience, reason.clone()?));
        }
        let reason = refused_by_every_node(cluster, &shape).await.map(Arc::new);
        if self.known.len() == MOST_ANSWERS {
            self.known.remove(0);
        }
        self.known.push((shape, reason.clone()));
        Some((audience, reason?))
    }
}

impl Reason {
    fn unsupported(note: Note) -> Self {
        Self { reason: UNSUPPORTED, asked: String::new(), note, unlinked: Vec::new() }
    }

    /// One event per key is sent to a pod and all others of its owner: what is free now is no news.
    pub(super) fn key(&self) -> u64 {
        match self.reason {
            NO_LINKED_SET => note::key([NO_LINKED_SET, &self.asked].into_iter()),
            _ => self.note.key(),
        }
    }

    /// The event on the pod.
    pub(super) fn explanation(&self, index: &Index, pod: &ObservedPod) -> Explanation {
        let request = pod.pod.request.as_ref().ok();
        let freeing = request.and_then(|request| fewest_that_free(index, &self.unlinked, request));
        let mut tail = freeing.map(|freeing| format!("; {freeing}")).unwrap_or_default();
        if let Some(Owner { kind, name, .. }) = pod.owner.as_deref()
            && index.is_one_of_many(pod)
        {
            tail.push_str(&format!(
                " (told once for all pods of {kind} {name} that wait for the same reason)"
            ));
        }
        Explanation::of(&pod.pod, self.reason, self.note.text(&tail))
    }
}

/// Why every node refuses pods of the shape, if the reason lies in the devices. Calls of kube-scheduler get a turn where much has to be
/// searched.
async fn refused_by_every_node(cluster: &Cluster, shape: &Shape) -> Option<Reason> {
    let request = match &shape.request {
        Ok(request) if request.is_empty() => return None,
        Ok(request) => request,
        Err(error) => return Some(Reason::unsupported(Note::of(error.to_string()))),
    };
    let nodes = match cluster.read(|index| wanted_nodes(index, shape.device_model.as_deref())) {
        Ok(nodes) => nodes,
        Err(reason) => return reason,
    };
    let (mut refusals, mut equal_nodes) = (Refusals::new(), EqualNodes::new(request));
    let mut nodes = nodes.iter();
    while cluster.read(|index| take_turn(index, &mut nodes, &mut equal_nodes, &mut refusals))? {
        yield_now().await;
    }
    refusals.reason(request)
}

/// What the pod's containers ask for, whatever they are called.
fn asked(request: &PodRequest) -> String {
    let of_container = |one: &ContainerRequest| format!("{:?} {} {}", one.role, one.devices, one.cores);
    request.containers.iter().map(of_container).collect::<Vec<_>>().join(", ")
}

/// The names of the nodes that may be of the device models that a pod is restricted to.
///
/// # Errors
/// There is none, and why.
fn wanted_nodes(index: &Index, device_model: Option<&str>) -> Result<Vec<String>, Option<Reason>> {
    let unsupported = |why: String| Some(Reason::unsupported(Note::of(why)));
    let models = index.device_models(device_model).map_err(|error| unsupported(error.to_string()))?;
    let neuron = || index.views().filter(|view| view.is_neuron());
    let Some(models) = models else { return Ok(neuron().map(|view| view.name.to_string()).collect()) };
    // What a node is may not be known yet.
    let may_be = |view: &&NodeView| view.is_of(&models).err().is_none_or(|refusal| !refusal.is_permanent());
    let wanted: Vec<String> = neuron().filter(may_be).map(|view| view.name.to_string()).collect();
    if wanted.is_empty() {
        // What one node is told says it.
        let why = neuron().find_map(|view| view.is_of(&models).err());
        return Err(why.and_then(|why| unsupported(why.to_string())));
    }
    Ok(wanted)
}

/// Asks nodes until none is left or a turn has been searched. Whether some are left; none where one takes the pod.
fn take_turn(
    index: &Index,
    nodes: &mut std::slice::Iter<'_, String>,
    equal_nodes: &mut EqualNodes,
    refusals: &mut Refusals,
) -> Option<bool> {
    let end = equal_nodes.cost().moves.saturating_add(MOVES_OF_TURN);
    for name in nodes {
        let Some(view) = index.view(name) else { continue };
        let refusal = match view.fits(equal_nodes) {
            Err(refusal) if refusal.is_permanent() => Some(refusal),
            // A node whose plugin is dead takes no pod, whichever of its pods end.
            fits => index.has_a_living_plugin(view).and(fits).err(),
        };
        refusals.add(name, refusal?);
        if equal_nodes.cost().moves >= end {
            return Some(true);
        }
    }
    Some(false)
}

/// What the nodes say that all refuse a pod, as far as an event has room for it.
struct Refusals {
    /// Those that no pod's end lifts, in which words, and how many nodes say so.
    permanent: Vec<(NodeRefusal, String, usize)>,
    /// Nodes that say others of those.
    others: usize,
    all_are_permanent: bool,
    unlinked: Note,
    /// The first of these nodes.
    unlinked_nodes: Vec<String>,
}

impl Refusals {
    fn new() -> Self {
        Self {
            permanent: Vec::new(),
            others: 0,
            all_are_permanent: true,
            unlinked: Note::new("; "),
            unlinked_nodes: Vec::new(),
        }
    }

    fn add(&mut self, node: &str, refusal: NodeRefusal) {
        if refusal.is_permanent() {
            return self.add_permanent(refusal);
        }
        self.all_are_permanent = false;
        if matches!(refusal, NodeRefusal::Placement(Refusal::NotLinked { .. })) {
            self.unlinked.add(1, || format!("{node}: {refusal}"));
            if self.unlinked_nodes.len() < MOST_NODES {
                self.unlinked_nodes.push(node.to_owned());
            }
        }
    }

    fn add_permanent(&mut self, refusal: NodeRefusal) {
        if let Some((_, _, nodes)) = self.permanent.iter_mut().find(|(known, _, _)| *known == refusal) {
            *nodes += 1;
            return;
        }
        // What differs may be what the words do not tell.
        let text = refusal.to_string();
        match self.permanent.iter().position(|(_, known, _)| *known == text) {
            Some(place) => self.permanent[place].2 += 1,
            None if self.permanent.len() < MOST_REASONS => self.permanent.push((refusal, text, 1)),
            None => self.others += 1,
        }
    }

    /// What they come to; none if devices are only taken, or there are no nodes.
    fn reason(self, request: &PodRequest) -> Option<Reason> {
        if self.all_are_permanent && !self.permanent.is_empty() {
            let mut texts: Vec<(String, usize)> =
                self.permanent.into_iter().map(|(_, text, nodes)| (text, nodes)).collect();
            texts.sort();
            let mut note = Note::new(" ");
            texts.into_iter().for_each(|(text, nodes)| note.add(nodes, || text));
            note.leave_out(self.others);
            return Some(Reason::unsupported(note));
        }
        let (note, unlinked) = (self.unlinked, self.unlinked_nodes);
        (!unlinked.is_empty()).then(|| Reason {
            reason: NO_LINKED_SET,
            asked: asked(request),
            note,
            unlinked,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use neuron_core::catalog::Catalog;
    use neuron_core::pod::{BoundPod, PodSpec};
    use neuron_core::topology::Policy;
    use serde_json::{Value, json};

    use super::*;
    use crate::index::{Advertised, Change, ObservedNode, TopologyCache};

    /// A cluster of nodes of which each has another core held.
    fn nodes(count: u8) -> Index {
        let mut index =
            Index::new(TopologyCache::new(Arc::new(Catalog::embedded().clone()), Policy::Documented));
        let name = |number: u8| format!("n{number}");
        let node = |number| ObservedNode {
            name: name(number),
            instance_type: Some("trn2.48xlarge".to_owned()),
            report: None,
            advertised: Advertised::default(),
        };
        index.change_nodes(Change::Listed((0..count).map(node).collect()));
        let holder = |number| {
            let record =
                json!({"v": 1, "node": name(number), "lnc": 2, "containers": {"main": {"cores": [number]}}});
            let annotations =
                BTreeMap::from([("neuron-scheduler/allocation".to_owned(), record.to_string())]);
            let pod =
                BoundPod::new("default", name(number), name(number), annotations, &spec(&[1], &[]), None);
            ObservedPod {
                node: Some(name(number).into()),
                unschedulable: false,
                device_model: None,
                owner: None,
                pod: Arc::new(pod),
            }
        };
        index.change_pods(Change::Listed((0..count).map(holder).collect()));
        index
    }

    /// Main containers and init containers that ask for so many cores each.
    fn spec(apps: &[u8], inits: &[u8]) -> PodSpec {
        let containers = |counts: &[u8]| {
            let container = |(place, count): (usize, &u8)| {
                let limits = json!({"aws.amazon.com/neuroncore": count.to_string()});
                json!({"name": format!("c{place}-{}", counts.len()), "resources": {"limits": limits}})
            };
            counts.iter().enumerate().map(container).collect::<Vec<Value>>()
        };
        let spec = json!({"containers": containers(apps), "initContainers": containers(inits)});
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn a_pod_that_is_hard_to_place_is_asked_about_in_turns() {
        // One core handed down, sixteen times three, and two for which nothing is left that is linked.
        let index = nodes(4);
        let apps: Vec<u8> = [1].into_iter().chain([3; 16]).chain([2]).collect();
        let request = PodRequest::of(&spec(&apps, &[1])).unwrap();
        let (names, mut refusals) = (wanted_nodes(&index, None).unwrap_or_default(), Refusals::new());
        let (mut nodes, mut equal_nodes, mut turns) = (names.iter(), EqualNodes::new(&request), 0);
        loop {
            let before = equal_nodes.cost().moves;
            let left =
                take_turn(&index, &mut nodes, &mut equal_nodes, &mut refusals).expect("no node takes it");
            let moves = equal_nodes.cost().moves - before;
            // A node's own search is not broken off.
            assert!(moves <= MOVES_OF_TURN + 200_000, "a turn took {moves} moves");
            turns += 1;
            if !left {
                break;
            }
        }
        assert!(turns > 1 && nodes.next().is_none(), "{turns} turns");
    }
}
