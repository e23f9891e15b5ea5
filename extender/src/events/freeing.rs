//! Which pods would have to end for another one to fit. Asked by [`super::waiting`] about a pod that no linked set is free for.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use neuron_core::holders::Holding;
use neuron_core::ids::CoreSet;
use neuron_core::names::Resource;
use neuron_core::placement::EqualNodes;
use neuron_core::pod::BoundPod;
use neuron_core::request::{ContainerRequest, PodRequest};

use crate::index::Index;

/// Choices of pods that are tried one or two at a time, and as many others where more have to end: an event is not worth more.
const MOST_TRIES: usize = 300;

/// Moves that all searches together may take, some 20 ms: no call of kube-scheduler gets a turn meanwhile. The search in which they end is
/// not broken off.
const MOST_MOVES: u32 = 200_000;

/// Linked sets of all nodes together that are looked at, some 10 ms of them: where any linked set may be given (policy `linked`), a torus of
/// sixteen devices has 7,280 of eight.
const MOST_SETS: usize = 100_000;

/// Nodes that are searched for a pod with more than one set to get.
const MOST_SEARCHED: usize = 16;

/// Pods that are named: an event has little room.
const MOST_NAMED: usize = 5;

/// The pods whose end would let a pod fit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Freeing {
    node: String,
    /// As `namespace/name`.
    pods: Vec<String>,
}

/// A pod that holds devices.
#[derive(Clone, Copy)]
struct Holder<'i> {
    uid: &'i Arc<str>,
    /// As `namespace/name`.
    pod: &'i str,
    cores: CoreSet,
    priority: i32,
}

/// The fewest pods of one of these nodes whose end would let the pod fit there, the least important ones first; none if it takes too much
/// to tell. Where nodes have thousands of linked sets, or the pod more than one set to get, the first nodes are looked at; with more than
/// one set, more than two pods are few, of which none can stay, though not always the fewest.
pub(super) fn fewest_that_free(index: &Index, nodes: &[String], request: &PodRequest) -> Option<Freeing> {
    let mut pod = EqualNodes::new(request);
    let choices = match *request.containers.as_slice() {
        [ContainerRequest { devices, cores: 0, .. }] => of_one_set(index, nodes, Resource::Device, devices),
        [ContainerRequest { devices: 0, cores, .. }] => of_one_set(index, nodes, Resource::Core, cores),
        _ => {
            let nodes = &nodes[..nodes.len().min(MOST_SEARCHED)];
            return one_or_two(index, nodes, &mut pod).or_else(|| few(index, nodes, &mut pod));
        }
    };
    // A node takes no pod of which somebody holds what nobody knows.
    choices.into_iter().find(|choice| choice.helps(index, &mut pod)).map(Choice::freeing)
}

/// Pods of a node that could end.
struct Choice<'i> {
    node: &'i str,
    ended: Vec<Holder<'i>>,
}

impl Choice<'_> {
    /// Whether the pod fits once they have ended.
    fn helps(&self, index: &Index, pod: &mut EqualNodes) -> bool {
        let ended: BTreeSet<Arc<str>> = self.ended.iter().map(|holder| Arc::clone(holder.uid)).collect();
        index.fits_without(self.node, &ended, pod) == Some(true)
    }

    fn freeing(self) -> Freeing {
        let pods = self.ended.into_iter().map(|holder| holder.pod.to_owned()).collect();
        Freeing { node: self.node.to_owned(), pods }
    }
}

/// Of each node the fewest holders of any linked set of so many: of equally few those whose most important one is least important. In
/// this order.
fn of_one_set<'i>(index: &'i Index, nodes: &'i [String], resource: Resource, count: u32) -> Vec<Choice<'i>> {
    let mut left = MOST_SETS;
    let mut choices = Vec::new();
    for node in nodes {
        let (holders, kept) = (holders(index, node), index.cores_kept(node));
        let Some(topology) = index.view(node).and_then(|view| view.topology()) else { continue };
        let device_sets = match resource {
            Resource::Device => topology.device_sets(count),
            Resource::Core => &[],
        };
        let core_sets = match resource {
            Resource::Device => &[],
            Resource::Core => topology.core_sets(count),
        };
        let Some(less) = left.checked_sub(device_sets.len() + core_sets.len()) else { break };
        left = less;
        let sets =
            device_sets.iter().map(|devices| topology.cores_of(*devices)).chain(core_sets.iter().copied());
        let ended = |set: CoreSet| holders.iter().filter(move |holder| holder.cores.intersects(set)).copied();
        // Where nobody has to end, the node has changed since the pod was refused.
        let held = sets.filter(|set| !set.intersects(kept) && ended(*set).next().is_some());
        let fewest =
            held.min_by_key(|set| (ended(*set).count(), ended(*set).last().map(|holder| holder.priority)));
        choices.extend(fewest.map(|set| Choice { node, ended: ended(set).collect() }));
    }
    choices.sort_by_key(|choice| (choice.ended.len(), choice.ended.last().map(|holder| holder.priority)));
    choices
}

