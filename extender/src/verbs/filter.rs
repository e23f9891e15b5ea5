//! `/filter`: which of the given nodes can take a pod now, and why the others cannot. Writes nothing, so that autoscalers
//! may call it freely. Called by the routes.

use std::sync::Arc;

use neuron_core::claim::Claim;
use neuron_core::device_model::{DeviceModelError, DeviceModels};
use neuron_core::placement::{EqualNodes, Refusal};
use neuron_core::request::RequestError;
use runtime::reached;
use serde_json::value::RawValue;
use tokio::task::yield_now;
use tokio::time::Instant;
use tracing::{Instrument as _, debug, info_span};

use super::MOVES_OF_TURN;
use super::admitted::Admitted;
use super::answered::Answered;
use super::refusal_log::{Reasons, RefusalLog};
use crate::classic_log;
use crate::index::{Cluster, Indeterminate, Index, NodeNumber, NodeRefusal, NodeView, UNKNOWN_AT_MOST};
use crate::metrics::{Metrics, Verb};
use crate::note::Note;
use crate::wire::{BodyError, FilterArgs, FilterResult, FittingNodes, NodeList, NodeName, PodToPlace, Why};

/// Answers `/filter`. Clones share the cluster and what was logged.
#[derive(Clone)]
pub(crate) struct Filter {
    cluster: Arc<Cluster>,
    refusals: Arc<RefusalLog>,
    admitted: Arc<Admitted>,
    metrics: Arc<Metrics>,
    answered: Arc<Answered<EqualNodes>>,
}

impl Filter {
    /// A filter for this cluster.
    pub(crate) fn new(cluster: Arc<Cluster>, admitted: Arc<Admitted>, metrics: Arc<Metrics>) -> Self {
        let (refusals, answered) = (Arc::new(RefusalLog::new()), Arc::default());
        Self { cluster, refusals, admitted, metrics, answered }
    }

    /// Of how many pods the last refusal is remembered.
    pub(crate) fn refusals_logged(&self) -> usize {
        self.refusals.len()
    }

    /// Checks every given node. A failure of the call as a whole is in the answer's `error`.
    pub(crate) async fn filter<'a>(&self, args: FilterArgs<'a>) -> FilterResult<'a> {
        let FilterArgs { pod, nodes, node_names } = args;
        let Some(pod) = pod else {
            return FilterResult::failure(BodyError::Missing { verb: "filter", field: "Pod" });
        };
        let span = info_span!("filter", pod = pod.metadata.to_string());
        let answer = async {
            self.cluster
                .listed()
                .await
                .inspect_err(|_| reached("extender: filter before the first lists"))?;
            // kube-scheduler may have seen meanwhile what the watch will tell, and would not ask again after a refusal.
            if self.cluster.is_between_watches() || self.cluster.is_between_lease_watches() {
                match self.answer(&pod, nodes.clone(), node_names.clone(), AtGap::Waits).await {
                    Err(Indeterminate::BetweenWatches) => {
                        reached("extender: refusal put off between two watches");
                        self.cluster.watches_again().await;
                    }
                    Err(Indeterminate::BetweenLeaseWatches) => self.cluster.lease_watch_again().await,
                    answer => return answer,
                }
            }
            self.answer(&pod, nodes, node_names, AtGap::Tells).await
        };
        answer.instrument(span).await.unwrap_or_else(FilterResult::failure)
    }

    /// # Errors
    /// No node fits, but some may.
    async fn answer<'a>(
        &self,
        pod: &PodToPlace,
        nodes: Option<NodeList<'a>>,
        node_names: Option<Vec<NodeName<'a>>>,
        at_gap: AtGap,
    ) -> Result<FilterResult<'a>, Indeterminate> {
        let uid = &pod.metadata.uid;
        let PodToPlace { claim, request, .. } = pod;
        let models = self.cluster.read(|index| index.device_models(pod.metadata.device_model()));
        // The gaps are looked at before any node: what is told meanwhile may not be seen of each.
        let was_disconnected = self.cluster.read(Index::is_disconnected);
        let was_between_watches = self.cluster.is_between_watches();
        let was_between_lease_watches = self.cluster.is_between_lease_watches();
        let mut call = Call {
            cluster: &self.cluster,
            uid,
            models: models.as_ref().map(Option::as_ref),
            equal_nodes: request.as_ref().map(|request| self.answered.take(request)),
            claim: claim.as_ref(),
            leases_seen_until: None,
            is_a_plugin_silent: false,
            reasons: Reasons::default(),
            unknown: Note::new("; "),
            unclear: Note::new("; "),
            fitting: Vec::new(),
            last_refusal: None,
        };
        let mut answer = FilterResult::default();
        if let Some(nodes) = nodes {
            answer.nodes = Some(call.full_nodes(nodes, &mut answer).await);
        }
        if let Some(mut names) = node_names {
            call.remove_refused(&mut names, |name| name, &mut answer).await;
            answer.node_names = Some(names);
        }
        let Call { is_a_plugin_silent, reasons, unknown, unclear, fitting: mut takers, equal_nodes, .. } =
            call;
        if let Ok(searched) = equal_nodes {
            self.metrics.searched(Verb::Filter, searched.cost());
            self.answered.keep(searched);
        }

        let still_waits = |uid: &str| self.cluster.read(|index| matches!(index.pod(uid), Some((_, None))));
        let fitting = answer.fitting();
        if fitting > 0 {
            // The pod is logged when it is bound.
            debug!(nodes = fitting, "nodes take the pod");
            self.refusals.fits(uid);
            classic_log::filtered(&pod.metadata, &answer);
            // Who names a node many times must not have it remembered as often.
            if takers.len() > self.cluster.read(Index::node_count) {
                takers.sort_unstable();
                takers.dedup();
            }
            self.admitted.admit(uid, &takers, still_waits);
            return Ok(answer);
        }
        let reason = if request.is_err() {
            reached("extender: filter of a request that cannot be read");
            None
        } else if was_disconnected || self.cluster.read(Index::is_disconnected) {
            reached("extender: filter while a watch is disconnected");
            Some(Indeterminate::Disconnected)
        } else if was_between_watches || self.cluster.is_between_watches() {
            if at_gap == AtGap::Waits {
                return Err(Indeterminate::BetweenWatches);
            }
            reached("extender: filter between two watches");
            Some(Indeterminate::BetweenWatches)
        } else if is_a_plugin_silent && (was_between_lease_watches || self.cluster.is_between_lease_watches())
        {
            if at_gap == AtGap::Waits {
                return Err(Indeterminate::BetweenLeaseWatches);
            }
            Some(Indeterminate::BetweenLeaseWatches)
        } else if !unclear.is_empty() {
            reached("extender: filter met an unclear reservation");
            Some(Indeterminate::UnclearReservations(unclear.text("")))
        } else if unknown.is_empty() {
            self.refusals.is_known(uid);
            None
        } else if self.refusals.unknown_for(uid, still_waits) <= UNKNOWN_AT_MOST {
            reached("extender: filter met an unknown holder");
            Some(Indeterminate::UnknownNodes(unknown.text("")))
        } else {
            reached("extender: refused, a holder stays unknown");
            None
        };
        match reason {
            Some(reason) => {
                self.refusals.indeterminate(uid, &reason, still_waits);
                Err(reason)
            }
            None => {
                self.metrics.refused(reasons.names());
                if self.refusals.refused(uid, &reasons, still_waits) {
                    classic_log::filtered(&pod.metadata, &answer);
                }
                Ok(answer)
            }
        }
    }
}

