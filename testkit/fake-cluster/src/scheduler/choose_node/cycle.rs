//! One scheduling cycle: the node for a pod, or why there is none. It changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use kube::ResourceExt;

use super::diagnosis::{Diagnosis, Refusal, RefusedBy};
use super::{node_filters, resource_fit, score};
use crate::amounts::{Amounts, pod_request};
use crate::scheduler::cache::NodeInfo;
use crate::scheduler::extender::client::Extender;
use crate::scheduler::extender::error::ExtenderError;
use crate::scheduler::nominations::Kept;

/// What a cycle works with.
pub(crate) struct Cycle<'a> {
    pub(crate) extenders: &'a [Extender],
    pub(crate) ignored_resources: &'a BTreeSet<String>,
    /// What is kept on nodes for pods that are at least as important.
    pub(crate) kept: Kept,
    pub(crate) seed: u64,
}

/// A cycle that found no node.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CycleError {
    #[error("no nodes available to schedule pods")]
    NoNodes,
    #[error("no node takes the pod")]
    Unschedulable(Diagnosis),
    #[error("{0}")]
    Extender(#[from] ExtenderError),
}

impl Cycle<'_> {
    /// The node for `pod` among all `nodes`, searched from the `start`th on, and how many nodes were looked at. `name` and
    /// the seed decide among equals.
    pub(crate) async fn run(
        &self,
        pod: &Pod,
        name: &str,
        nodes: Vec<Arc<NodeInfo>>,
        start: usize,
    ) -> (usize, Result<String, CycleError>) {
        if nodes.is_empty() {
            return (0, Err(CycleError::NoNodes));
        }
        let spec = pod.spec.clone().unwrap_or_default();
        if let Some(node) = self.nominated(pod, &spec, &nodes).await {
            return (0, Ok(node));
        }
        let mut diagnosis = Diagnosis { nodes: nodes.len(), ..Diagnosis::default() };
        let feasible = self.pass_in_tree_filters(&spec, nodes, start, &mut diagnosis);
        let looked_at = feasible.len() + diagnosis.refusals.len();
        let feasible = match self.ask_extenders(pod, feasible, &mut diagnosis).await {
            Ok(feasible) => feasible,
            Err(error) => return (looked_at, Err(error.into())),
        };
        let chosen = match feasible.as_slice() {
            [] => None,
            [only] => Some(only.name.clone()),
            _ => score::choose(&self.scores(pod, &spec, &feasible).await, self.seed, name),
        };
        (looked_at, chosen.ok_or(CycleError::Unschedulable(diagnosis)))
    }

    /// The node for which others were ended, if it takes the pod now: it is tried before all others, and alone.
    async fn nominated(&self, pod: &Pod, spec: &PodSpec, nodes: &[Arc<NodeInfo>]) -> Option<String> {
        let name = pod.status.as_ref()?.nominated_node_name.as_deref()?;
        let node = nodes.iter().find(|node| node.name == name)?;
        let mut unused = Diagnosis::default();
        let feasible = self.pass_in_tree_filters(spec, vec![Arc::clone(node)], 0, &mut unused);
        match self.ask_extenders(pod, feasible, &mut unused).await {
            Ok(feasible) => feasible.first().map(|node| node.name.clone()),
            Err(error) => {
                tracing::debug!(pod = %pod.name_any(), %error, "the nominated node could not be looked at; all are");
                None
            }
        }
    }

    /// Nodes that pass the in-tree filters, until enough are found.
    fn pass_in_tree_filters(
        &self,
        spec: &PodSpec,
        mut nodes: Vec<Arc<NodeInfo>>,
        start: usize,
        diagnosis: &mut Diagnosis,
    ) -> Vec<Arc<NodeInfo>> {
        let wanted = enough_feasible(nodes.len());
        let start = start % nodes.len().max(1);
        nodes.rotate_left(start);
        let request = pod_request(spec);
        let mut feasible = Vec::new();
        for node in nodes {
            if feasible.len() == wanted {
                break;
            }
            let fits = |used: &Amounts, pods| {
                resource_fit::fits(&request, used, pods, &node.allocatable, self.ignored_resources)
            };
            let checked =
                node_filters::check(spec, &node.node).and_then(|()| match self.kept.get(&node.name) {
                    None => fits(&node.used, node.pods.len()),
                    Some((amounts, count)) => {
                        let mut used = node.used.clone();
                        used.add(amounts);
                        fits(&used, node.pods.len() + count)
                    }
                });
            match checked {
                Ok(()) => feasible.push(node),
                Err(refusal) => {
                    diagnosis.refusals.insert(node.name.clone(), refusal);
                }
            }
        }
        feasible
    }

    /// The nodes that pass the extenders' filters, each asked about what the one before left.
    async fn ask_extenders(
        &self,
        pod: &Pod,
        mut feasible: Vec<Arc<NodeInfo>>,
        diagnosis: &mut Diagnosis,
    ) -> Result<Vec<Arc<NodeInfo>>, ExtenderError> {
        let before = feasible.len();
        for extender in self.extenders.iter().filter(|extender| extender.is_interested(pod)) {
            if feasible.is_empty() {
                break;
            }
            let filtered = match extender.filter(pod, feasible.clone()).await {
                Ok(filtered) => filtered,
                Err(error) if extender.is_ignorable() => {
                    tracing::info!(pod = %pod.name_any(), %error, "an ignorable extender failed; the cycle continues without it");
                    continue;
                }
                Err(error) => return Err(error),
            };
            // A node in both maps counts as unresolvable.
            for (texts, resolvable) in [(filtered.failed, true), (filtered.unresolvable, false)] {
                for (name, text) in texts {
                    let refusal = Refusal { by: RefusedBy::Extender, resolvable, reasons: vec![text] };
                    diagnosis.refusals.insert(name, refusal);
                }
            }
            feasible = filtered.passed;
        }
        diagnosis.extender_refused = feasible.len() != before;
        Ok(feasible)
    }

    async fn scores(&self, pod: &Pod, spec: &PodSpec, nodes: &[Arc<NodeInfo>]) -> Vec<(String, i64)> {
        let interested = self.extenders.iter().filter(|extender| extender.is_interested(pod));
        let answers = join_all(interested.map(|extender| extender.prioritize(pod, nodes))).await;
        let mut extra: BTreeMap<String, i64> = BTreeMap::new();
        for answer in answers {
            match answer {
                Ok(scores) => scores.into_iter().for_each(|(node, score)| {
                    let sum = extra.entry(node).or_insert(0);
                    *sum = sum.saturating_add(score);
                }),
                Err(error) => {
                    tracing::debug!(pod = %pod.name_any(), %error, "an extender gave no scores; the others decide")
                }
            }
        }
        let request = pod_request(spec);
        let total = |node: &Arc<NodeInfo>| {
            let extra = extra.get(&node.name).copied().unwrap_or(0);
            (node.name.clone(), score::least_allocated(&request, node).saturating_add(extra))
        };
        nodes.iter().map(total).collect()
    }
}

/// How many feasible nodes end the search: all of up to 99 nodes, else 50 % less 1 % per 125 nodes, at least 5 % and at
/// least 100 (kube-scheduler's numFeasibleNodesToFind).
fn enough_feasible(nodes: usize) -> usize {
    if nodes < 100 {
        return nodes;
    }
    let percent = 50usize.saturating_sub(nodes / 125).max(5);
    (nodes * percent / 100).max(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_clusters_are_searched_in_part() {
        let found: Vec<usize> = [1, 99, 100, 1000, 5000, 10_000].map(enough_feasible).into();
        assert_eq!(found, [1, 99, 100, 420, 500, 500]);
    }
}
