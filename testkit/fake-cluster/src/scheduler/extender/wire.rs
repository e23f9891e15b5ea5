//! The extender protocol's JSON as Go writes and reads it (docs/reference/kubernetes.md §1): the Go types have no tags,
//! so keys are field names, nil is `null`, and keys of answers are matched without regard to case.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::scheduler::choose_node::preemption::Victims;

/// Body of filter and prioritize. One of `nodes` and `node_names` is `None` (`null`).
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ExtenderArgs {
    pub(crate) pod: Value,
    pub(crate) nodes: Option<NodeList>,
    pub(crate) node_names: Option<Vec<String>>,
}

/// A v1.NodeList: ordinary Kubernetes JSON.
#[derive(Serialize)]
pub(crate) struct NodeList {
    metadata: BTreeMap<String, Value>,
    items: Vec<Value>,
}

/// Body of bind.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct BindingArgs<'a> {
    pub(crate) pod_name: &'a str,
    pub(crate) pod_namespace: &'a str,
    #[serde(rename = "PodUID")]
    pub(crate) pod_uid: &'a str,
    pub(crate) node: &'a str,
}

/// Body of preempt. One of both maps is `None` (`null`).
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct PreemptionArgs {
    pod: Value,
    node_name_to_victims: Option<BTreeMap<String, Value>>,
    node_name_to_meta_victims: Option<BTreeMap<String, Value>>,
}

impl PreemptionArgs {
    /// The candidates' victims by UID, or as whole pods.
    pub(crate) fn of(pod: &Pod, candidates: &BTreeMap<String, Victims>, by_name: bool) -> Self {
        let map = |of: &dyn Fn(&Pod) -> Value| {
            let victims = |victims: &Victims| {
                let pods: Vec<Value> = victims.iter().map(|victim| of(victim)).collect();
                json!({"Pods": pods, "NumPDBViolations": 0})
            };
            candidates.iter().map(|(node, of_node)| (node.clone(), victims(of_node))).collect()
        };
        Self {
            pod: pod_json(pod),
            node_name_to_victims: (!by_name).then(|| map(&pod_json)),
            node_name_to_meta_victims: by_name.then(|| map(&|victim| json!({"UID": victim.metadata.uid}))),
        }
    }
}

/// Answer to filter.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FilterResult {
    /// Names of the nodes of `Nodes.items`, if `Nodes` was given.
    pub(crate) nodes: Option<Vec<String>>,
    pub(crate) node_names: Option<Vec<String>>,
    pub(crate) failed: BTreeMap<String, String>,
    pub(crate) failed_and_unresolvable: BTreeMap<String, String>,
    pub(crate) error: String,
}

impl NodeList {
    pub(crate) fn of<'a>(nodes: impl Iterator<Item = &'a Node>) -> Self {
        Self { metadata: BTreeMap::new(), items: nodes.map(node_json).collect() }
    }
}

impl FilterResult {
    pub(crate) fn decode(answer: &Value) -> Result<Self, serde_json::Error> {
        let nodes = match field(answer, "Nodes") {
            Some(list) => Some(node_names_of(list)?),
            None => None,
        };
        Ok(Self {
            nodes,
            node_names: read(answer, "NodeNames")?,
            failed: read(answer, "FailedNodes")?.unwrap_or_default(),
            failed_and_unresolvable: read(answer, "FailedAndUnresolvableNodes")?.unwrap_or_default(),
            error: decode_error(answer)?,
        })
    }
}

/// The `Error` of a filter or bind answer; empty means success.
pub(crate) fn decode_error(answer: &Value) -> Result<String, serde_json::Error> {
    Ok(read(answer, "Error")?.unwrap_or_default())
}

/// Answer to preempt: UIDs of victims by node.
pub(crate) fn decode_victims(answer: &Value) -> Result<BTreeMap<String, Vec<String>>, serde_json::Error> {
    let nodes: BTreeMap<String, Value> = read(answer, "NodeNameToMetaVictims")?.unwrap_or_default();
    let uids = |victims: &Value| -> Result<Vec<String>, serde_json::Error> {
        let pods: Vec<Value> = read(victims, "Pods")?.unwrap_or_default();
        pods.iter().map(|pod| Ok(read(pod, "UID")?.unwrap_or_default())).collect()
    };
    nodes.iter().map(|(node, victims)| Ok((node.clone(), uids(victims)?))).collect()
}

/// Answer to prioritize: scores by host.
pub(crate) fn decode_scores(answer: &Value) -> Result<Vec<(String, i64)>, serde_json::Error> {
    let entries: Option<Vec<Value>> = serde_json::from_value(answer.clone())?;
    let entries = entries.unwrap_or_default();
    let score = |entry: &Value| {
        Ok((read(entry, "Host")?.unwrap_or_default(), read(entry, "Score")?.unwrap_or_default()))
    };
    entries.iter().map(score).collect()
}

/// A pod as kube-scheduler's Go types print it.
pub(crate) fn pod_json(pod: &Pod) -> Value {
    let mut pod = object_json(pod);
    for kind in ["containers", "initContainers"] {
        let containers =
            pod.get_mut("spec").and_then(|spec| spec.get_mut(kind)).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            container.entry("resources").or_insert_with(|| json!({}));
        }
    }
    pod
}

fn node_json(node: &Node) -> Value {
    object_json(node)
}

/// Informer objects have neither kind and apiVersion nor managed fields; struct fields are always printed.
fn object_json(object: &impl Serialize) -> Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
        fields.entry("spec").or_insert_with(|| json!({}));
        fields.entry("status").or_insert_with(|| json!({}));
        if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    }
    value
}