/// What becomes of a refusal between two watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AtGap {
    /// The caller waits for what the next watch tells, and asks again.
    Waits,
    /// It is told, and logged, that nothing is known.
    Tells,
}

/// How far a call has come with its nodes.
#[derive(Default)]
struct Sorted {
    looked_at: usize,
    /// Those that take the pod, which stand before all others.
    fitting: usize,
}

/// One call.
struct Call<'c> {
    cluster: &'c Cluster,
    uid: &'c str,
    equal_nodes: Result<EqualNodes, &'c RequestError>,
    claim: Option<&'c Claim>,
    /// The device models that the pod's author wants, if any.
    models: Result<Option<&'c DeviceModels>, &'c DeviceModelError>,
    /// Until when renewals of Leases would have been seen; none before the first list of Leases.
    leases_seen_until: Option<Instant>,
    /// Whether a node takes the pod but for its plugin, which counts as silent.
    is_a_plugin_silent: bool,
    reasons: Reasons,
    /// Nodes that may or may not be able to take the pod, each with the reason.
    unknown: Note,
    /// Nodes that take the pod if one whose Binding is unclear was not bound there, each with the reason.
    unclear: Note,
    /// Nodes that take the pod.
    fitting: Vec<NodeNumber>,
    /// The refusal before, and its text: most nodes that refuse a pod do it for the same reason.
    last_refusal: Option<(NodeRefusal, Arc<str>)>,
}

