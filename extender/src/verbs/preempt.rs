//! `/preempt`: of the nodes on which kube-scheduler would end pods for a pod, those where it then finds a set that its type allows, and
//! which pods have to go for it. Writes nothing. Called by the routes.
//!
//! kube-scheduler counts devices and knows nothing of links: its victims may free enough that is not linked. Then others of lower
//! priority are added, as few as help. Their PodDisruptionBudgets are not looked at.

use std::collections::{BTreeMap, BTreeSet};

use neuron_core::device_model::DeviceModels;
use neuron_core::placement::{EqualNodes, SearchCost};
use neuron_core::request::PodRequest;
use runtime::reached;
use tokio::task::yield_now;
use tokio::time::Instant;
use tracing::{Instrument as _, debug, info_span};

use super::MOVES_OF_TURN;
use crate::index::{Cluster, Indeterminate, Index};
use crate::metrics::{Metrics, Verb};
use crate::wire::{BodyError, MetaPod, MetaVictims, NodeName, PodToPlace, PreemptArgs, PreemptResult};

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
    let named: BTreeMap<NodeName<'a>, MetaVictims> = match meta_victims {
        Some(named) => named.into_iter().filter_map(|(node, victims)| Some((node, victims?))).collect(),
        None => {
            victims.unwrap_or_default().into_iter().map(|(node, victims)| (node, victims.meta())).collect()
        }
    };
    let request = pod.request().unwrap_or_default();
    if request.is_empty() {
        // What the pod asks for is none of the extender's.
        return Ok(PreemptResult { meta_victims: named });
    }
    let span = info_span!("preempt", pod = pod.metadata.to_string());
    let asked = named.len();
    let kept = with_victims(cluster, &pod, &request, named);
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
    named: BTreeMap<NodeName<'a>, MetaVictims>,
) -> Result<(BTreeMap<NodeName<'a>, MetaVictims>, SearchCost), Indeterminate> {
    let mut equal_nodes = EqualNodes::new(request);
    let priority = pod.spec.priority.unwrap_or_default();
    let (mut left, mut kept) = (named.into_iter(), BTreeMap::new());
    let mut take_turn = |index: &Index| {
        if index.is_disconnected() {
            return Err(Indeterminate::Disconnected);
        }
        // A text that names no model has no node.
        let Ok(models) = index.device_models(pod.metadata.device_model()) else { return Ok(false) };
        let end = equal_nodes.cost().moves.saturating_add(MOVES_OF_TURN);
        for (node, victims) in left.by_ref() {
            if is_wanted(index, &node.0, models.as_ref())
                && let Some(victims) = enough(index, &node.0, priority, victims, &mut equal_nodes)
            {
                kept.insert(node, victims);
            }
            if equal_nodes.cost().moves >= end {
                return Ok(true);
            }
        }
        Ok(false)
    };
    while cluster.read(&mut take_turn)? {
        yield_now().await;
    }
    Ok((kept, equal_nodes.cost()))
}

/// Whether the node is of a model that the pod's author wants, and its plugin lives.
fn is_wanted(index: &Index, node: &str, models: Option<&DeviceModels>) -> bool {
    let now = Instant::now();
    index.view(node).is_some_and(|view| {
        let lives = !index.leases_are_seen(now) || view.has_a_living_plugin(now).is_ok();
        lives && models.is_none_or(|models| view.is_of(models).is_ok())
    })
}

/// The victims, and as few others of lower priority as have to go for the pod to fit; none if it does not fit without all of them.
fn enough(
    index: &Index,
    node: &str,
    priority: i32,
    mut victims: MetaVictims,
    pod: &mut EqualNodes,
) -> Option<MetaVictims> {
    let named: Vec<String> = victims.pods.iter().flatten().map(|victim| victim.uid.clone()).collect();
    let mut gone: BTreeSet<&str> = named.iter().map(String::as_str).collect();
    if index.fits_without(node, &gone, pod) {
        return Some(victims);
    }
    let mut others = index.holders_below(node, priority);
    others.retain(|(_, uid)| !gone.contains(uid));
    gone.extend(others.iter().map(|(_, uid)| uid));
    if !index.fits_without(node, &gone, pod) {
        return None;
    }
    // The most important ones are spared first.
    others.sort_by(|(one, uid), (other, with)| other.cmp(one).then_with(|| uid.cmp(with)));
    for (_, uid) in others {
        gone.remove(uid);
        if !index.fits_without(node, &gone, pod) {
            gone.insert(uid);
            add(index, node, victims.pods.get_or_insert_default(), uid);
        }
    }
    reached("extender: victims added to those of kube-scheduler");
    Some(victims)
}

/// Adds a victim before those that are less important: kube-scheduler takes the first one for the most important of a node.
fn add(index: &Index, node: &str, victims: &mut Vec<MetaPod>, uid: &str) {
    let priority = index.priority(node, uid);
    let is_less = |other: &MetaPod| index.priority(node, &other.uid) < priority;
    let at = victims.iter().position(|other| index.priority(node, &other.uid).is_some() && is_less(other));
    victims.insert(at.unwrap_or(victims.len()), MetaPod { uid: uid.to_owned() });
}
