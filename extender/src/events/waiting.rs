//! Why pods wait in vain that kube-scheduler found no node for. Pure; asked by the loop of [`super`] about one pod after the other.
//!
//! Nodes that kube-scheduler's own plugins drop never reach the extender (docs/reference/kubernetes.md §1), so a pod that no node
//! type can serve would otherwise only read `Insufficient aws.amazon.com/neuron`.
//!
//! What all pods of one controlling owner are told is one event, on the first of them that waits: users describe a pod that waits, and
//! seldom its ReplicaSet.

use std::sync::Arc;

use neuron_core::placement::{EqualNodes, Refusal};
use neuron_core::request::{PodRequest, RequestError};

use super::explain::Explanation;
use super::freeing::fewest_that_free;
use super::note::Note;
use crate::index::{Index, NodeRefusal, NodeView, ObservedPod, Owner};

/// No node type of the cluster can ever serve the pod.
const UNSUPPORTED: &str = "NeuronRequestUnsupported";
/// Enough is free, but not linked.
const NO_LINKED_SET: &str = "NeuronNoLinkedSet";

/// Answers that are kept: pods of few shapes wait at a time.
const MOST_ANSWERS: usize = 16;
/// Different reasons of nodes that are looked at; a note holds fewer.
const MOST_REASONS: usize = 16;
/// Nodes of which it is asked which pods would have to end.
const MOST_NODES: usize = 16;

/// Why a pod waits, which is the same for all pods of its shape.
#[derive(Debug)]
pub(super) struct Reason {
    /// The event's reason, in CamelCase.
    reason: &'static str,
    note: Note,
    /// The first nodes on which what is free is not linked.
    unlinked: Vec<String>,
}

/// What of a pod decides why it waits.
#[derive(Debug, PartialEq, Eq)]
struct Shape {
    request: Result<PodRequest, RequestError>,
    device_model: Option<String>,
}

/// Why pods wait, by their shape: each shape is looked at on every node once, as long as no time passes.
#[derive(Debug, Default)]
pub(super) struct Answers {
    known: Vec<(Shape, Option<Arc<Reason>>)>,
}

impl Answers {
    /// Why the pod waits in vain, if the reason lies in the devices.
    pub(super) fn of(&mut self, index: &Index, pod: &ObservedPod) -> Option<Arc<Reason>> {
        let is_like =
            |shape: &Shape| shape.request == pod.pod.request && shape.device_model == pod.device_model;
        if let Some((_, reason)) = self.known.iter().find(|(shape, _)| is_like(shape)) {
            return reason.clone();
        }
        let reason = refused_by_every_node(index, pod).map(Arc::new);
        if self.known.len() == MOST_ANSWERS {
            self.known.remove(0);
        }
        let shape = Shape { request: pod.pod.request.clone(), device_model: pod.device_model.clone() };
        self.known.push((shape, reason.clone()));
        reason
    }
}

impl Reason {
    fn unsupported(note: Note) -> Self {
        Self { reason: UNSUPPORTED, note, unlinked: Vec::new() }
    }

    /// One event per key is sent to a pod and all others of its owner: new counts are no news.
    pub(super) fn key(&self) -> u64 {
        match self.reason {
            NO_LINKED_SET => super::note::key([NO_LINKED_SET].into_iter()),
            _ => self.note.key(),
        }
    }

    /// The event on the pod.
    pub(super) fn explanation(&self, index: &Index, pod: &ObservedPod) -> Explanation {
        let request = pod.pod.request.as_ref().ok();
        let freeing = request.and_then(|request| fewest_that_free(index, &self.unlinked, request));
        let mut tail = freeing.map(|freeing| format!("; {freeing}")).unwrap_or_default();
        if let Some(Owner { kind, name, .. }) = &pod.owner
            && index.is_one_of_many(pod)
        {
            tail.push_str(&format!(
                " (told once for all pods of {kind} {name} that wait for the same reason)"
            ));
        }
        Explanation::of(&pod.pod, self.reason, self.note.text(&tail))
    }
}

/// Why every node refuses the pod, if the reason lies in the devices.
fn refused_by_every_node(index: &Index, pod: &ObservedPod) -> Option<Reason> {
    let request = match &pod.pod.request {
        Ok(request) if request.is_empty() => return None,
        Ok(request) => request,
        Err(error) => return Some(Reason::unsupported(Note::of(error.to_string()))),
    };
    let models = match index.device_models(pod.device_model.as_deref()) {
        Ok(models) => models,
        Err(error) => return Some(Reason::unsupported(Note::of(error.to_string()))),
    };
    // Where no node is of these models, what one node is told says it.
    let is_wanted = |view: &&NodeView| models.as_ref().is_none_or(|models| view.is_of(models).is_ok());
    let some_are = index.views().any(|view| view.is_neuron() && is_wanted(&view));
    if let (Some(models), false) = (&models, some_are) {
        let why = index.views().filter(|view| view.is_neuron()).find_map(|view| view.is_of(models).err());
        return why.map(|why| Reason::unsupported(Note::of(why.to_string())));
    }
    let mut refusals = Refusals::new();
    let mut equal_nodes = EqualNodes::new(request);
    for view in index.views().filter(|view| view.is_neuron()).filter(is_wanted) {
        refusals.add(&view.name, view.fits(&mut equal_nodes).err()?);
    }
    refusals.reason()
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
    fn reason(self) -> Option<Reason> {
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
        (!unlinked.is_empty()).then_some(Reason { reason: NO_LINKED_SET, note, unlinked })
    }
}
