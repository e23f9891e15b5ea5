//! A call that has much to search lets others have their turns, and the index is free meanwhile; one that has searched all it may is gone
//! on with by the next.

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

/// A node of sixteen devices with four cores each, of which one device has two left: no node is like another, up to 32.
fn held(number: u8) -> (ObservedNode, ObservedPod) {
    let (name, uid) = (format!("n{number}"), format!("held-{number}"));
    let first = number % 16 * 4 + number / 16 * 2;
    let cores = [first, first + 1];
    let record = json!({"v": 1, "node": name, "lnc": 2, "containers": {"c0": {"cores": cores}}});
    let annotations = BTreeMap::from([("neuron-scheduler/allocation".to_owned(), record.to_string())]);
    let spec: PodSpec = serde_json::from_value(spec(&[2])).unwrap();
    let pod = BoundPod::new("default", &uid, &uid, annotations, &spec, None);
    let advertised = Advertised { any: true, devices: true, cores: true };
    let instance_type = Some("trn2.48xlarge".to_owned());
    let node = ObservedNode { name: name.clone(), instance_type, report: None, advertised };
    (
        node,
        ObservedPod {
            node: Some(name.into()),
            unschedulable: false,
            device_model: None,
            owner: None,
            pod: Arc::new(pod),
        },
    )
}

/// So many of them.
fn cluster(count: u8) -> (Arc<Cluster>, Vec<ObservedNode>) {
    let (nodes, pods): (Vec<_>, Vec<_>) = (0..count).map(held).unzip();
    let topologies = TopologyCache::new(Arc::new(Catalog::embedded().clone()), Policy::Documented);
    let cluster = Arc::new(Cluster::new(Index::new(topologies)));
    cluster.write(|index| index.change_nodes(Change::Listed(nodes.clone())));
    cluster.write(|index| index.change_pods(Change::Listed(pods)));
    (cluster, nodes)
}

/// A call about a pod that fits an empty node only, where the two last containers share a device. Beside anything else one of them finds no
/// place, after all ways to place the others.
fn body(nodes: &[ObservedNode]) -> String {
    let mut asks = spec(&[&[1][..], &[3; 15], &[2, 2]].concat());
    asks["initContainers"] = spec(&[1])["containers"].clone();
    asks["initContainers"][0]["name"] = "init".into();
    let metadata = json!({"name": "asks", "namespace": "default", "uid": "asks"});
    let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    json!({"Pod": {"metadata": metadata, "spec": asks}, "NodeNames": names}).to_string()
}

#[tokio::test(start_paused = true)]
async fn others_have_their_turns_while_nodes_are_searched() {
    const NODES: u8 = 5;
    let (cluster, nodes) = cluster(NODES);
    let body = body(&nodes);
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

/// The first node was looked at before the watch told what kube-scheduler knew already: it would not ask again after a refusal.
#[tokio::test(start_paused = true)]
async fn what_is_told_amid_a_call_is_looked_at_before_a_refusal() {
    let (cluster, nodes) = cluster(5);
    let body = body(&nodes);
    let filter = Filter::new(Arc::clone(&cluster), Arc::default(), Arc::default());
    cluster.pod_gap.open();
    let told = async {
        cluster.write(|index| index.change_pods(Change::Gone("held-0".to_owned())));
        cluster.pod_gap.close();
    };
    let (answer, ()) = tokio::join!(filter.filter(serde_json::from_str(&body).unwrap()), told);
    let fits: Vec<String> = answer.node_names.iter().flatten().map(NodeName::to_string).collect();
    assert_eq!((fits.as_slice(), answer.error.as_str()), (&["n0".to_owned()][..], ""));
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_not_refused_while_nodes_wait_for_their_turn_to_be_searched() {
    // A call has the moves for some twenty.
    let (cluster, nodes) = cluster(25);
    let filter = Filter::new(Arc::clone(&cluster), Arc::default(), Arc::default());
    let ask = async |nodes: &[ObservedNode]| {
        let body = body(nodes);
        let answer = filter.filter(serde_json::from_str(&body).unwrap()).await;
        let fits: Vec<String> = answer.node_names.iter().flatten().map(NodeName::to_string).collect();
        (fits, answer.failed_nodes.len(), answer.error)
    };
    let (fits, failed, error) = ask(&nodes).await;
    assert_eq!((fits.len(), failed), (0, 0));
    assert!(error.starts_with("n") && error.contains(": not decided: "), "{error}");
    let (fits, failed, error) = ask(&nodes).await;
    assert_eq!((fits.len(), failed, error.as_str()), (0, 25, ""), "each has had its turn");
    let empty = ObservedNode { name: "empty".to_owned(), ..nodes[0].clone() };
    cluster.write(|index| index.change_nodes(Change::Applied(empty.clone())));
    let with_empty = [&nodes[..], &[empty]].concat();
    assert_eq!(ask(&with_empty).await.0, ["empty"]);
}
