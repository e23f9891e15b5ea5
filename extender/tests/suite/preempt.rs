//! Which victims are enough: kube-scheduler counts devices and knows no links.

use std::time::Duration;

use http::Method;
use kube::ResourceExt as _;
use neuron_extender::Config;
use serde_json::{Value, json};
use testkit_support::eventually;

use crate::support::{Fault, World, bound, pod};

/// An inf2.24xlarge, six devices in a row, of which 1, 3 and 5 are held by pods of these priorities; the pods' UIDs.
async fn held(priorities: [i32; 3]) -> (World, [String; 3]) {
    let world = World::with_nodes(&[("n1", "inf2.24xlarge")]).await;
    let mut uids = Vec::new();
    for (device, priority) in [1, 3, 5].into_iter().zip(priorities) {
        uids.push(hold(&world, "n1", device, priority).await);
    }
    let asks = pod("asks", "neuron", 3);
    eventually("the three pods are seen", async || {
        let args = json!({"Pod": asks, "NodeNames": ["n1"]});
        world.post("/filter", args).await.contains("3 free, the largest linked set has 1").then_some(())
    })
    .await;
    (world, uids.try_into().unwrap())
}

/// The UID of a pod of this priority, named after its node and its device.
async fn hold(world: &World, node: &str, device: u8, priority: i32) -> String {
    let record = json!({"v": 1, "node": node, "lnc": 1, "containers": {"main": {"devices": [device]}}});
    let annotations = json!({"neuron-scheduler/allocation": record.to_string()});
    let mut holder = bound(pod(&format!("{node}-{device}"), "neuron", 1), node, annotations);
    holder["spec"]["priority"] = json!(priority);
    world.create(holder).await.uid().unwrap()
}

/// A pod of priority 100 that asks for three devices.
fn asks() -> Value {
    let mut pod = pod("asks", "neuron", 3);
    pod["spec"]["priority"] = json!(100);
    pod
}

/// The victims that are left on n1 of these; none if the node is not.
async fn left(world: &World, victims: &[&String]) -> Option<Vec<String>> {
    let victims: Vec<Value> = victims.iter().map(|uid| json!({"UID": uid})).collect();
    let of_node = json!({"n1": {"Pods": victims, "NumPDBViolations": 0}});
    let args = json!({"Pod": asks(), "NodeNameToVictims": null, "NodeNameToMetaVictims": of_node});
    let answer: Value = serde_json::from_str(&world.post("/preempt", args).await).unwrap();
    let left = answer["NodeNameToMetaVictims"].get("n1")?["Pods"].as_array().unwrap();
    Some(left.iter().map(|pod| pod["UID"].as_str().unwrap().to_owned()).collect())
}

#[tokio::test]
async fn victims_that_free_a_linked_set_stay_as_they_came() {
    let (world, [one, three, five]) = held([0, 0, 0]).await;
    assert_eq!(left(&world, &[&one]).await, Some(vec![one.clone()]));
    assert_eq!(left(&world, &[&three]).await, Some(vec![three.clone()]));
    // One more than is needed: kube-scheduler has its reasons.
    assert_eq!(left(&world, &[&five, &three]).await, Some(vec![five, three]));
}

#[tokio::test]
async fn the_least_important_pods_that_help_are_added() {
    // Devices 0, 2, 4 and 5 are no row of three: of the others the one of lower priority goes.
    let (world, [_, three, five]) = held([5, 1, 0]).await;
    assert_eq!(left(&world, &[&five]).await, Some(vec![three, five]));
    let (world, [one, _, five]) = held([1, 5, 0]).await;
    assert_eq!(left(&world, &[&five]).await, Some(vec![one, five]), "the most important victim comes first");
}

#[tokio::test]
async fn a_node_on_which_no_victim_helps_is_left_out() {
    // The others are as important as the pod.
    let (world, [_, _, five]) = held([100, 100, 0]).await;
    assert_eq!(left(&world, &[&five]).await, None);
    assert_eq!(left(&world, &[]).await, None);
}

/// A report that comes within a second says what it holds; a pod that is ended for it is ended for nothing.
#[tokio::test]
async fn nobody_is_added_while_it_is_not_known_what_a_pod_holds() {
    let (world, [_, three, five]) = held([0, 0, 0]).await;
    let stray = world.create(bound(pod("stray", "neuron", 1), "n1", json!({}))).await.uid().unwrap();
    let one = pod("one", "neuron", 1);
    eventually("the stray to be seen", async || {
        let args = json!({"Pod": one, "NodeNames": ["n1"]});
        world.post("/filter", args).await.contains("default/stray").then_some(())
    })
    .await;
    assert_eq!(left(&world, &[&five]).await, None);
    assert_eq!(left(&world, &[&three]).await, None, "the node takes no pod while the stray is there");
    assert_eq!(left(&world, &[&three, &stray]).await, Some(vec![three, stray]));
}

