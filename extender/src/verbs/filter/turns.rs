//! A call that has much to search lets others have their turns, and the index is free meanwhile.

use std::cell::Cell;
use std::collections::BTreeMap;

use neuron_core::catalog::Catalog;
use neuron_core::pod::{BoundPod, PodSpec};
use neuron_core::topology::Policy;
use serde_json::{Value, json};

use super::*;
use crate::index::{Advertised, Change, ObservedNode, ObservedPod, TopologyCache};

/// A pod whose containers ask for so many cores each.
fn spec(cores: &[u32]) -> Value {
    let container = |(at, cores): (usize, &u32)| json!({"name": format!("c{at}"), "resources": {"limits": {"aws.amazon.com/neuroncore": cores.to_string()}}});
    json!({"containers": cores.iter().enumerate().map(container).collect::<Vec<_>>()})
}

/// A node of sixteen devices with four cores each, of which one device has two left: no node is like another.
fn held(number: u8) -> (ObservedNode, ObservedPod) {
    let (name, uid) = (format!("n{number}"), format!("held-{number}"));
    let cores = [4 * number, 4 * number + 1];
    let record = json!({"v": 1, "node": name, "lnc": 2, "containers": {"c0": {"cores": cores}}});
    let annotations = BTreeMap::from([("neuron-scheduler/allocation".to_owned(), record.to_string())]);
    let spec: PodSpec = serde_json::from_value(spec(&[2])).unwrap();
    let pod = BoundPod::new("default", &uid, &uid, annotations, &spec, None);
    let advertised = Advertised { any: true, devices: true, cores: true };
    let instance_type = Some("trn2.48xlarge".to_owned());
    let node = ObservedNode { name: name.clone(), instance_type, report: None, advertised };
    (node, ObservedPod { node: Some(name), unschedulable: false, device_model: None, owner: None, pod })
}

#[tokio::test(start_paused = true)]
async fn others_have_their_turns_while_nodes_are_searched() {
    const NODES: u8 = 5;
    let (nodes, pods): (Vec<_>, Vec<_>) = (0..NODES).map(held).unzip();
    let topologies = TopologyCache::new(Arc::new(Catalog::embedded().clone()), Policy::Documented);
    let cluster = Arc::new(Cluster::new(Index::new(topologies)));
    cluster.write(|index| index.change_nodes(Change::Listed(nodes.clone())));
    cluster.write(|index| index.change_pods(Change::Listed(pods)));
    let names: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
    // On an empty node the two last share a device. Here one of them finds no place, after all ways to place the others.
    let mut asks = spec(&[&[1][..], &[3; 15], &[2, 2]].concat());
    asks["initContainers"] = spec(&[1])["containers"].clone();
    asks["initContainers"][0]["name"] = "init".into();
    let metadata = json!({"name": "asks", "namespace": "default", "uid": "asks"});
    let body = json!({"Pod": {"metadata": metadata, "spec": asks}, "NodeNames": names}).to_string();
    let filter = Filter::new(Arc::clone(&cluster), Arc::default(), Arc::default());
    let turns = Cell::new(0);
    let others = async {
        loop {
            turns.set(turns.get() + 1);
            // It would wait for ever if the call had the index now.
            cluster.write(|index| index.change_nodes(Change::Applied(nodes[0].clone())));
            yield_now().await;
        }
    };
    let answer = tokio::select! {
        biased;
        answer = filter.filter(serde_json::from_str(&body).unwrap()) => answer,
        () = others => unreachable!(),
    };
    assert_eq!(answer.failed_nodes.len(), usize::from(NODES), "{answer:?}");
    assert!(turns.get() >= usize::from(NODES) - 1, "{} turns", turns.get());
}
