//! The forms of a call that older and third-party callers send are read as kube-scheduler's own, and answered to the byte as that.

use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::support::{World, pod};

/// Where AWS' extension serves its calls.
const PREFIX: &str = "/apis/neuron-scheduler/v1/schedule";

async fn fleet() -> World {
    World::with_nodes(&[("inf", "inf2.24xlarge"), ("trn", "trn1.32xlarge")]).await
}

/// Two whole nodes.
fn items() -> Value {
    json!([{"metadata": {"name": "inf", "annotations": {"kept": "as it came"}}}, {"metadata": {"name": "trn"}}])
}

/// Every form of a call that names nodes in whole or by name, kube-scheduler's own first.
fn forms(pod: &Value) -> [Vec<Value>; 2] {
    let names = json!(["inf", "trn"]);
    let whole = vec![
        json!({"Pod": pod, "Nodes": {"metadata": {}, "items": items()}, "NodeNames": null}),
        json!({"pod": pod, "nodes": {"metadata": {}, "items": items()}, "nodeNames": null}),
        json!({"pod": pod, "nodes": {"Items": items()}, "nodenames": null}),
        json!({"Pod": pod, "Nodes": {"Items": items()}}),
        json!({"pod": pod, "nodes": {"items": items()}}),
    ];
    let by_name = vec![
        json!({"Pod": pod, "Nodes": null, "NodeNames": names}),
        json!({"pod": pod, "nodes": null, "nodeNames": names}),
        json!({"pod": pod, "nodes": null, "nodenames": names}),
        json!({"pod": pod, "nodeNames": names}),
    ];
    [whole, by_name]
}

/// Posts every form and returns the answer that all of them have, for whole nodes and for names.
async fn answers(world: &World, verb: &str, pod: &Value) -> [String; 2] {
    let [mut whole, mut by_name] = [String::new(), String::new()];
    for (forms, wanted) in forms(pod).into_iter().zip([&mut whole, &mut by_name]) {
        *wanted = world.post(&format!("/{verb}"), &forms[0]).await;
        for form in &forms {
            for path in [format!("/{verb}"), format!("{PREFIX}/{verb}")] {
                assert_eq!(world.post(&path, form).await, *wanted, "{form} to {path}");
            }
        }
    }
    [whole, by_name]
}

#[tokio::test]
async fn filter_reads_nodes_and_their_names_in_either_casing() {
    let world = fleet().await;
    let [whole, by_name] = answers(&world, "filter", &pod("two", "neuron", 2)).await;
    let never = "Instance type trn1.32xlarge does not support requests for device: 2. Please request a different number of devices.";
    let rest = format!(
        "\"FailedNodes\":{{}},\"FailedAndUnresolvableNodes\":{{\"trn\":\"{never}\"}},\"Error\":\"\"}}"
    );
    assert_eq!(by_name, format!("{{\"Nodes\":null,\"NodeNames\":[\"inf\"],{rest}"));
    let inf = &items()[0];
    assert_eq!(
        whole,
        format!("{{\"Nodes\":{{\"metadata\":{{}},\"items\":[{inf}]}},\"NodeNames\":null,{rest}")
    );
}

#[tokio::test]
async fn prioritize_reads_nodes_and_their_names_in_either_casing() {
    let world = fleet().await;
    let wanted = r#"[{"Host":"inf","Score":10}]"#;
    assert_eq!(answers(&world, "prioritize", &pod("two", "neuron", 2)).await, [wanted, wanted]);
}

#[tokio::test]
async fn a_bind_in_any_casing_is_answered_to_the_byte() {
    let world = World::with_nodes(&[("n1", "inf2.24xlarge")]).await;
    let forms: [fn(&str, &str) -> Value; 4] = [
        |name, uid| json!({"PodName": name, "PodNamespace": "default", "PodUID": uid, "Node": "n1"}),
        |name, uid| json!({"podName": name, "podNamespace": "default", "podUID": uid, "node": "n1"}),
        |name, uid| json!({"podName": name, "podNamespace": "default", "podUid": uid, "node": "n1"}),
        |name, uid| json!({"podname": name, "podnamespace": "default", "poduid": uid, "node": "n1"}),
    ];
    for (at, form) in forms.into_iter().enumerate() {
        let name = format!("p{at}");
        let uid = world.pod(&name, "neuron", 1).await.uid().unwrap();
        let path = if at % 2 == 0 { "/bind".to_owned() } else { format!("{PREFIX}/bind") };
        assert_eq!(world.post(&path, form(&name, &uid)).await, r#"{"Error":""}"#);
        assert_eq!(world.placed(&name).await, (Some("n1".into()), Some(at.to_string())));
        // Repeated it is the same.
        assert_eq!(world.post("/bind", form(&name, &uid)).await, r#"{"Error":""}"#);
    }
}
