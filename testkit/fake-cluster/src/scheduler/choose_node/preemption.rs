//! Which pods would have to end for a pod on each node: kube-scheduler's dry run (DefaultPreemption), which asks the in-tree filters alone,
//! and its choice among the nodes that are left. Pure; carried out by `preempt`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::diagnosis::{Diagnosis, Refusal, RefusedBy};
use super::resource_fit;
use crate::amounts::{Amounts, pod_request};
use crate::scheduler::cache::NodeInfo;
use crate::scheduler::nominations::Kept;
use crate::scheduler::priority::priority;

/// What there is nobody to end for.
const NO_VICTIMS: &str = "No preemption victims found for incoming pod";

/// Pods that would be ended on a node, the most important first.
pub(crate) type Victims = Vec<Arc<Pod>>;

/// What ending pods would bring.
#[derive(Debug, Default)]
pub(crate) struct DryRun {
    /// Nodes on which the pod would fit without these.
    pub(crate) candidates: BTreeMap<String, Victims>,
    /// Why nobody is ended on the other nodes that could be helped.
    pub(crate) refusals: BTreeMap<String, Refusal>,
    /// What stands in the text where there is no candidate.
    pub(crate) errors: Vec<String>,
}

/// What came of a preemption: the text after `preemption: `.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Preempted {
    /// Nobody was ended, for this reason.
    Nobody(String),
    /// Nobody was ended: something went wrong.
    Failed(String),
    /// The pod is nominated to a node, where so many are ended for it.
    Nominated { node: String, victims: usize },
}

/// Tries every node whose refusal could be lifted, without the pods of lower priority there; of those the most important stay that may.
pub(crate) fn dry_run(
    pod: &Pod,
    nodes: &[Arc<NodeInfo>],
    diagnosis: &Diagnosis,
    kept: &Kept,
    ignored: &BTreeSet<String>,
) -> DryRun {
    let request = pod.spec.as_ref().map(pod_request).unwrap_or_default();
    let mut run = DryRun::default();
    let is_helped =
        |node: &&Arc<NodeInfo>| diagnosis.refusals.get(&node.name).is_some_and(|refusal| refusal.resolvable);
    for node in nodes.iter().filter(is_helped) {
        match victims(priority(pod), &request, node, kept.get(&node.name), ignored) {
            Ok(victims) if victims.is_empty() => {
                run.errors.push(format!("expected at least one victim pod on node {:?}", node.name));
            }
            Ok(victims) => drop(run.candidates.insert(node.name.clone(), victims)),
            Err(refusal) => drop(run.refusals.insert(node.name.clone(), refusal)),
        }
    }
    run
}

fn victims(
    priority_of_pod: i32,
    request: &Amounts,
    node: &NodeInfo,
    kept: Option<&(Amounts, usize)>,
    ignored: &BTreeSet<String>,
) -> Result<Victims, Refusal> {
    let (mut lower, others): (Vec<_>, Vec<_>) =
        node.pods.iter().partition(|on_node| priority(&on_node.pod) < priority_of_pod);
    if lower.is_empty() {
        let reasons = vec![NO_VICTIMS.to_owned()];
        return Err(Refusal { by: RefusedBy::NodeResourcesFit, resolvable: false, reasons });
    }
    let (mut used, mut pods) = (node.used.clone(), others.len());
    lower.iter().for_each(|on_node| used.subtract(&on_node.request));
    if let Some((amounts, count)) = kept {
        used.add(amounts);
        pods += count;
    }
    let fits = |used: &Amounts, pods| resource_fit::fits(request, used, pods, &node.allocatable, ignored);
    fits(&used, pods)?;
    lower.sort_by_key(|on_node| importance(&on_node.pod));
    let mut victims = Vec::new();
    for on_node in lower {
        let mut with_it = used.clone();
        with_it.add(&on_node.request);
        if fits(&with_it, pods + 1).is_ok() {
            (used, pods) = (with_it, pods + 1);
        } else {
            victims.push(Arc::clone(&on_node.pod));
        }
    }
    Ok(victims)
}

/// The node whose victims matter least: their highest priority, the sum of priorities, their number, how short the most important ones
/// have run. Among equals the first by name.
pub(crate) fn least(candidates: &BTreeMap<String, Victims>) -> Option<&str> {
    let key = |victims: &Victims| {
        // Of the first one: who puts others first, as an extender may, is believed.
        let first = victims.first().map(|victim| priority(victim));
        let highest = victims.iter().map(|victim| priority(victim)).max();
        // kube-scheduler makes every priority positive first, so that fewer of the lowest are less than more.
        let sum: i64 =
            victims.iter().map(|victim| i64::from(priority(victim)) + i64::from(i32::MAX) + 1).sum();
        let of_highest = victims.iter().filter(|victim| Some(priority(victim)) == highest);
        (first, sum, victims.len(), Reverse(of_highest.map(|victim| started(victim)).min()))
    };
    candidates.iter().min_by_key(|(_, victims)| key(victims)).map(|(node, _)| node.as_str())
}

/// The most important first: higher priority, then started earlier.
fn importance(pod: &Pod) -> (Reverse<i32>, Timestamp) {
    (Reverse(priority(pod)), started(pod))
}

