//! Whatever is posted to a verb, the extender answers in the verb's form, panics never, and then serves as before.

use http::Method;
use kube::ResourceExt as _;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use testkit_support::eventually;

use crate::support::{World, pod};

/// Bodies that are tried with each verb, each time others, unless `PROPTEST_CASES` says how many.
const BODIES: u32 = 400;

/// Values that have broken readers of JSON: of another type, at the edge of one, deep, long, or not Kubernetes'.
fn odd_value() -> impl Strategy<Value = Value> {
    let deep = (0..200).fold(json!(null), |inner, _| json!([inner]));
    prop_oneof![
        Just(json!(null)),
        Just(json!({})),
        Just(json!([])),
        Just(json!([null])),
        Just(json!([[{}]])),
        Just(deep),
        Just(json!(-1)),
        Just(json!(1e308)),
        Just(json!(u64::MAX)),
        Just(json!("\u{0}\u{1f980}\u{feff}")),
        Just(json!("9223372036854775808Ei")),
        Just(json!("x".repeat(70_000))),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
    ]
}

/// What is done to a body that kube-scheduler could send.
#[derive(Clone, Debug)]
enum Damage {
    /// One of its values is another one.
    Replace(Index, Value),
    /// One of its values is gone.
    Remove(Index),
    /// It ends early.
    Cut(Index),
    /// One of its bytes is another one.
    Byte(Index, u8),
    /// A key stands twice: the whole is repeated within itself.
    Twice,
    /// Nothing: what is well-formed passes too.
    None,
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        8 => (any::<Index>(), odd_value()).prop_map(|(at, value)| Damage::Replace(at, value)),
        4 => any::<Index>().prop_map(Damage::Remove),
        2 => any::<Index>().prop_map(Damage::Cut),
        4 => (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Damage::Byte(at, byte)),
        1 => Just(Damage::Twice),
        1 => Just(Damage::None),
    ]
}

/// The paths to all values below.
fn paths(value: &Value, path: &str, all: &mut Vec<String>) {
    all.push(path.to_owned());
    let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| paths(value, &format!("{path}/{}", escaped(key)), all))
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, value)| paths(value, &format!("{path}/{at}"), all))
        }
        _ => {}
    }
}

