//! Calls of prioritize and preempt that have much to search let others have their turns, and the index is free meanwhile. Filter has a
//! test of its own.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use neuron_core::catalog::Catalog;
use neuron_core::pod::{BoundPod, PodSpec};
use neuron_core::topology::Policy;
use serde_json::{Value, json};
use tokio::task::yield_now;
use tokio::time::Instant;

use super::{Prioritize, preempt};
use crate::index::{Advertised, Change, Cluster, Index, ObservedNode, ObservedPod, TopologyCache};
use crate::metrics::Metrics;

/// A pod whose containers ask for so many cores each.
fn spec(cores: &[u32]) -> Value {
    let container = |(at, cores): (usize, &u32)| json!({"name": format!("c{at}"), "resources": {"limits": {"aws.amazon.com/neuroncore": cores.to_string()}}});
    json!({"containers": cores.iter().enumerate().map(container).collect::<Vec<_>>()})
}

/// A pod that fits a machine of sixteen devices with four cores each only if nothing is held: the two last share a device then. Else one
/// of them finds no place, after all ways to place the others.
fn asks() -> Value {
    let mut spec = spec(&[&[1][..], &[3; 15], &[2, 2]].concat());
    spec["initContainers"] = self::spec(&[1])["containers"].clone();
    spec["initContainers"][0]["name"] = "init".into();
    spec["priority"] = json!(100);
    json!({"metadata": {"name": "asks", "namespace": "default", "uid": "asks"}, "spec": spec})
}

/// Such a machine.
fn node(name: &str) -> ObservedNode {
    let instance_type = Some("trn2.48xlarge".to_owned());
    let advertised = Advertised { any: true, devices: true, cores: true };
    ObservedNode { name: name.to_owned(), instance_type, report: None, advertised }
}

/// A pod on the node with these cores.
fn holder(uid: &str, node: &str, cores: &[u8]) -> ObservedPod {
    let record = json!({"v": 1, "node": node, "lnc": 2, "containers": {"c0": {"cores": cores}}});
    let annotations = BTreeMap::from([("neuron-scheduler/allocation".to_owned(), record.to_string())]);
    let spec: PodSpec = serde_json::from_value(spec(&[u32::try_from(cores.len()).unwrap()])).unwrap();
    let pod = BoundPod::new("default", uid, uid, annotations, &spec, None);
    ObservedPod {
        node: Some(node.into()),
        unschedulable: false,
        device_model: None,
        owner: None,
        pod: Arc::new(pod),
    }
}

fn cluster_of(nodes: &[ObservedNode], pods: Vec<ObservedPod>) -> Arc<Cluster> {
    let topologies = TopologyCache::new(Arc::new(Catalog::embedded().clone()), Policy::Documented);
    let cluster = Arc::new(Cluster::new(Index::new(topologies)));
    cluster.write(|index| index.change_nodes(Change::Listed(nodes.to_vec())));
    cluster.write(|index| index.change_pods(Change::Listed(pods)));
    cluster
}

/// What the call answers, and how many turns others had meanwhile, in each of which a node changed.
async fn beside_others<T>(
    cluster: &Cluster,
    changes: &ObservedNode,
    call: impl Future<Output = T>,
) -> (T, u32) {
    let turns = Cell::new(0);
    let others = async {
        loop {
            turns.set(turns.get() + 1);
            // It would wait for ever if the call had the index now.
            cluster.write(|index| index.change_nodes(Change::Applied(changes.clone())));
            yield_now().await;
        }
    };
    let answer = tokio::select! {
        biased;
        answer = call => answer,
        () = others => unreachable!(),
    };
    (answer, turns.get())
}

#[tokio::test]
async fn others_have_their_turns_while_nodes_are_ranked() {
    let numbers = 0..16u8;
    let nodes: Vec<ObservedNode> = numbers.clone().map(|number| node(&format!("n{number}"))).collect();
    // No node is like another.
    let on =
        |number: u8| holder(&format!("held-{number}"), &format!("n{number}"), &[4 * number, 4 * number + 1]);
    let cluster = cluster_of(&nodes, numbers.map(on).collect());
    let prioritize = Prioritize::new(Arc::clone(&cluster), Arc::default());
    let names: Vec<&String> = nodes.iter().map(|node| &node.name).collect();
    let body = json!({"Pod": asks(), "NodeNames": names}).to_string();
    let call = prioritize.prioritize(serde_json::from_str(&body).unwrap());
    let (scores, turns) = beside_others(&cluster, &nodes[0], call).await;
    let scores: Vec<(String, u8)> =
        scores.unwrap().into_iter().map(|node| (node.host.to_string(), node.score)).collect();
    assert_eq!(scores, [], "it fits nowhere");
    assert!(turns >= 3, "{turns} turns");
}

