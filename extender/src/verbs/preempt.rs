//! `/preempt`: of the nodes on which kube-scheduler would end pods for a pod, those where it then finds a set that its type allows, and
//! which pods have to go for it. Writes nothing. Called by the routes.
//!
//! kube-scheduler counts devices and knows nothing of links: its victims may free enough that is not linked. Then others of lower
//! priority are added, as few as help. No node is kept of which it is not known whether a pod helps: the search for them was given up, nothing
//! says yet what a pod holds that stays, or what became of a Binding. Their PodDisruptionBudgets are not looked at.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::vec;

use neuron_core::device_model::DeviceModels;
use neuron_core::placement::{EqualNodes, SearchCost};
use neuron_core::request::PodRequest;
use runtime::reached;
use tokio::task::yield_now;
use tracing::{Instrument as _, debug, info_span};

use super::MOVES_OF_TURN;
use crate::index::{Cluster, Indeterminate, Index};
use crate::metrics::{Metrics, Verb};
use crate::wire::{BodyError, MetaPod, MetaVictims, NodeName, PodToPlace, PreemptArgs, PreemptResult};

/// Questions that are asked before others get a turn, some 10 ms of them: each looks at every pod of a node, whatever is searched.
const QUESTIONS_OF_TURN: usize = 1_000;

/// Why nothing is answered: the answer has no place for an error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PreemptError {
    /// The call cannot be answered, whoever asks it when.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// It is not known what is free.
    #[error(transparent)]
    Indeterminate(#[from] Indeterminate),
}

/// The nodes of the call on which the pod fits once their victims are gone, with these and those that have to be added.
///
/// # Errors
/// The call names no pod, or it is not known what pods hold.
pub(crate) async fn preempt<'a>(
    cluster: &Cluster,
    metrics: &Metrics,
    args: PreemptArgs<'a>,
) -> Result<PreemptResult<'a>, PreemptError> {
    let PreemptArgs { pod, victims, meta_victims } = args;
    let pod = pod.ok_or(BodyError::Missing { verb: "preempt", field: "Pod" })?;
    cluster.listed().await?;
    let named: BTreeMap<NodeName<'a>, MetaVictims<'a>> = match meta_victims {
        Some(named) => named.into_iter().filter_map(|(node, victims)| Some((node, victims?))).collect(),
        None => {
            victims.unwrap_or_default().into_iter().map(|(node, victims)| (node, victims.meta())).collect()
        }
    };
    let asked_for = pod.request.as_ref().ok().filter(|request| !request.is_empty());
    let Some(request) = asked_for else {
        // What the pod asks for is none of the extender's.
        return Ok(PreemptResult { meta_victims: named });
    };
    let span = info_span!("preempt", pod = pod.metadata.to_string());
    let asked = named.len();
    let kept = with_victims(cluster, &pod, request, named);
    async {
        let (kept, cost) = kept.await?;
        metrics.searched(Verb::Preempt, cost);
        debug!(asked, nodes = kept.len(), "nodes take the pod once victims are gone");
        if kept.len() < asked {
            reached("extender: preemption would not help on a node");
        }
        Ok(PreemptResult { meta_victims: kept })
    }
    .instrument(span)
    .await
}

/// The nodes on which the pod fits once their victims are gone, with those that have to be added, and what the search took. Others get a
/// turn where much has to be searched.
async fn with_victims<'a>(
    cluster: &Cluster,
    pod: &PodToPlace,
    request: &PodRequest,
    named: BTreeMap<NodeName<'a>, MetaVictims<'a>>,
) -> Result<(BTreeMap<NodeName<'a>, MetaVictims<'a>>, SearchCost), Indeterminate> {
    let mut equal_nodes = EqualNodes::new(request);
    let (mut left, mut under_way, mut kept) = (named.into_iter(), None, BTreeMap::new());
    let mut take_turn = |index: &Index| {
        if index.is_disconnected() {
            return Err(Indeterminate::Disconnected);
        }
        // A text that names no model has no node.
        let Ok(models) = index.device_models(pod.metadata.device_model()) else { return Ok(false) };
        let end = equal_nodes.cost().moves.saturating_add(MOVES_OF_TURN);
        for _ in 0..QUESTIONS_OF_TURN {
            let next = || left.next().map(|(node, victims)| Asked::new(index, node, victims));
            let Some(mut asked) = under_way.take().or_else(next) else { return Ok(false) };
            if is_wanted(index, &asked.node.0, models.as_ref()) {
                match asked.ask(index, pod.priority, &mut equal_nodes) {
                    Found::Nothing => under_way = Some(asked),
                    Found::Enough => {
                        let (node, victims) = asked.with_added(index);
                        kept.insert(node, victims);
                    }
                    Found::NotEnough => {}
                }
            }
            if equal_nodes.cost().moves >= end {
                break;
            }
        }
        Ok(true)
    };
    while cluster.read(&mut take_turn)? {
        yield_now().await;
    }
    Ok((kept, equal_nodes.cost()))
}

