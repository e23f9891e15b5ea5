//! `/filter`: which of the given nodes can take a pod now, and why the others cannot. Writes nothing, so that autoscalers
//! may call it freely. Called by the routes.

use neuron_core::request::{PodRequest, RequestError};
use serde_json::value::RawValue;
use tracing::{debug, info};

use crate::index::{Cluster, Indeterminate, Index, NodeRefusal, NodeView};
use crate::wire::{
    BodyError, FilterArgs, FilterResult, FittingNodes, NodeList, NodeName, PodMetadata, PodToPlace,
};

/// Checks every given node. A failure of the call as a whole is in the answer's `error`.
pub(crate) async fn filter<'a>(cluster: &Cluster, args: FilterArgs<'a>) -> FilterResult<'a> {
    let FilterArgs { pod, nodes, node_names } = args;
    let Some(pod) = pod else {
        return FilterResult::failure(BodyError::Missing { verb: "filter", field: "Pod" });
    };
    if let Err(error) = cluster.listed().await {
        return FilterResult::failure(error);
    }
    let request = PodRequest::of(&pod.spec);
    let mut filter = Filter { cluster, pod: &pod, request: &request, indeterminate: Vec::new() };
    let mut answer = FilterResult::default();
    answer.nodes = nodes.map(|nodes| filter.full_nodes(nodes, &mut answer));
    answer.node_names = node_names.map(|names| filter.names(names, &mut answer));
    filter.log(&answer);
    if request.is_ok() && fitting(&answer) == 0 {
        if cluster.read(Index::is_disconnected) {
            return FilterResult::failure(Indeterminate::Disconnected);
        }
        if !filter.indeterminate.is_empty() {
            return FilterResult::failure(Indeterminate::UnknownHolders(filter.indeterminate.join("; ")));
        }
    }
    answer
}

/// How many nodes can take the pod.
fn fitting(answer: &FilterResult<'_>) -> usize {
    match (&answer.node_names, &answer.nodes) {
        (Some(names), _) => names.len(),
        (None, Some(nodes)) => nodes.items.len(),
        (None, None) => 0,
    }
}

/// One call.
struct Filter<'a> {
    cluster: &'a Cluster,
    pod: &'a PodToPlace,
    request: &'a Result<PodRequest, RequestError>,
    /// Nodes of which it is not known whether they can take the pod, each with the reason.
    indeterminate: Vec<String>,
}

impl Filter<'_> {
    fn full_nodes<'a>(&mut self, nodes: NodeList<'a>, answer: &mut FilterResult<'a>) -> FittingNodes<'a> {
        let mut nodes = nodes.items.unwrap_or_default();
        self.remove_refused(&mut nodes, |node| &node.name, answer);
        let items: Vec<&RawValue> = nodes.into_iter().map(|node| node.json).collect();
        FittingNodes { items, ..FittingNodes::default() }
    }

    fn names<'a>(
        &mut self,
        mut names: Vec<NodeName<'a>>,
        answer: &mut FilterResult<'a>,
    ) -> Vec<NodeName<'a>> {
        self.remove_refused(&mut names, |name| name, answer);
        names
    }

    /// Removes the nodes that cannot take the pod; why goes to `answer`.
    fn remove_refused<'a, T>(
        &mut self,
        nodes: &mut Vec<T>,
        name: fn(&T) -> &NodeName<'a>,
        answer: &mut FilterResult<'a>,
    ) {
        let (cluster, uid) = (self.cluster, &self.pod.metadata.uid);
        cluster.read(|index| {
            let reserved = index.reservations_of(uid);
            nodes.retain(|node| {
                let node = name(node);
                let is_reserved = reserved.is_some_and(|nodes| nodes.contains_key(&*node.0));
                let Err(refusal) = self.check(index.view(&node.0), is_reserved) else { return true };
                let reason = refusal.to_string();
                if refusal.is_indeterminate() {
                    self.indeterminate.push(format!("{node}: {reason}"));
                }
                let failed = if refusal.is_permanent() {
                    &mut answer.failed_and_unresolvable_nodes
                } else {
                    &mut answer.failed_nodes
                };
                failed.insert(node.clone(), reason);
                false
            });
        });
    }

    fn check(&self, view: Option<&NodeView>, is_reserved: bool) -> Result<(), NodeRefusal> {
        let request = self.request.as_ref().map_err(Clone::clone)?;
        if request.is_empty() {
            return Ok(());
        }
        let view = view.ok_or(NodeRefusal::UnknownNode)?;
        // The pod's own earlier bind, whose outcome is not known yet, holds what it would get.
        if is_reserved { Ok(()) } else { view.fits(request) }
    }

    /// A pod that fits is logged when it is bound.
    fn log(&self, answer: &FilterResult<'_>) {
        let PodMetadata { namespace, name, .. } = &self.pod.metadata;
        let refused = answer.failed_nodes.len() + answer.failed_and_unresolvable_nodes.len();
        match fitting(answer) {
            0 => info!("pod {namespace}/{name} fits none of {refused} nodes"),
            fitting => debug!("pod {namespace}/{name} fits {fitting} of {} nodes", fitting + refused),
        }
    }
}