fn node_names_of(list: &Value) -> Result<Vec<String>, serde_json::Error> {
    let items: Vec<Value> = read(list, "items")?.unwrap_or_default();
    let name = |item: &Value| match field(item, "metadata") {
        Some(metadata) => Ok(read(metadata, "name")?.unwrap_or_default()),
        None => Ok(String::new()),
    };
    items.iter().map(name).collect()
}

/// A field by its name in any case, the exact one first; `null` is absent.
fn field<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    let loosely =
        || object.as_object()?.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, v)| v);
    object.get(name).or_else(loosely).filter(|value| !value.is_null())
}

fn read<'a, T: Deserialize<'a>>(object: &'a Value, name: &str) -> Result<Option<T>, serde_json::Error> {
    field(object, name).map(T::deserialize).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_in_any_case_and_with_nulls() {
        let answers = [
            json!({"Nodes": null, "NodeNames": ["a"], "FailedNodes": {"b": "full"},
                "FailedAndUnresolvableNodes": null, "Error": ""}),
            json!({"nodenames": ["a"], "failedNodes": {"b": "full"}}),
            json!({"NODENAMES": ["a"], "FAILEDNODES": {"b": "full"}, "extra": 1}),
        ];
        for answer in answers {
            let result = FilterResult::decode(&answer).unwrap();
            assert_eq!(result.node_names, Some(vec!["a".into()]), "{answer}");
            assert_eq!(result.failed, BTreeMap::from([("b".into(), "full".into())]), "{answer}");
            assert_eq!((result.nodes, result.error.as_str()), (None, ""), "{answer}");
        }
    }

    #[test]
    fn node_lists_are_read_by_name() {
        let answer = json!({"nodes": {"metadata": {}, "items": [{"metadata": {"name": "a"}}]}});
        assert_eq!(FilterResult::decode(&answer).unwrap().nodes, Some(vec!["a".into()]));
    }

    #[test]
    fn a_value_of_the_wrong_type_is_an_error() {
        assert!(FilterResult::decode(&json!({"NodeNames": "a"})).is_err());
        assert!(decode_scores(&json!({"Host": "a"})).is_err());
    }

    #[test]
    fn victims_go_as_uids_or_as_whole_pods_and_come_back_as_uids() {
        let pod = |uid: &str| {
            serde_json::from_value::<Pod>(json!({"metadata": {"name": uid, "uid": uid}})).unwrap()
        };
        let candidates = BTreeMap::from([("n1".to_owned(), vec![std::sync::Arc::new(pod("v"))])]);
        let body =
            |by_name| serde_json::to_string(&PreemptionArgs::of(&pod("p"), &candidates, by_name)).unwrap();
        insta::assert_snapshot!(body(true), @r#"{"Pod":{"metadata":{"name":"p","uid":"p"},"spec":{},"status":{}},"NodeNameToVictims":null,"NodeNameToMetaVictims":{"n1":{"NumPDBViolations":0,"Pods":[{"UID":"v"}]}}}"#);
        insta::assert_snapshot!(body(false), @r#"{"Pod":{"metadata":{"name":"p","uid":"p"},"spec":{},"status":{}},"NodeNameToVictims":{"n1":{"NumPDBViolations":0,"Pods":[{"metadata":{"name":"v","uid":"v"},"spec":{},"status":{}}]}},"NodeNameToMetaVictims":null}"#);
        let answer =
            json!({"nodenametometavictims": {"n1": {"pods": [{"uid": "v"}, {"UID": "w"}]}, "n2": {}}});
        let victims = BTreeMap::from([
            ("n1".to_owned(), vec!["v".to_owned(), "w".to_owned()]),
            ("n2".to_owned(), vec![]),
        ]);
        assert_eq!(decode_victims(&answer).unwrap(), victims);
    }

    #[test]
    fn scores_are_a_bare_array() {
        let scores = decode_scores(&json!([{"Host": "a", "Score": 7}, {"host": "b", "score": 0}])).unwrap();
        assert_eq!(scores, [("a".into(), 7), ("b".into(), 0)]);
        assert_eq!(decode_scores(&Value::Null).unwrap(), []);
    }

    fn args(by_name: bool) -> String {
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "namespace": "default", "uid": "u1", "managedFields": [{"manager": "m"}]},
            "spec": {"containers": [{"name": "main", "image": "i"}]}});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
            "status": {"allocatable": {"example.com/device": "4"}}});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let nodes: Vec<Node> = vec![serde_json::from_value(node).unwrap()];
        let args = ExtenderArgs {
            pod: pod_json(&pod),
            nodes: (!by_name).then(|| NodeList::of(nodes.iter())),
            node_names: by_name.then(|| vec!["n1".into()]),
        };
        serde_json::to_string(&args).unwrap()
    }

    #[test]
    fn a_filter_request_by_name() {
        insta::assert_snapshot!(args(true), @r#"{"Pod":{"metadata":{"name":"p","namespace":"default","uid":"u1"},"spec":{"containers":[{"image":"i","name":"main","resources":{}}]},"status":{}},"Nodes":null,"NodeNames":["n1"]}"#);
    }

    #[test]
    fn a_filter_request_with_whole_nodes() {
        insta::assert_snapshot!(args(false), @r#"{"Pod":{"metadata":{"name":"p","namespace":"default","uid":"u1"},"spec":{"containers":[{"image":"i","name":"main","resources":{}}]},"status":{}},"Nodes":{"metadata":{},"items":[{"metadata":{"name":"n1"},"spec":{},"status":{"allocatable":{"example.com/device":"4"}}}]},"NodeNames":null}"#);
    }
}
