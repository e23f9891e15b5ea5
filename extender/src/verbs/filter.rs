//! `/filter`: which of the asked nodes can take a pod now, and why not the others. Writes nothing, so that
//! autoscalers may call it freely. Called by the routes.

use neuron_core::request::PodRequest;
use serde_json::value::RawValue;
use tracing::{debug, info};

use crate::index::{Cluster, Index, NodeView};
use crate::wire::{
    BodyError, FilterArgs, FilterResult, FittingNodes, NodeList, NodeName, PodMetadata, PodToPlace,
};

/// Judges every asked node. A failure of the call as a whole is in the answer's `error`.
pub(crate) async fn filter<'a>(cluster: &Cluster, args: FilterArgs<'a>) -> FilterResult<'a> {
    let FilterArgs { pod, nodes, node_names } = args;
    let Some(pod) = pod else {
        return FilterResult::failure(BodyError::Missing { verb: "filter", field: "Pod" });
    };
    if let Err(error) = cluster.listed().await {
        return FilterResult::failure(error);
    }
    let request = PodRequest::of(&pod.spec).map_err(|error| error.to_string());
    let mut judge = Judge { cluster, pod: &pod, request: &request, unclear: Vec::new() };
    let mut answer = FilterResult::default();
    answer.nodes = nodes.map(|nodes| judge.full_nodes(nodes, &mut answer));
    answer.node_names = node_names.map(|names| judge.names(names, &mut answer));
    judge.log(&answer);
    if request.is_ok() && fitting(&answer) == 0 {
        // kube-scheduler tries a pod again only when it sees something change, and what has changed it may have seen
        // before us. After an error it tries again of itself.
        if cluster.read(Index::is_cut) {
            return FilterResult::failure(Unclear::Cut);
        }
        if !judge.unclear.is_empty() {
            return FilterResult::failure(Unclear::Holders(judge.unclear.join("; ")));
        }
    }
    answer
}

/// Why it is not known whether a pod that seems to fit nowhere fits: it is not refused for what passes.
#[derive(Debug, thiserror::Error)]
enum Unclear {
    #[error("the watch of pods and nodes is cut, so what is free is not known; it is being taken up again")]
    Cut,
    /// By node.
    #[error("{0}")]
    Holders(String),
}

/// How many nodes can take the pod.
fn fitting(answer: &FilterResult<'_>) -> usize {
    match (&answer.node_names, &answer.nodes) {
        (Some(names), _) => names.len(),
        (None, Some(nodes)) => nodes.items.len(),
        (None, None) => 0,
    }
}

struct Judge<'a> {
    cluster: &'a Cluster,
    pod: &'a PodToPlace,
    request: &'a Result<PodRequest, String>,
    /// Of nodes that may turn out to fit in a moment: the node and why that is not known now.
    unclear: Vec<String>,
}

/// Why a node drops out.
struct Dropped {
    why: String,
    is_permanent: bool,
    is_unclear: bool,
}

impl Judge<'_> {
    fn full_nodes<'a>(&mut self, nodes: NodeList<'a>, answer: &mut FilterResult<'a>) -> FittingNodes<'a> {
        let mut nodes = nodes.items.unwrap_or_default();
        self.judge(&mut nodes, |node| &node.name, answer);
        let items: Vec<&RawValue> = nodes.into_iter().map(|node| node.json).collect();
        FittingNodes { items, ..FittingNodes::default() }
    }

    fn names<'a>(
        &mut self,
        mut names: Vec<NodeName<'a>>,
        answer: &mut FilterResult<'a>,
    ) -> Vec<NodeName<'a>> {
        self.judge(&mut names, |name| name, answer);
        names
    }

    /// Takes out the nodes that cannot take the pod; why not goes to `answer`.
    fn judge<'a, T>(
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
                let Err(Dropped { why, is_permanent, is_unclear }) =
                    self.admits(index.view(&node.0), is_reserved)
                else {
                    return true;
                };
                if is_unclear {
                    self.unclear.push(format!("{node}: {why}"));
                }
                let failed = if is_permanent {
                    &mut answer.failed_and_unresolvable_nodes
                } else {
                    &mut answer.failed_nodes
                };
                failed.insert(node.clone(), why);
                false
            });
        });
    }

    fn admits(&self, view: Option<&NodeView>, is_reserved: bool) -> Result<(), Dropped> {
        let never = |why: &str| Dropped { why: why.to_owned(), is_permanent: true, is_unclear: false };
        let request = self.request.as_ref().map_err(|why| never(why))?;
        if request.is_empty() {
            return Ok(());
        }
        let view = view.ok_or_else(|| never("the Neuron scheduler knows no node of this name"))?;
        // Its own earlier bind, whose outcome is not known yet, holds what it would get.
        if is_reserved {
            return Ok(());
        }
        view.admits(request).map_err(|denial| Dropped {
            is_permanent: denial.is_permanent(),
            is_unclear: denial.is_unclear(),
            why: denial.to_string(),
        })
    }

    /// A pod that fits is heard of again when it is bound.
    fn log(&self, answer: &FilterResult<'_>) {
        let PodMetadata { namespace, name, .. } = &self.pod.metadata;
        let refused = answer.failed_nodes.len() + answer.failed_and_unresolvable_nodes.len();
        match fitting(answer) {
            0 => info!("pod {namespace}/{name} fits none of {refused} nodes"),
            fitting => debug!("pod {namespace}/{name} fits {fitting} of {} nodes", fitting + refused),
        }
    }
}