#[tokio::test]
async fn others_have_their_turns_while_nodes_that_cost_few_moves_are_ranked() {
    const NODES: u32 = 400;
    let nodes: Vec<ObservedNode> = (0..NODES).map(|number| node(&format!("n{number}"))).collect();
    // The digits of another number on each.
    let held = |number: u32| {
        (0..9).filter(|digit| number >> digit & 1 == 1).map(|digit| 7 * digit).collect::<Vec<u8>>()
    };
    let on = |number| holder(&format!("held-{number}"), &format!("n{number}"), &held(number));
    let cluster = cluster_of(&nodes, (1..NODES).map(on).collect());
    let prioritize = Prioritize::new(Arc::clone(&cluster), Arc::default());
    let names: Vec<&String> = nodes.iter().map(|node| &node.name).collect();
    let pod = json!({"metadata": {"name": "one", "namespace": "default", "uid": "one"}, "spec": spec(&[4])});
    let body = json!({"Pod": pod, "NodeNames": names}).to_string();
    let ask = async || {
        let call = prioritize.prioritize(serde_json::from_str(&body).unwrap());
        let (scores, turns) = beside_others(&cluster, &nodes[0], call).await;
        (scores.unwrap().into_iter().map(|node| node.score).collect::<Vec<_>>(), turns)
    };
    let (scores, turns) = ask().await;
    assert!(scores.contains(&10) && (1..names.len()).contains(&scores.len()), "{scores:?}");
    assert!(turns >= 3, "{turns} turns");
    assert_eq!(ask().await, (scores, 0), "what is known is answered at once");
}

#[tokio::test]
async fn others_have_their_turns_while_victims_of_one_node_are_looked_for() {
    // With either of them their device has no three free cores in a row.
    let pods = vec![holder("one", "n1", &[1]), holder("other", "n1", &[2])];
    let nodes = [node("n1")];
    let cluster = cluster_of(&nodes, pods);
    let body = json!({"Pod": asks(), "NodeNameToMetaVictims": {"n1": {"Pods": [], "NumPDBViolations": 0}}});
    let (body, metrics) = (body.to_string(), Metrics::default());
    let call = preempt(&cluster, &metrics, serde_json::from_str(&body).unwrap());
    let (answer, turns) = beside_others(&cluster, &nodes[0], call).await;
    // It fits once both have ended, but whether one of them can be spared is not decided.
    let answer = serde_json::to_value(answer.unwrap()).unwrap();
    assert_eq!(answer, json!({"NodeNameToMetaVictims": {}}));
    // With nobody gone, with both, with one of them.
    assert!(turns >= 2, "{turns} turns");
}

/// A body of 5 MB would have the one thread for seconds.
#[tokio::test]
async fn victims_that_are_not_on_the_node_cost_little_more_than_to_read_them() {
    const NAMED: u32 = 100_000;
    let on = |core: u8| holder(&format!("held-{core}"), "n1", &[core]);
    let cluster = cluster_of(&[node("n1")], (0..64).map(on).collect());
    let mut pod =
        json!({"metadata": {"name": "all", "namespace": "default", "uid": "all"}, "spec": spec(&[64])});
    pod["spec"]["priority"] = json!(100);
    let named: Vec<Value> = (0..NAMED).map(|number| json!({"UID": format!("made-up-{number}")})).collect();
    let victims = json!({"n1": {"Pods": named, "NumPDBViolations": 0}});
    let body = json!({"Pod": pod, "NodeNameToMetaVictims": victims}).to_string();
    let mut times = Vec::new();
    // Of three, as others may have the processor amid one.
    for _ in 0..3 {
        let began = Instant::now();
        let args = serde_json::from_str(&body).unwrap();
        let reading = began.elapsed();
        let answer = preempt(&cluster, &Metrics::default(), args).await.unwrap();
        times.push((began.elapsed() - reading).div_duration_f64(reading));
        let answer = serde_json::to_value(answer).unwrap();
        let left = answer["NodeNameToMetaVictims"]["n1"]["Pods"].as_array().unwrap();
        assert_eq!(left.len(), 100_000 + 64, "all that hold something are added");
    }
    assert!(times.iter().any(|times| *times < 10.0), "times as long as to read it: {times:?}");
}
