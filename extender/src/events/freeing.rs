//! Which pods would have to end for another one to fit. Asked by [`super::waiting`] about a pod that no linked set is free for.

use std::collections::BTreeSet;
use std::fmt;

use neuron_core::placement::EqualNodes;
use neuron_core::request::PodRequest;

use crate::index::Index;

/// Choices of pods that are tried: an event is not worth more.
const MOST_TRIES: usize = 300;

/// Containers of a pod that is tried for: with more each try may take long.
const MOST_CONTAINERS: usize = 4;

/// The pods whose end would let a pod fit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Freeing {
    node: String,
    /// As `namespace/name`.
    pods: Vec<String>,
}

/// A pod that holds devices, by its UID and as `namespace/name`.
type Holder<'i> = (&'i str, &'i str);

/// The fewest pods of one of these nodes whose end would let the pod fit there, the least important ones first: one pod or two; none if
/// more have to end, or if it takes too many tries to tell.
pub(super) fn fewest_that_free(index: &Index, nodes: &[String], request: &PodRequest) -> Option<Freeing> {
    if request.containers.len() > MOST_CONTAINERS {
        return None;
    }
    let mut pod = EqualNodes::new(request);
    let nodes: Vec<(&String, Vec<Holder<'_>>)> =
        nodes.iter().map(|node| (node, holders(index, node))).collect();
    let single = nodes.iter().flat_map(|(node, all)| all.iter().map(move |one| (*node, vec![*one])));
    let pairs = nodes.iter().flat_map(|(node, all)| {
        let pairs = all.iter().enumerate().flat_map(|(place, one)| {
            let others = all.iter().take(place);
            others.map(move |other| vec![*other, *one])
        });
        pairs.map(move |pair| (*node, pair))
    });
    let helps = |(node, ended): &(&String, Vec<Holder<'_>>)| {
        let ended: BTreeSet<&str> = ended.iter().map(|(uid, _)| *uid).collect();
        index.fits_without(node, &ended, &mut pod)
    };
    let (node, ended) = single.chain(pairs).take(MOST_TRIES).find(helps)?;
    let pods = ended.into_iter().map(|(_, name)| name.to_owned()).collect();
    Some(Freeing { node: node.clone(), pods })
}

/// The pods that hold devices of the node, the least important ones first.
fn holders<'i>(index: &'i Index, node: &str) -> Vec<Holder<'i>> {
    let settled = index.view(node).and_then(|view| view.settled());
    let holdings = settled.map(|settled| settled.holdings.as_slice()).unwrap_or_default();
    let mut holders: Vec<Holder<'i>> =
        holdings.iter().map(|holding| (holding.uid.as_str(), holding.pod.as_str())).collect();
    holders.sort_by_key(|(uid, pod)| (index.priority(node, uid), *pod));
    holders
}

impl fmt::Display for Freeing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = if self.pods.len() == 1 { "pod" } else { "pods" };
        write!(f, "it would fit on {} if {noun} {} ended", self.node, self.pods.join(" and "))
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

    fn spec(devices: u32) -> PodSpec {
        let limits = json!({"aws.amazon.com/neuron": devices.to_string()});
        serde_json::from_value(json!({"containers": [{"name": "main", "resources": {"limits": limits}}]}))
            .unwrap()
    }

    /// The holder of one device, named after it.
    fn holder(device: u8, priority: i32) -> ObservedPod {
        let name = format!("d{device}");
        let record = json!({"v": 1, "node": "n1", "lnc": 1, "containers": {"main": {"devices": [device]}}});
        let annotations = BTreeMap::from([("neuron-scheduler/allocation".to_owned(), record.to_string())]);
        let pod = BoundPod::new("default", &name, &name, annotations, &spec(1), None);
        let pod = BoundPod { priority, ..pod };
        ObservedPod {
            node: Some("n1".to_owned()),
            unschedulable: false,
            device_model: None,
            owner: None,
            pod,
        }
    }

    /// On a node with twelve devices in a row.
    #[rstest]
    #[case::one(&[0, 2, 4, 6, 8], 3, "it would fit on n1 if pod default/d3 ended")]
    #[case::the_least_important(&[0, 2, 5, 7, 9], 3, "it would fit on n1 if pod default/d6 ended")]
    #[case::two(&[0, 4, 8], 3, "it would fit on n1 if pods default/d2 and default/d3 ended")]
    #[case::more(&[0, 4, 8], 5, "")]
    fn the_fewest_pods_are_named(#[case] free: &[u8], #[case] asked: u32, #[case] said: &str) {
        let catalog = Arc::new(Catalog::embedded().clone());
        let mut index = Index::new(TopologyCache::new(catalog, Policy::Documented));
        let node = ObservedNode {
            name: "n1".to_owned(),
            instance_type: Some("inf2.48xlarge".to_owned()),
            report: None,
            advertised: Advertised::default(),
        };
        index.change_nodes(Change::Listed(vec![node]));
        let held = (0..12).filter(|device| !free.contains(device));
        index
            .change_pods(Change::Listed(held.map(|device| holder(device, i32::from(device == 1))).collect()));
        let request = PodRequest::of(&spec(asked)).unwrap();
        let freeing = fewest_that_free(&index, &["n1".to_owned()], &request);
        assert_eq!(freeing.map(|freeing| freeing.to_string()).unwrap_or_default(), said);
    }
}