#[tokio::test]
async fn nobody_is_added_for_a_binding_of_which_it_is_open_what_became_of_it() {
    let config = Config { bind_deadline: Duration::from_millis(400), ..Config::default() };
    let world = World::configured(config, &[("n1", "inf2.24xlarge")]).await;
    let [first, last] = [hold(&world, "n1", 0, 0).await, hold(&world, "n1", 5, 0).await];
    let five = pod("five", "neuron", 5);
    eventually("both pods are seen", async || {
        let args = json!({"Pod": five, "NodeNames": ["n1"]});
        world.post("/filter", args).await.contains("free 4 of 6").then_some(())
    })
    .await;
    // Two devices at one end of the four in the middle.
    let late = world.pod("late", "neuron", 2).await;
    world.faults.push(Fault::CallLost);
    assert!(world.bind(&late, "n1").await.starts_with("it is not clear whether the pod was bound: "));
    let mut answers = [left(&world, &[&first]).await, left(&world, &[&last]).await];
    answers.sort();
    let beside_the_free_ones = answers[1].clone().unwrap();
    assert_eq!(answers[0], None, "it would fit if the late pod was not bound");
    assert!([vec![first], vec![last]].contains(&beside_the_free_ones), "{beside_the_free_ones:?}");
}

/// T25 of the conformance list.
#[tokio::test]
async fn of_two_nodes_the_one_is_kept_whose_victims_free_a_linked_set() {
    let world = World::with_nodes(&[("n1", "inf2.24xlarge"), ("n2", "inf2.24xlarge")]).await;
    // 0, 2 and 4 are free on both. Without its pod of priority 0 the first has a row of three, 0 to 2, the second none.
    let mut victims = Vec::new();
    for (node, unimportant) in [("n1", 1), ("n2", 5)] {
        for device in [1, 3, 5] {
            let priority = if device == unimportant { 0 } else { 100 };
            let uid = hold(&world, node, device, priority).await;
            if device == unimportant {
                victims.push(json!({"Pods": [{"UID": uid}], "NumPDBViolations": 0}));
            }
        }
    }
    let mut waits = asks();
    waits["metadata"]["name"] = json!("waits");
    let waits = world.create(waits).await;
    let torn = "no linked set of 3 free Neuron devices: 3 free, the largest linked set has 1";
    eventually("the six pods are seen", async || {
        let answer = world.filter(&waits, &["n1", "n2"]).await;
        (answer["FailedNodes"] == json!({"n1": torn, "n2": torn})).then_some(())
    })
    .await;
    let args = json!({"Pod": waits, "NodeNameToMetaVictims": {"n1": victims[0], "n2": victims[1]}});
    let answer: Value = serde_json::from_str(&world.post("/preempt", args).await).unwrap();
    assert_eq!(answer, json!({"NodeNameToMetaVictims": {"n1": victims[0]}}));

    // And it is so: with both of them gone, only the first node takes the pod.
    for victim in ["n1-1", "n2-5"] {
        world.delete(victim).await;
    }
    let two = "no linked set of 3 free Neuron devices: 4 free, the largest linked set has 2";
    eventually("their ends are seen", async || {
        let answer = world.filter(&waits, &["n1", "n2"]).await;
        (answer["NodeNames"] == json!(["n1"]) && answer["FailedNodes"] == json!({"n2": two})).then_some(())
    })
    .await;
    assert_eq!(world.bind(&waits, "n1").await, "");
    assert_eq!(world.placed("waits").await.1.as_deref(), Some("0,1,2"));
}