/// The body with the damage done.
fn damaged(body: &Value, damage: &Damage) -> Vec<u8> {
    let mut all = Vec::new();
    paths(body, "", &mut all);
    let mut value = body.clone();
    match damage {
        Damage::Replace(at, other) => *value.pointer_mut(at.get::<String>(&all)).unwrap() = other.clone(),
        Damage::Remove(at) => {
            let path = at.get::<String>(&all);
            let (parent, key) = path.rsplit_once('/').unwrap_or_default();
            match value.pointer_mut(parent) {
                Some(Value::Object(map)) => drop(map.remove(&key.replace("~1", "/").replace("~0", "~"))),
                Some(Value::Array(items)) => drop(key.parse().map(|at: usize| items.remove(at))),
                _ => value = Value::Null,
            }
        }
        Damage::Twice => {
            let text = value.to_string();
            let within = text.trim_start_matches('{').trim_end_matches('}').to_owned();
            return format!("{{{within},{}", &text[1..]).into_bytes();
        }
        Damage::Cut(_) | Damage::Byte(..) | Damage::None => {}
    }
    let mut bytes = value.to_string().into_bytes();
    match damage {
        Damage::Cut(at) => bytes.truncate(at.index(bytes.len())),
        Damage::Byte(at, byte) => {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        _ => {}
    }
    bytes
}

/// Whether the answer has the form that the verb has.
fn is_in_form(verb: &str, status: u16, text: &str) -> bool {
    let answer: Result<Value, _> = serde_json::from_str(text);
    match (verb, status) {
        ("filter" | "bind", 200) => answer.is_ok_and(|answer| answer["Error"].is_string()),
        ("prioritize", 200) => answer.is_ok_and(|answer| answer.is_array()),
        ("preempt", 200) => answer.is_ok_and(|answer| answer["NodeNameToMetaVictims"].is_object()),
        ("prioritize" | "preempt", 400) => text.contains(verb),
        _ => false,
    }
}

/// Makes a pod and has the body ask to bind it where filter has admitted it. Its name.
async fn admitted(world: &World, name: &str, body: &mut Value) -> String {
    let pod = world.pod(name, "neuroncore", 1).await;
    // The one before is deleted, and the watch shows that a moment later.
    eventually("the node takes the pod", async || world.fits(&pod, "trn").await.then_some(())).await;
    body["PodName"] = name.into();
    body["PodUID"] = pod.uid().into();
    name.to_owned()
}

#[tokio::test]
async fn no_body_breaks_a_verb() {
    let world = World::with_nodes(&[("inf", "inf2.24xlarge"), ("trn", "trn2.48xlarge")]).await;
    let waiting = world.pod("waiting", "neuroncore", 2).await;
    let binding = json!({"PodName": "name", "PodNamespace": "default", "PodUID": "uid", "Node": "trn"});
    let mut asks = pod("asks", "neuron", 3);
    asks["metadata"]["annotations"] = json!({"neuron-scheduler/device-model": "Trainium2,inf2.24xlarge"});
    asks["metadata"]["uid"] = json!("asks");
    asks["spec"]["priority"] = json!(7);
    asks["spec"]["initContainers"] = json!([{"name": "init", "restartPolicy": "Always",
        "resources": {"requests": {"aws.amazon.com/neuroncore": "1"}}}]);
    asks["status"] = json!({"extendedResourceClaimStatus": {"resourceClaimName": "claim", "requestMappings":
        [{"containerName": "main", "requestName": "r", "resourceName": "aws.amazon.com/neuron"}]}});
    let nodes =
        json!({"metadata": {}, "items": [{"metadata": {"name": "inf"}}, {"metadata": {"name": "trn"}}]});
    let of_node = |pods: Value| json!({"inf": {"Pods": pods, "NumPDBViolations": 1}});
    let bodies = [
        ("filter", json!({"Pod": asks, "Nodes": null, "NodeNames": ["inf", "trn"]})),
        ("filter", json!({"Pod": asks, "Nodes": nodes, "NodeNames": null})),
        ("prioritize", json!({"Pod": asks, "Nodes": null, "NodeNames": ["inf", "trn"]})),
        ("prioritize", json!({"Pod": asks, "Nodes": nodes, "NodeNames": null})),
        ("preempt", json!({"Pod": asks, "NodeNameToMetaVictims": of_node(json!([{"UID": "u"}]))})),
        ("preempt", json!({"Pod": asks, "NodeNameToVictims": of_node(json!([asks]))})),
        ("bind", binding),
    ];
    let config = Config::default();
    let cases = std::env::var_os("PROPTEST_CASES").map_or(BODIES, |_| config.cases);
    let mut runner = TestRunner::new(config);
    for (verb, mut body) in bodies {
        for case in 0..=cases {
            // The first one is as kube-scheduler would send it.
            let damage = match case {
                0 => Damage::None,
                _ => damage().new_tree(&mut runner).unwrap().current(),
            };
            let bound = match verb {
                "bind" => Some(admitted(&world, &format!("bound-{case}"), &mut body).await),
                _ => None,
            };
            let bytes = damaged(&body, &damage);
            let sent = String::from_utf8_lossy(&bytes).chars().take(2000).collect::<String>();
            let (status, text) = world.call(Method::POST, &format!("/{verb}"), bytes).await;
            assert!(is_in_form(verb, status, &text), "{damage:?}: {sent}\nis answered {status}: {text}");
            if let Some(name) = bound {
                let (node, cores) = world.placed(&name).await;
                assert_eq!(node.is_some(), cores.is_some(), "{damage:?}: {sent}\nis answered {text}");
                assert!(node.is_some() || !matches!(damage, Damage::None), "{sent}\nis answered {text}");
                world.delete(&name).await;
            }
        }
    }
    let (_, metrics) = world.get("/metrics").await;
    assert!(!metrics.contains("result=\"panicked\""), "{metrics}");
    assert!(world.fits(&waiting, "inf").await);
    assert_eq!(world.bind(&waiting, "inf").await, "", "of {}", waiting.name_any());
}
