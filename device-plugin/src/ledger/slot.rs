//! What the pods of this node ask for and what their records say, container by container. The ledger reads nothing
//! else of a pod.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use neuron_core::holders::{NodeFacts, settle};
use neuron_core::ids::CoreSet;
use neuron_core::names::{NEURON_ALLOC_TIME, Resource};
use neuron_core::pod::BoundPod;
use neuron_core::report::{NodeReport, Reported};
use neuron_core::request::Role;
use neuron_core::topology::Topology;

/// A pod bound to this node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodePod {
    /// What decides about it.
    pub pod: BoundPod,
    /// Its version, as a number: what is older than what (0 if it cannot be read).
    pub version: u64,
    /// Its UID as kubelet has it: a static pod's mirror has another one at the API server.
    pub kubelet_uid: String,
    /// Its containers that have started, and so have their ids.
    pub started: BTreeSet<String>,
    /// Its containers that run now, with the id that each has for this run; empty where that is not known.
    pub running: BTreeMap<String, String>,
    /// Whether kubelet has failed it before it started any of its containers.
    pub failed_admission: bool,
}

#[cfg(test)]
impl NodePod {
    /// A pod that kubelet has by the same UID, of which no container has started.
    pub(crate) fn of(pod: BoundPod, version: u64) -> Self {
        let kubelet_uid = pod.uid.to_string();
        NodePod {
            pod,
            version,
            kubelet_uid,
            started: BTreeSet::new(),
            running: BTreeMap::new(),
            failed_admission: false,
        }
    }
}

/// One resource that one container of a live pod asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The pod's UID at the API server.
    pub uid: String,
    /// Its UID as kubelet has it.
    pub kubelet_uid: String,
    /// The pod as `namespace/name`.
    pub pod: String,
    /// The container.
    pub container: String,
    /// Its role.
    pub role: Role,
    /// What it asks for.
    pub resource: Resource,
    /// How many, at least 1.
    pub count: u32,
    /// The cores its record gives it; none without a record that counts.
    pub recorded: Option<CoreSet>,
    /// Whether the container has started, and so is not to be asked for unless it starts again.
    pub started: bool,
    /// Whether kubelet may be asking for it: it has told of the pod, or has not been asked.
    pub may_be_asked_for: bool,
    /// Whether it may still have what it has had: it runs, or is no init container and may have started again since. One that may not
    /// has nothing that kubelet's checkpoint does not name.
    pub may_run: bool,
    /// The id of the container's present run; none where it does not run or that is not known.
    pub run: Option<String>,
}

/// The slots of the pods that have not ended: earliest bound pod first, containers in the order kubelet asks for them.
pub fn slots<'p>(
    node: &str,
    topology: &Arc<Topology>,
    report: Option<&NodeReport>,
    pods: impl IntoIterator<Item = &'p NodePod>,
) -> Vec<Slot> {
    let mut live: Vec<&NodePod> = pods.into_iter().filter(|pod| !pod.pod.terminal).collect();
    let bound: Vec<&BoundPod> = live.iter().map(|pod| &pod.pod).collect();
    let reported = report.map(Reported::from);
    let facts =
        NodeFacts { name: node, topology: Arc::clone(topology), report: reported.as_ref(), pods: &bound };
    let records: BTreeMap<&str, _> = settle(&facts)
        .holdings
        .into_iter()
        .filter_map(|holding| Some((&*holding.pod.uid, holding.allocation?)))
        .collect();
    live.sort_by_key(|node_pod| turn(&node_pod.pod));
    let mut slots = Vec::new();
    for node_pod in live {
        let record = records.get(&*node_pod.pod.uid);
        slots.extend(unrecorded(node_pod).into_iter().map(|slot| {
            let recorded = record.and_then(|record| record.containers.get(slot.container.as_str()));
            let recorded = recorded.map(|recorded| match slot.resource {
                Resource::Device => topology.cores_of(recorded.devices),
                Resource::Core => recorded.cores,
            });
            Slot { recorded, ..slot }
        }));
    }
    slots
}

/// Where a pod stands in the order of binding. The API's times have seconds only; within one the extender's note of when
/// it chose comes near the order in which kubelet is told of the pods. A forged note gains nothing: which of two pods
/// with equal requests is offered its ids first takes none of them from the other.
fn turn(pod: &BoundPod) -> impl Ord {
    let chosen_at = pod.annotations.get(NEURON_ALLOC_TIME);
    let chosen_at = chosen_at.and_then(|nanoseconds| nanoseconds.parse::<u128>().ok());
    (pod.scheduled_at, chosen_at, &pod.uid)
}

/// What a pod asks for, container by container, whatever its record says.
fn unrecorded(node_pod: &NodePod) -> Vec<Slot> {
    let pod = &node_pod.pod;
    let containers = pod.request.iter().flat_map(|request| &request.containers);
    let slots = containers.flat_map(|container| {
        let asked = Resource::ALL.into_iter().filter(|resource| container.count(*resource) > 0);
        asked.map(|resource| Slot {
            uid: pod.uid.to_string(),
            kubelet_uid: node_pod.kubelet_uid.clone(),
            pod: pod.full_name.to_string(),
            container: container.name.to_string(),
            role: container.role,
            resource,
            count: container.count(resource),
            recorded: None,
            started: node_pod.started.contains(&*container.name),
            may_be_asked_for: true,
            may_run: match container.role {
                Role::Init => node_pod.running.contains_key(&*container.name),
                Role::Sidecar | Role::App => node_pod.started.contains(&*container.name),
            },
            run: node_pod.running.get(&*container.name).filter(|id| !id.is_empty()).cloned(),
        })
    });
    slots.collect()
}

#[cfg(test)]
mod tests {
    use neuron_core::catalog::Catalog;
    use neuron_core::topology::Policy;
    use serde_json::json;

    use super::*;

    fn pod(uid: &str, second: &str, chosen_at: &str) -> NodePod {
        let limits = json!({"aws.amazon.com/neuron": 1});
        let spec = json!({"containers": [{"name": "main", "resources": {"limits": limits}}]});
        let bound = json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": second});
        let status = serde_json::from_value(json!({"conditions": [bound]})).unwrap();
        let annotations = BTreeMap::from([(NEURON_ALLOC_TIME.to_owned(), chosen_at.to_owned())]);
        let spec = serde_json::from_value(spec).unwrap();
        let pod = BoundPod::new("ns", uid, uid, annotations, &spec, Some(&status));
        NodePod::of(pod, 1)
    }

    #[test]
    fn pods_bound_in_one_second_stand_in_the_order_in_which_they_were_placed() {
        let model = Catalog::embedded().find("inf2.24xlarge").unwrap();
        let topology = Arc::new(Topology::of(model, 1, Policy::Documented).unwrap());
        let (first, then) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z");
        let pods =
            [pod("a", first, "900"), pod("b", then, "1"), pod("c", first, "1000"), pod("d", first, "20")];
        let slots = slots("n1", &topology, None, &pods);
        assert_eq!(slots.iter().map(|slot| slot.uid.as_str()).collect::<Vec<_>>(), ["d", "a", "c", "b"]);
    }
}