#[tokio::test]
async fn a_node_without_any_victim_gets_those_that_help_in_whatever_form_it_comes() {
    let (world, [_, three, _]) = held([5, 1, 0]).await;
    // Of three that are less important the fewest that help, and the least important of those.
    let wanted = json!({"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": three}], "NumPDBViolations": 0}}});
    for of_nodes in [
        "NodeNameToVictims",
        "nodeNameToVictims",
        "nodenametovictims",
        "NodeNameToMetaVictims",
        "nodeNameToMetaVictims",
        "nodenametometavictims",
    ] {
        for victims in [json!({"Pods": null}), json!({"pods": null}), json!({"Pods": []}), json!({})] {
            let args = json!({"pod": asks(), of_nodes: {"n1": victims}});
            let answer: Value = serde_json::from_str(&world.post("/preempt", &args).await).unwrap();
            assert_eq!(answer, wanted, "{args}");
        }
    }
    // Those that were named stay, by their UIDs as they are spelt in either form.
    for (of_nodes, victim) in [
        ("nodeNameToVictims", json!({"metadata": {"uid": three}})),
        ("nodenametovictims", json!({"metadata": {"uid": three}})),
        ("nodeNameToMetaVictims", json!({"uid": three})),
        ("nodenametometavictims", json!({"UID": three})),
    ] {
        let args = json!({"pod": asks(), of_nodes: {"n1": {"pods": [victim]}}});
        let answer: Value = serde_json::from_str(&world.post("/preempt", &args).await).unwrap();
        assert_eq!(answer, wanted, "{args}");
    }
}

#[tokio::test]
async fn whole_victims_and_either_casing_are_read() {
    let (world, [one, ..]) = held([0, 0, 0]).await;
    let wanted = json!({"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": one}], "NumPDBViolations": 2}}});
    let whole = json!({"n1": {"Pods": [{"metadata": {"uid": one}, "spec": {}}], "NumPDBViolations": 2}});
    let meta = json!({"n1": {"pods": [{"uid": one}], "numPDBViolations": 2}});
    for args in [
        json!({"Pod": asks(), "NodeNameToVictims": whole, "NodeNameToMetaVictims": null}),
        json!({"pod": asks(), "nodeNameToMetaVictims": meta}),
    ] {
        let answer: Value = serde_json::from_str(&world.post("/preempt", &args).await).unwrap();
        assert_eq!(answer, wanted, "{args}");
        let path = "/apis/neuron-scheduler/v1/schedule/preempt";
        assert_eq!(serde_json::from_str::<Value>(&world.post(path, &args).await).unwrap(), wanted);
    }
}

#[tokio::test]
async fn the_answer_is_to_the_byte_what_kube_scheduler_reads() {
    let (world, [one, three, _]) = held([0, 0, 0]).await;
    let of_node = json!({"n1": {"Pods": [{"UID": one}, {"UID": three}], "NumPDBViolations": 1}});
    let meta = json!({"Pod": asks(), "NodeNameToVictims": null, "NodeNameToMetaVictims": of_node});
    let answer = world.post("/preempt", meta).await.replace(&one, "<one>").replace(&three, "<three>");
    let pods = r#"[{"UID":"<one>"},{"UID":"<three>"}]"#;
    let wanted = format!(r#"{{"NodeNameToMetaVictims":{{"n1":{{"Pods":{pods},"NumPDBViolations":1}}}}}}"#);
    assert_eq!(answer, wanted);
    // No node is left, and none was sent.
    for of_nodes in [json!({"elsewhere": {"Pods": null}}), json!({}), json!(null)] {
        let args = json!({"pod": asks(), "nodenametovictims": null, "nodenametometavictims": of_nodes});
        assert_eq!(world.post("/preempt", args).await, r#"{"NodeNameToMetaVictims":{}}"#);
    }
}

#[tokio::test]
async fn a_pod_without_neuron_keeps_its_nodes() {
    let world = World::with_nodes(&[]).await;
    let mut plain = pod("plain", "neuron", 1);
    plain["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "1"}});
    let nodes = json!({"web": {"Pods": [{"UID": "a"}], "NumPDBViolations": 0}});
    let args = json!({"Pod": plain, "NodeNameToMetaVictims": nodes});
    let answer: Value = serde_json::from_str(&world.post("/preempt", args).await).unwrap();
    assert_eq!(answer, json!({"NodeNameToMetaVictims": nodes}));
}

#[tokio::test]
async fn nobody_is_ended_while_it_is_not_known_what_is_free() {
    let (world, [one, ..]) = held([0, 0, 0]).await;
    let nodes = json!({"n1": {"Pods": [{"UID": one}], "NumPDBViolations": 0}});
    let args = json!({"Pod": asks(), "NodeNameToMetaVictims": nodes}).to_string();
    world.faults.disconnect_watches(true);
    world.api.set_available(false);
    world.api.set_available(true);
    eventually("the watch to be missed", async || {
        let (status, text) = world.call(Method::POST, "/preempt", args.clone()).await;
        (status == 503).then(|| assert!(text.contains("is disconnected"), "{text}"))
    })
    .await;
    let (status, text) = world.call(Method::POST, "/preempt", "{}".to_owned()).await;
    assert_eq!((status, &*text), (400, "the body of /preempt has no Pod; send one"));
}