/// One that has not started has run for the shortest time.
fn started(pod: &Pod) -> Timestamp {
    let started = pod.status.as_ref().and_then(|status| status.start_time.as_ref());
    started.map_or(Timestamp::MAX, |time| time.0)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use serde_json::json;

    use super::*;
    use crate::scheduler::cache::PodOnNode;

    /// A pod of this name and priority that asks for so many devices, and has run since this second.
    fn pod(name: &str, priority: i32, devices: u32, since: i64) -> Arc<Pod> {
        let requests = json!({"example.com/device": devices.to_string()});
        let started = Timestamp::from_second(since).unwrap().to_string();
        let pod = json!({
            "metadata": {"name": name},
            "spec": {"priority": priority, "containers": [{"name": "c", "resources": {"requests": requests}}]},
            "status": {"startTime": started},
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    /// A node of four devices with these pods.
    fn node(name: &str, pods: &[&Arc<Pod>]) -> Arc<NodeInfo> {
        let amounts = |devices: i64| {
            Amounts::from_iter([("pods".to_owned(), 110), ("example.com/device".to_owned(), devices)])
        };
        let pods: Vec<PodOnNode> = pods.iter().map(|pod| PodOnNode::of(pod)).collect();
        let mut used = Amounts::default();
        pods.iter().for_each(|pod| used.add(&pod.request));
        let node = Arc::new(Node::default());
        Arc::new(NodeInfo { name: name.to_owned(), node, allocatable: amounts(4), used, pods })
    }

    fn refused(nodes: &[Arc<NodeInfo>]) -> Diagnosis {
        let refusal = Refusal { by: RefusedBy::Extender, resolvable: true, reasons: Vec::new() };
        let refusals = nodes.iter().map(|node| (node.name.clone(), refusal.clone())).collect();
        Diagnosis { nodes: nodes.len(), refusals, extender_refused: true }
    }

    fn names(victims: &Victims) -> Vec<&str> {
        victims.iter().map(|victim| victim.metadata.name.as_deref().unwrap()).collect()
    }

    #[test]
    fn the_less_important_end_and_no_more_of_them_than_needed() {
        let (low, later, high) = (pod("low", 0, 1, 10), pod("later", 0, 1, 20), pod("high", 9, 1, 30));
        let nodes = [node("n1", &[&low, &later, &high])];
        let run = |devices| {
            dry_run(&pod("p", 5, devices, 0), &nodes, &refused(&nodes), &Kept::new(), &BTreeSet::new())
        };
        assert_eq!(names(&run(2).candidates["n1"]), ["later"]);
        assert_eq!(names(&run(3).candidates["n1"]), ["low", "later"]);
        assert_eq!(run(4).refusals["n1"].reasons, ["Insufficient example.com/device"]);
        assert_eq!(run(1).errors, ["expected at least one victim pod on node \"n1\""]);
    }

    #[test]
    fn nobody_ends_for_a_pod_that_is_no_more_important() {
        let nodes = [node("n1", &[&pod("other", 5, 4, 0)])];
        let run = dry_run(&pod("p", 5, 1, 0), &nodes, &refused(&nodes), &Kept::new(), &BTreeSet::new());
        assert_eq!(run.refusals["n1"].reasons, [NO_VICTIMS]);
    }

    #[test]
    fn what_is_kept_for_another_pod_is_no_room() {
        let nodes = [node("n1", &[&pod("low", 0, 2, 0)])];
        let kept =
            Kept::from([("n1".to_owned(), (Amounts::from_iter([("example.com/device".to_owned(), 2)]), 1))]);
        let run = dry_run(&pod("p", 5, 2, 0), &nodes, &refused(&nodes), &kept, &BTreeSet::new());
        assert_eq!(names(&run.candidates["n1"]), ["low"]);
    }

    #[test]
    fn the_node_is_taken_whose_victims_matter_least() {
        let of = |pods: &[(i32, i64)]| -> Victims {
            pods.iter().map(|(priority, since)| pod("v", *priority, 1, *since)).collect()
        };
        let least_of = |one: &[(i32, i64)], other: &[(i32, i64)]| {
            let candidates = BTreeMap::from([("n1".to_owned(), of(one)), ("n2".to_owned(), of(other))]);
            least(&candidates).unwrap().to_owned()
        };
        assert_eq!(least_of(&[(3, 0)], &[(2, 0), (2, 0)]), "n2", "the lower highest priority");
        assert_eq!(least_of(&[(3, 0), (1, 0)], &[(3, 0), (0, 0)]), "n2", "the lower sum");
        assert_eq!(least_of(&[(3, 0), (-2, 0)], &[(3, 0)]), "n2", "fewer");
        assert_eq!(least_of(&[(3, 5)], &[(3, 9)]), "n2", "started later");
        assert_eq!(least_of(&[(3, 5)], &[(3, 5)]), "n1", "the first");
        assert_eq!(least_of(&[(1, 5), (3, 5)], &[(2, 5), (0, 5)]), "n1", "by the first victim of each");
        let not_started = Arc::new(Pod { status: None, ..(*pod("v", 3, 1, 0)).clone() });
        let candidates =
            BTreeMap::from([("n1".to_owned(), of(&[(3, 5)])), ("n2".to_owned(), vec![not_started])]);
        assert_eq!(least(&candidates), Some("n2"), "not started");
    }
}
