//! Which of a cluster's nodes a run uses. Pure; called by this folder only.

use anyhow::bail;
use k8s_openapi::api::core::v1::Node;

use super::super::install::FAKE_LABEL;
use super::super::nodes::offers_ours;

/// Most nodes that a scenario has.
const MOST: usize = 3;

/// The nodes to use, and those that are labelled but cannot be used.
#[derive(Debug)]
pub(super) struct Choice {
    /// Their names, sorted.
    pub(super) workers: Vec<String>,
    /// Name, and why not; only of nodes that would have been used.
    pub(super) aside: Vec<(String, String)>,
}

impl Choice {
    /// At most `wanted` of the nodes that are labelled `neuron-e2e/fake=true`, by name. An error if there is none.
    pub(super) fn of(context: &str, nodes: &[Node], wanted: usize) -> anyhow::Result<Self> {
        let mut labelled: Vec<(&str, &Node)> = nodes
            .iter()
            .filter(|node| label(node, FAKE_LABEL) == Some("true"))
            .filter_map(|node| Some((node.metadata.name.as_deref()?, node)))
            .collect();
        labelled.sort_by_key(|(name, _)| *name);
        if labelled.is_empty() {
            bail!(
                "context {context:?}: no node is labelled {FAKE_LABEL}=true; scenarios use only nodes that are: \
                 kubectl --context {context} label node NAME {FAKE_LABEL}=true"
            );
        }
        let (mut workers, mut aside) = (Vec::new(), Vec::new());
        for (name, node) in labelled {
            if workers.len() == wanted.clamp(1, MOST) {
                break;
            }
            match unusable(node) {
                Some(why) => aside.push((name.to_owned(), why)),
                None => workers.push(name.to_owned()),
            }
        }
        if workers.is_empty() {
            let why: Vec<String> = aside.iter().map(|(name, why)| format!("{name}: {why}")).collect();
            bail!("context {context:?}: no node labelled {FAKE_LABEL}=true can be used: {}", why.join("; "));
        }
        Ok(Self { workers, aside })
    }
}

fn label<'n>(node: &'n Node, key: &str) -> Option<&'n str> {
    node.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

/// Why scenarios cannot use the node, and what to do about it.
fn unusable(node: &Node) -> Option<String> {
    let spec = node.spec.as_ref();
    if spec.and_then(|spec| spec.unschedulable) == Some(true) {
        return Some("it is cordoned; `kubectl uncordon` it".to_owned());
    }
    let taints = spec.and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    if let Some(taint) = taints.iter().find(|taint| taint.effect != "PreferNoSchedule") {
        return Some(format!(
            "it has the taint {}:{}, which scenario pods do not tolerate; label another one",
            taint.key, taint.effect
        ));
    }
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    if !conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True") {
        return Some("it is not ready".to_owned());
    }
    let offers = "it offers Neuron devices already; take that device plugin away, or label another one";
    offers_ours(node).then(|| offers.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn node(name: &str, fake: bool, spec: Value) -> Node {
        let labels = if fake { json!({FAKE_LABEL: "true"}) } else { json!({FAKE_LABEL: "no"}) };
        serde_json::from_value(json!({
            "metadata": {"name": name, "labels": labels},
            "spec": spec,
            "status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": null, "lastTransitionTime": null}]},
        }))
        .unwrap()
    }

    fn plain(name: &str) -> Node {
        node(name, true, json!({}))
    }

    #[test]
    fn labelled_nodes_are_taken_by_name_as_many_as_wanted_and_at_most_three() {
        let nodes = [plain("d"), plain("b"), node("a", false, json!({})), plain("c"), plain("e")];
        for (wanted, workers) in [(1, vec!["b"]), (2, vec!["b", "c"]), (9, vec!["b", "c", "d"])] {
            assert_eq!(Choice::of("x", &nodes, wanted).unwrap().workers, workers);
        }
    }

    #[test]
    fn without_a_labelled_node_the_command_that_labels_one_is_told() {
        let error = Choice::of("kind-x", &[node("a", false, json!({}))], 1).unwrap_err().to_string();
        assert!(error.contains("kubectl --context kind-x label node NAME neuron-e2e/fake=true"), "{error}");
    }

    #[test]
    fn nodes_that_take_no_pods_are_left_aside_with_the_reason() {
        let tainted = json!({"taints": [{"key": "gpu", "effect": "NoSchedule"}]});
        let nodes = [node("a", true, json!({"unschedulable": true})), node("b", true, tainted), plain("c")];
        let choice = Choice::of("x", &nodes, 3).unwrap();
        assert_eq!(choice.workers, ["c"]);
        assert!(choice.aside[0].1.contains("cordoned"), "{choice:?}");
        assert!(choice.aside[1].1.contains("gpu:NoSchedule"), "{choice:?}");
        let error = Choice::of("x", &nodes[..2], 3).unwrap_err().to_string();
        assert!(error.contains("a: it is cordoned") && error.contains("b: it has the taint"), "{error}");
    }

    #[test]
    fn a_node_with_somebodys_device_plugin_or_that_is_away_is_no_worker() {
        let mut offering = serde_json::to_value(plain("a")).unwrap();
        offering["status"]["allocatable"] = json!({"aws.amazon.com/neuron": "16"});
        let mut away = serde_json::to_value(plain("b")).unwrap();
        away["status"]["conditions"][0]["status"] = json!("Unknown");
        for (node, word) in [(offering, "offers Neuron devices"), (away, "not ready")] {
            let error = Choice::of("x", &[serde_json::from_value(node).unwrap()], 1).unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
        }
    }
}
