//! One scheduling cycle: from a pod to the node it shall go to, or why there is none. Changes nothing.

use std::collections::BTreeMap;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{Pod, PodSpec};

use super::cache::NodeView;
use super::extender::{Extender, ExtenderError};
use super::fit;
use super::score;
use super::verdict::{Diagnosis, Refusal, Refuser};
use crate::amounts::pod_request;

/// What a cycle works with.
pub(super) struct Cycle<'a> {
    pub(super) extenders: &'a [Extender],
    /// Resources that NodeResourcesFit leaves to extenders.
    pub(super) ignored: &'a std::collections::BTreeSet<String>,
    pub(super) seed: u64,
}

/// A cycle that found no node.
#[derive(Debug, thiserror::Error)]
pub(super) enum CycleError {
    #[error("no nodes available to schedule pods")]
    NoNodes,
    #[error("no node takes the pod")]
    Unschedulable(Diagnosis),
    #[error("{0}")]
    Extender(#[from] ExtenderError),
}

impl Cycle<'_> {
    /// The name of the node for `pod` (called `name` when the seed must choose) among all `nodes`, of which
    /// the search starts at the `start`th; also how many nodes were looked at.
    pub(super) async fn run(
        &self,
        pod: &Pod,
        name: &str,
        nodes: Vec<NodeView>,
        start: usize,
    ) -> (usize, Result<String, CycleError>) {
        if nodes.is_empty() {
            return (0, Err(CycleError::NoNodes));
        }
        let spec = pod.spec.clone().unwrap_or_default();
        let mut diagnosis = Diagnosis { nodes: nodes.len(), ..Diagnosis::default() };
        let feasible = self.in_tree(&spec, nodes, start, &mut diagnosis);
        let looked_at = feasible.len() + diagnosis.refusals.len();
        let feasible = match self.ask_filters(pod, feasible, &mut diagnosis).await {
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

    /// Nodes that pass the in-tree filters, until enough are found.
    fn in_tree(
        &self,
        spec: &PodSpec,
        mut nodes: Vec<NodeView>,
        start: usize,
        diagnosis: &mut Diagnosis,
    ) -> Vec<NodeView> {
        let wanted = enough(nodes.len());
        let start = start % nodes.len().max(1);
        nodes.rotate_left(start);
        let request = pod_request(spec);
        let mut feasible = Vec::new();
        for view in nodes {
            if feasible.len() == wanted {
                break;
            }
            let verdict = super::filters::check(spec, &view.node).and_then(|()| {
                fit::fits(&request, &view.used, view.pods.len(), &view.allocatable, self.ignored)
            });
            match verdict {
                Ok(()) => feasible.push(view),
                Err(refusal) => {
                    diagnosis.refusals.insert(view.name, refusal);
                }
            }
        }
        feasible
    }

    /// The extenders' filters, one after another over what the one before left.
    async fn ask_filters(
        &self,
        pod: &Pod,
        mut feasible: Vec<NodeView>,
        diagnosis: &mut Diagnosis,
    ) -> Result<Vec<NodeView>, ExtenderError> {
        let before = feasible.len();
        for extender in self.extenders.iter().filter(|extender| extender.is_interested(pod)) {
            if feasible.is_empty() {
                break;
            }
            let filtered = match extender.filter(pod, feasible.clone()).await {
                Ok(filtered) => filtered,
                Err(error) if extender.is_ignorable() => {
                    tracing::info!(%error, "an ignorable extender failed; the cycle goes on without it");
                    continue;
                }
                Err(error) => return Err(error),
            };
            // A node in both maps counts as unresolvable.
            for (texts, resolvable) in [(filtered.failed, true), (filtered.unresolvable, false)] {
                for (node, text) in texts {
                    let refusal = Refusal { by: Refuser::Extender, resolvable, reasons: vec![text] };
                    diagnosis.refusals.insert(node, refusal);
                }
            }
            feasible = filtered.passed;
        }
        diagnosis.extender_refused = feasible.len() != before;
        Ok(feasible)
    }

    async fn scores(&self, pod: &Pod, spec: &PodSpec, nodes: &[NodeView]) -> Vec<(String, i64)> {
        let interested = self.extenders.iter().filter(|extender| extender.is_interested(pod));
        let answers = join_all(interested.map(|extender| extender.prioritize(pod, nodes))).await;
        let mut extra: BTreeMap<String, i64> = BTreeMap::new();
        for answer in answers {
            match answer {
                Ok(scores) => scores.into_iter().for_each(|(node, score)| {
                    let sum = extra.entry(node).or_insert(0);
                    *sum = sum.saturating_add(score);
                }),
                Err(error) => tracing::debug!(%error, "an extender gave no scores; the others decide"),
            }
        }
        let request = pod_request(spec);
        let total = |view: &NodeView| {
            let extra = extra.get(&view.name).copied().unwrap_or(0);
            (view.name.clone(), score::least_allocated(&request, view).saturating_add(extra))
        };
        nodes.iter().map(total).collect()
    }
}

/// How many feasible nodes end the search: all of up to 99, else 50 % less 1 % per 125 nodes, at least 5 %
/// and at least 100.
fn enough(nodes: usize) -> usize {
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
        let found: Vec<usize> = [1, 99, 100, 1000, 5000, 10_000].map(enough).into();
        assert_eq!(found, [1, 99, 100, 420, 500, 500]);
    }
}
