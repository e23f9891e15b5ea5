//! What filter says of a mixed fleet depends neither on the order in which the nodes are named nor on that in which they, and the pods
//! on them, were seen (T17 of the conformance list).

use serde_json::{Value, json};
use testkit_support::eventually;

use crate::support::{World, bound, node, pod};

/// Nodes of every generation by name and type, one without devices.
const FLEET: [(&str, &str); 8] = [
    ("inf1", "inf1.6xlarge"),
    ("inf2", "inf2.48xlarge"),
    ("small", "inf2.xlarge"),
    ("torn", "inf2.24xlarge"),
    ("full", "inf2.24xlarge"),
    ("trn1", "trn1.32xlarge"),
    ("trn2", "trn2.48xlarge"),
    ("web", "m5.large"),
];

/// Who holds what: name, node and devices.
const HOLDERS: [(&str, &str, &[u8]); 5] = [
    ("one", "torn", &[1]),
    ("three", "torn", &[3]),
    ("five", "torn", &[5]),
    ("all", "full", &[0, 1, 2, 3, 4, 5]),
    ("row", "trn1", &[4, 5, 6, 7]),
];

/// Pods that some nodes take, and one that none does.
fn asking() -> Vec<Value> {
    let container = |name: &str, devices: u32| {
        let limits = json!({"aws.amazon.com/neuron": devices.to_string()});
        json!({"name": name, "image": "workload", "resources": {"limits": limits}})
    };
    let mut handed_down = pod("handed-down", "neuron", 1);
    handed_down["spec"] =
        json!({"initContainers": [container("init", 4)], "containers": [container("main", 2)]});
    vec![
        pod("three", "neuron", 3),
        pod("four", "neuron", 4),
        pod("nine", "neuroncore", 9),
        pod("never", "neuron", 13),
        handed_down,
    ]
}

/// The list from each of its places on, forwards and backwards.
fn orders<T: Clone>(list: &[T]) -> Vec<Vec<T>> {
    let from = |at: usize| {
        let mut forwards = list.to_vec();
        forwards.rotate_left(at);
        let backwards = forwards.iter().rev().cloned().collect();
        [forwards, backwards]
    };
    (0..list.len()).flat_map(from).collect()
}

fn names() -> Vec<&'static str> {
    FLEET.iter().map(|(name, _)| *name).collect()
}

async fn ask(world: &World, pod: &Value, names: &[&str]) -> Value {
    let args = json!({"Pod": pod, "Nodes": null, "NodeNames": names});
    serde_json::from_str(&world.post("/filter", args).await).unwrap()
}

/// An extender that has seen these nodes and then these pods come, or the pods first.
async fn seen(fleet: &[(&str, &str)], holders: &[(&str, &str, &[u8])], pods_first: bool) -> World {
    let world = World::with_nodes(&[]).await;
    for is_time_of_pods in [pods_first, !pods_first] {
        if !is_time_of_pods {
            for (name, instance_type) in fleet {
                world.node(node(name, instance_type)).await;
            }
            continue;
        }
        for (name, on, devices) in holders {
            let record = json!({"v": 1, "node": on, "lnc": 1, "containers": {"main": {"devices": devices}}});
            let annotations = json!({"neuron-scheduler/allocation": record.to_string()});
            let count = u32::try_from(devices.len()).unwrap();
            world.create(bound(pod(name, "neuron", count), on, annotations)).await;
        }
    }
    eventually("nodes and holders to be seen", async || {
        let three = ask(&world, &pod("three", "neuron", 3), &names()).await.to_string();
        let sixteen = ask(&world, &pod("sixteen", "neuron", 16), &names()).await.to_string();
        let is_held = three.contains("3 free, the largest linked set has 1")
            && three.contains("free 0 of 6")
            && sixteen.contains("free 12 of 16");
        (is_held && !three.contains("knows no node")).then_some(())
    })
    .await;
    world
}

#[tokio::test]
async fn the_order_of_the_names_decides_the_order_of_the_answer_and_nothing_else() {
    let world = seen(&FLEET, &HOLDERS, false).await;
    for pod in asking() {
        let first = ask(&world, &pod, &names()).await;
        let fits = |name: &str| first["NodeNames"].as_array().unwrap().contains(&json!(name));
        for order in orders(&names()) {
            let answer = ask(&world, &pod, &order).await;
            let fitting: Vec<&str> = order.iter().copied().filter(|name| fits(name)).collect();
            assert_eq!(answer["NodeNames"], json!(fitting), "{order:?}");
            for part in ["FailedNodes", "FailedAndUnresolvableNodes", "Error"] {
                assert_eq!(answer[part], first[part], "{order:?}");
            }
            // The same nodes as whole objects.
            let items: Vec<Value> = order.iter().map(|name| json!({"metadata": {"name": name}})).collect();
            let args = json!({"Pod": pod, "Nodes": {"metadata": {}, "items": items}, "NodeNames": null});
            let answer: Value = serde_json::from_str(&world.post("/filter", args).await).unwrap();
            let fitting: Vec<Value> =
                fitting.iter().map(|name| json!({"metadata": {"name": name}})).collect();
            assert_eq!(answer["Nodes"]["items"], json!(fitting), "{order:?}");
            assert_eq!(answer["FailedNodes"], first["FailedNodes"], "{order:?}");
        }
    }
}

#[tokio::test]
async fn the_order_in_which_nodes_and_pods_were_seen_decides_nothing() {
    let answers = async |world: &World| {
        let mut answers = Vec::new();
        for pod in asking() {
            answers.push(ask(world, &pod, &names()).await);
        }
        answers
    };
    let first = answers(&seen(&FLEET, &HOLDERS, false).await).await;
    let taken: Vec<usize> = first.iter().map(|one| one["NodeNames"].as_array().unwrap().len()).collect();
    assert!(taken[..3].iter().all(|nodes| (1..FLEET.len()).contains(nodes)) && taken[3] == 0, "{taken:?}");
    let holders = orders(&HOLDERS);
    for (at, fleet) in orders(&FLEET).iter().enumerate().step_by(3) {
        let world = seen(fleet, &holders[at % holders.len()], at % 2 == 1).await;
        assert_eq!(answers(&world).await, first, "{fleet:?}");
    }
}