/// Whether the node is of a model that the pod's author wants, and its plugin lives.
fn is_wanted(index: &Index, node: &str, models: Option<&DeviceModels>) -> bool {
    index.view(node).is_some_and(|view| {
        index.has_a_living_plugin(view).is_ok() && models.is_none_or(|models| view.is_of(models).is_ok())
    })
}

/// A node about which it is asked, question by question, which pods are enough: its victims, and as few others of lower priority as have to
/// go for the pod to fit. Pods that come or go between two turns are as those that do after the answer.
struct Asked<'a> {
    node: NodeName<'a>,
    victims: MetaVictims<'a>,
    /// The node's pods, by UID, that are gone in the next question. A call may name a hundred thousand others.
    gone: BTreeSet<Arc<str>>,
    /// Those that have to go beside the victims, the most important one first.
    added: Vec<Holder>,
    next: Question,
}

/// Priority and UID of a pod that holds devices of the node.
type Holder = (i32, Arc<str>);

/// What is asked next.
enum Question {
    /// Whether the victims that kube-scheduler named are enough.
    Named,
    /// Whether all are that are less important than the pod; they are these, the most important one first.
    All(vec::IntoIter<Holder>),
    /// Whether the next of these can be spared.
    Spared(vec::IntoIter<Holder>),
}

/// What a question has led to.
enum Found {
    /// There is more to ask.
    Nothing,
    /// The pod fits once the victims are gone, and those that were added.
    Enough,
    /// It does not fit whoever goes, or it is not known who has to.
    NotEnough,
}

impl<'a> Asked<'a> {
    fn new(index: &Index, node: NodeName<'a>, victims: MetaVictims<'a>) -> Self {
        let named: BTreeSet<&str> = victims.pods.iter().flatten().map(|victim| &*victim.uid).collect();
        let uids = index.holders(&node.0).iter().map(|pod| &pod.uid);
        let gone = uids.filter(|uid| named.contains(&***uid)).cloned().collect();
        Self { node, victims, gone, added: Vec::new(), next: Question::Named }
    }

    fn ask(&mut self, index: &Index, priority: i32, pod: &mut EqualNodes) -> Found {
        let Self { node: NodeName(node), gone, added, next, .. } = self;
        match next {
            Question::Named if index.fits_without(node, gone, pod) == Some(true) => Found::Enough,
            Question::Named => {
                let below = index.holders(node).iter().filter(|pod| pod.priority < priority);
                let others = below.filter(|pod| !gone.contains(&pod.uid));
                let mut others: Vec<Holder> =
                    others.map(|pod| (pod.priority, Arc::clone(&pod.uid))).collect();
                others.sort_by_key(|(priority, _)| Reverse(*priority));
                gone.extend(others.iter().map(|(_, uid)| Arc::clone(uid)));
                *next = Question::All(others.into_iter());
                Found::Nothing
            }
            Question::All(others) if index.fits_without(node, gone, pod) == Some(true) => {
                *next = Question::Spared(std::mem::take(others));
                Found::Nothing
            }
            Question::All(_) => Found::NotEnough,
            Question::Spared(others) => {
                let Some(other) = others.next() else {
                    reached("extender: victims added to those of kube-scheduler");
                    return Found::Enough;
                };
                gone.remove(&other.1);
                match index.fits_without(node, gone, pod) {
                    Some(true) => Found::Nothing,
                    Some(false) => {
                        gone.insert(Arc::clone(&other.1));
                        added.push(other);
                        Found::Nothing
                    }
                    // Nobody ends of whom it is not known that it helps.
                    None => Found::NotEnough,
                }
            }
        }
    }

    /// The node and its victims with those that have been added, each before those that are less important: kube-scheduler takes the first one
    /// for the most important of a node.
    fn with_added(self, index: &Index) -> (NodeName<'a>, MetaVictims<'a>) {
        let Self { node, mut victims, added, .. } = self;
        if added.is_empty() {
            return (node, victims);
        }
        let priorities: BTreeMap<&str, i32> =
            index.holders(&node.0).iter().map(|pod| (&*pod.uid, pod.priority)).collect();
        let added_too: BTreeSet<Arc<str>> = added.iter().map(|(_, uid)| Arc::clone(uid)).collect();
        let mut added = added.into_iter().peekable();
        let victim = |(_, uid): Holder| MetaPod { uid: Cow::Owned(uid.to_string()) };
        let mut all = Vec::new();
        for named in victims.pods.take().unwrap_or_default() {
            if let Some(priority) = priorities.get(&*named.uid) {
                // The watch has shown it only after the first question.
                if added_too.contains(&*named.uid) {
                    continue;
                }
                while let Some(before) = added.next_if(|(other, _)| other > priority) {
                    all.push(victim(before));
                }
            }
            all.push(named);
        }
        all.extend(added.map(victim));
        victims.pods = Some(all);
        (node, victims)
    }
}