impl Call<'_> {
    async fn full_nodes<'a>(
        &mut self,
        nodes: NodeList<'a>,
        answer: &mut FilterResult<'a>,
    ) -> FittingNodes<'a> {
        let mut nodes = nodes.items.unwrap_or_default();
        self.remove_refused(&mut nodes, |node| &node.name, answer).await;
        let items: Vec<&RawValue> = nodes.into_iter().map(|node| node.json).collect();
        FittingNodes { items, ..FittingNodes::default() }
    }

    /// Removes the nodes that cannot take the pod; why goes to `answer`. Others get a turn where much has to be searched, and the index
    /// is free meanwhile.
    async fn remove_refused<'a, T>(
        &mut self,
        nodes: &mut Vec<T>,
        name: fn(&T) -> &NodeName<'a>,
        answer: &mut FilterResult<'a>,
    ) {
        let cluster = self.cluster;
        let mut sorted = Sorted::default();
        self.fitting.reserve(nodes.len());
        while cluster.read(|index| self.take_turn(index, nodes, &mut sorted, name, answer)) {
            yield_now().await;
        }
        nodes.truncate(sorted.fitting);
    }

    /// Looks at nodes until none is left or a turn has been searched, and moves those that take the pod to the front. Whether some are
    /// left.
    fn take_turn<'a, T>(
        &mut self,
        index: &Index,
        nodes: &mut [T],
        sorted: &mut Sorted,
        name: fn(&T) -> &NodeName<'a>,
        answer: &mut FilterResult<'a>,
    ) -> bool {
        let now = Instant::now();
        self.leases_seen_until = index.leases_seen_until(now);
        let reserved = index.reservations_of(self.uid);
        let moves = |call: &Self| call.equal_nodes.as_ref().map_or(0, |searched| searched.cost().moves);
        let end = moves(self).saturating_add(MOVES_OF_TURN);
        while let Some(node) = nodes.get(sorted.looked_at).map(name) {
            let view = index.view(&node.0);
            let reservation = reserved.and_then(|nodes| nodes.get(&*node.0));
            let is_reserved =
                reservation.is_some_and(|reserved| view.is_some_and(|view| view.can_still_give(reserved)));
            match self.check(view, is_reserved) {
                Ok(()) => {
                    self.fitting.extend(view.map(|view| view.number));
                    nodes.swap(sorted.fitting, sorted.looked_at);
                    sorted.fitting += 1;
                }
                Err(refusal) => self.refuse(node, refusal, answer),
            }
            sorted.looked_at += 1;
            if moves(self) >= end {
                return true;
            }
        }
        false
    }

    fn refuse<'a>(&mut self, node: &NodeName<'a>, refusal: NodeRefusal, answer: &mut FilterResult<'a>) {
        #[cfg(planted)]
        let refusal = refusal.as_planted();
        let reason = self.text(&refusal);
        refusal.count();
        self.reasons.add(&refusal, &reason);
        // The next call goes on with the nodes to which this one has not come.
        let has_its_turn_to_come =
            matches!(refusal, NodeRefusal::Placement(Refusal::NotDecided { .. })) && self.is_spent();
        match refusal {
            NodeRefusal::UnclearReservation { .. } => self.unclear.add(1, || reason.to_string()),
            NodeRefusal::PluginSilent { .. } => self.is_a_plugin_silent = true,
            _ if has_its_turn_to_come || refusal.is_indeterminate() => {
                self.unknown.add(1, || format!("{node}: {reason}"));
            }
            _ => {}
        }
        let failed = if refusal.is_permanent() {
            &mut answer.failed_and_unresolvable_nodes
        } else {
            &mut answer.failed_nodes
        };
        failed.insert(node.clone(), Why(reason));
    }

    /// Whether nodes may not have been searched for want of moves.
    fn is_spent(&self) -> bool {
        self.equal_nodes.as_ref().is_ok_and(EqualNodes::is_spent)
    }

    fn text(&mut self, refusal: &NodeRefusal) -> Arc<str> {
        if let Some((last, text)) = &self.last_refusal
            && last == refusal
        {
            return Arc::clone(text);
        }
        let text = refusal.to_string();
        // Planted: more is said to be free than is.
        #[cfg(planted)]
        let text = if runtime::is_planted("free-told-wrong") {
            text.replacen(", free ", ", free 1", 1)
        } else {
            text
        };
        let text: Arc<str> = text.into();
        self.last_refusal = Some((refusal.clone(), Arc::clone(&text)));
        text
    }

    fn check(&mut self, view: Option<&NodeView>, is_reserved: bool) -> Result<(), NodeRefusal> {
        let equal_nodes = self.equal_nodes.as_mut().map_err(|error| error.clone())?;
        let is_empty = equal_nodes.request().is_empty();
        if is_empty && self.claim.is_none() {
            return Ok(());
        }
        let view = view.ok_or_else(|| {
            reached("extender: filter of an unknown node");
            NodeRefusal::UnknownNode
        })?;
        view.admits_claim(self.claim)
            .inspect_err(|_| reached("extender: filter of a pod with a claim refused"))?;
        if is_empty {
            return Ok(());
        }
        if let Some(models) = self.models.map_err(Clone::clone)? {
            view.is_of(models)?;
        }
        // The pod's own earlier bind, whose outcome is not known yet, holds what it would get.
        if is_reserved {
            reached("extender: filter of a pod with a reservation");
        } else {
            view.fits(equal_nodes)?;
        }
        // Last: what never fits stays so, whether or not the plugin comes back.
        view.has_a_living_plugin(self.leases_seen_until)
    }
}

#[cfg(test)]
mod leases;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod turns;