/// One pod, or else two, that would do.
fn one_or_two(index: &Index, nodes: &[String], pod: &mut EqualNodes) -> Option<Freeing> {
    let nodes: Vec<(&String, Vec<Holder<'_>>)> =
        nodes.iter().map(|node| (node, holders(index, node))).collect();
    let single =
        nodes.iter().flat_map(|(node, all)| all.iter().map(move |one| Choice { node, ended: vec![*one] }));
    let pairs = nodes.iter().flat_map(|(node, all)| {
        let pairs = all.iter().enumerate().flat_map(|(place, one)| {
            let others = all.iter().take(place);
            others.map(move |other| vec![*other, *one])
        });
        pairs.map(move |ended| Choice { node, ended })
    });
    let mut choices = single.chain(pairs).take(MOST_TRIES);
    let found = choices.find(|choice| pod.cost().moves >= MOST_MOVES || choice.helps(index, pod))?;
    (pod.cost().moves < MOST_MOVES).then(|| found.freeing())
}

/// Of each node all pods but those that can stay, of which the most important ones do first; the smallest of these choices.
fn few<'i>(index: &'i Index, nodes: &'i [String], pod: &mut EqualNodes) -> Option<Freeing> {
    let mut tries = 0;
    let mut helps = |choice: &Choice<'_>| {
        tries += 1;
        let is_too_much = |pod: &EqualNodes| tries > MOST_TRIES || pod.cost().moves >= MOST_MOVES;
        let helps = !is_too_much(pod) && choice.helps(index, pod);
        (!is_too_much(pod)).then_some(helps)
    };
    let of_node = |node: &'i String| {
        let mut choice = Choice { node, ended: holders(index, node) };
        if !helps(&choice)? {
            return None;
        }
        for place in (0..choice.ended.len()).rev() {
            let stays = choice.ended.remove(place);
            if !helps(&choice)? {
                choice.ended.insert(place, stays);
            }
        }
        Some(choice)
    };
    let choices = nodes.iter().filter_map(of_node);
    choices.min_by_key(|choice| choice.ended.len()).map(Choice::freeing)
}

/// The pods that hold devices of the node, the least important ones first.
fn holders<'i>(index: &'i Index, node: &str) -> Vec<Holder<'i>> {
    let settled = index.view(node).and_then(|view| view.settled());
    let holdings = settled.map(|settled| settled.holdings.as_slice()).unwrap_or_default();
    let holder = |holding: &'i Holding<Arc<BoundPod>>| Holder {
        uid: &holding.pod.uid,
        pod: holding.full_name(),
        cores: holding.cores,
        priority: holding.pod.priority,
    };
    let mut holders: Vec<Holder<'i>> = holdings.iter().map(holder).collect();
    holders.sort_by_key(|holder| (holder.priority, holder.pod));
    holders
}

impl fmt::Display for Freeing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = if self.pods.len() == 1 { "pod" } else { "pods" };
        write!(f, "it would fit on {} if {noun} {} ended", self.node, enumerated(&self.pods))
    }
}

/// `a`, `a and b`, `a, b and c`; of many the first few.
fn enumerated(pods: &[String]) -> String {
    match pods {
        [first @ .., last] if !first.is_empty() && pods.len() <= MOST_NAMED => {
            format!("{} and {last}", first.join(", "))
        }
        _ if pods.len() > MOST_NAMED => {
            let named = MOST_NAMED - 1;
            format!("{} and {} others", pods[..named].join(", "), pods.len() - named)
        }
        _ => pods.concat(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use neuron_core::catalog::Catalog;
    use neuron_core::pod::{BoundPod, PodSpec};
    use neuron_core::topology::Policy;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::index::{Advertised, Change, ObservedNode, ObservedPod, TopologyCache};

    /// A pod whose containers ask for so many devices each.
    fn spec(devices: &[u32]) -> PodSpec {
        let container = |(at, devices): (usize, &u32)| {
            let limits = json!({"aws.amazon.com/neuron": devices.to_string()});
            json!({"name": format!("c{at}"), "resources": {"limits": limits}})
        };
        let containers: Vec<_> = devices.iter().enumerate().map(container).collect();
        serde_json::from_value(json!({"containers": containers})).unwrap()
    }

    /// A node of this type.
    fn node(name: &str, instance_type: &str) -> ObservedNode {
        let (name, instance_type) = (name.to_owned(), Some(instance_type.to_owned()));
        ObservedNode { name, instance_type, report: None, advertised: Advertised::default() }
    }

    /// The holder of these devices of the node.
    fn holder(node: &str, name: &str, devices: &[u8], priority: i32) -> ObservedPod {
        let record = json!({"v": 1, "node": node, "lnc": 1, "containers": {"c0": {"devices": devices}}});
        let annotations = BTreeMap::from([("neuron-scheduler/allocation".to_owned(), record.to_string())]);
        let spec = spec(&[devices.len().try_into().unwrap()]);
        let pod = BoundPod { priority, ..BoundPod::new("default", name, name, annotations, &spec, None) };
        ObservedPod {
            node: Some(node.into()),
            unschedulable: false,
            device_model: None,
            owner: None,
            pod: Arc::new(pod),
        }
    }

    fn index_of(policy: Policy, nodes: Vec<ObservedNode>, pods: Vec<ObservedPod>) -> Index {
        let catalog = Arc::new(Catalog::embedded().clone());
        let mut index = Index::new(TopologyCache::new(catalog, policy));
        index.change_nodes(Change::Listed(nodes));
        index.change_pods(Change::Listed(pods));
        index
    }

    /// On a node with twelve devices in a row.
    #[rstest]
    #[case::one(&[0, 2, 4, 6, 8], &[3], "it would fit on n1 if pod default/d3 ended")]
    #[case::the_least_important(&[0, 2, 5, 7, 9], &[3], "it would fit on n1 if pod default/d6 ended")]
    #[case::two(&[0, 4, 8], &[3], "it would fit on n1 if pods default/d2 and default/d3 ended")]
    #[case::three(&[0, 4, 8], &[5], "it would fit on n1 if pods default/d5, default/d6 and default/d7 ended")]
    #[case::many(&[0], &[12], "it would fit on n1 if pods default/d10, default/d11, default/d2, default/d3 and 7 others ended")]
    #[case::never(&[0, 4, 8], &[13], "")]
    #[case::one_for_two_sets(&[0, 1, 3, 5, 7, 9, 10], &[3, 1], "it would fit on n1 if pod default/d11 ended")]
    #[case::three_for_two_sets(&[0, 4, 8], &[4, 1], "it would fit on n1 if pods default/d2, default/d3 and default/d5 ended")]
    #[case::many_for_many_sets(&[0, 4, 8], &[2, 2, 2, 2, 1], "it would fit on n1 if pods default/d10, default/d11, default/d2, default/d3 and 2 others ended")]
    #[case::never_two_sets(&[0, 4, 8], &[12, 1], "")]
    fn the_fewest_pods_are_named(#[case] free: &[u8], #[case] asked: &[u32], #[case] said: &str) {
        let held = (0..12).filter(|device| !free.contains(device));
        let holder = |device: u8| holder("n1", &format!("d{device}"), &[device], i32::from(device == 1));
        let nodes = vec![node("n1", "inf2.48xlarge")];
        let index = index_of(Policy::Documented, nodes, held.map(holder).collect());
        let request = PodRequest::of(&spec(asked)).unwrap();
        let freeing = fewest_that_free(&index, &["n1".to_owned()], &request);
        assert_eq!(freeing.map(|freeing| freeing.to_string()).unwrap_or_default(), said);
    }

    /// A torus of sixteen devices has thousands of linked sets of eight: how long that takes does not grow with the nodes.
    #[test]
    fn of_nodes_with_thousands_of_sets_the_first_ones_are_looked_at() {
        let names: Vec<String> = (10..40).map(|number| format!("n{number}")).collect();
        let nodes = names.iter().map(|name| node(name, "trn1.32xlarge")).collect();
        // On the last one a single pod would have to end, on the others eight.
        let small = |name: &String| {
            (0..16).map(|device| holder(name, &format!("{name}-{device}"), &[device], 0)).collect::<Vec<_>>()
        };
        let mut pods: Vec<ObservedPod> = names[..29].iter().flat_map(small).collect();
        let half = |first: u8| (first..first + 8).collect::<Vec<u8>>();
        pods.extend([0, 8].map(|first| holder("n39", &format!("half-{first}"), &half(first), 0)));
        let index = index_of(Policy::Linked, nodes, pods);
        let request = PodRequest::of(&spec(&[8])).unwrap();
        let freeing = |nodes: &[String]| fewest_that_free(&index, nodes, &request).unwrap().to_string();
        assert_eq!(freeing(&names[29..]), "it would fit on n39 if pod default/half-0 ended");
        assert!(
            freeing(&names).starts_with("it would fit on n10 if pods default/n10-"),
            "{}",
            freeing(&names)
        );
    }
}
