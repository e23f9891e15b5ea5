//! The in-tree filters that look at the node's spec and labels, in kube-scheduler's order: NodeUnschedulable,
//! TaintToleration, NodeAffinity.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Node, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration,
};

use super::diagnosis::{Refusal, RefusedBy};

/// The first of the three filters that refuses the node.
pub(crate) fn check(spec: &PodSpec, node: &Node) -> Result<(), Refusal> {
    let refuse = |by, reason: &str| Err(Refusal { by, resolvable: false, reasons: vec![reason.to_owned()] });
    let node_spec = node.spec.as_ref();
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let cordon = || Taint {
        key: "node.kubernetes.io/unschedulable".into(),
        effect: "NoSchedule".into(),
        ..Taint::default()
    };
    let is_cordoned = node_spec.is_some_and(|node_spec| node_spec.unschedulable == Some(true));
    if is_cordoned && !tolerated(&cordon(), tolerations) {
        return refuse(RefusedBy::NodeUnschedulable, "node(s) were unschedulable");
    }
    let mut taints = node_spec.and_then(|node_spec| node_spec.taints.as_ref()).into_iter().flatten();
    if taints.any(|taint| taint.effect != "PreferNoSchedule" && !tolerated(taint, tolerations)) {
        // Since 1.34.2 the text no longer names the taint (kubernetes PR 135023).
        return refuse(RefusedBy::TaintToleration, "node(s) had untolerated taint(s)");
    }
    if !selected(spec, node) {
        return refuse(RefusedBy::NodeAffinity, "node(s) didn't match Pod's node affinity/selector");
    }
    Ok(())
}

fn tolerated(taint: &Taint, tolerations: &[Toleration]) -> bool {
    tolerations.iter().any(|toleration| {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let effect = given(&toleration.effect).is_none_or(|effect| effect == taint.effect);
        let key = given(&toleration.key).is_none_or(|key| key == taint.key);
        let value = match toleration.operator.as_deref() {
            Some("Exists") => true,
            _ => toleration.value.as_deref().unwrap_or("") == taint.value.as_deref().unwrap_or(""),
        };
        effect && key && value
    })
}

fn selected(spec: &PodSpec, node: &Node) -> bool {
    let empty = BTreeMap::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&empty);
    let selector = spec.node_selector.iter().flatten();
    if !selector.into_iter().all(|(key, value)| labels.get(key) == Some(value)) {
        return false;
    }
    let required = spec
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    let name = node.metadata.name.as_deref().unwrap_or("");
    required.is_none_or(|required| {
        required.node_selector_terms.iter().any(|term| term_matches(term, name, labels))
    })
}

/// Whether all requirements of one term hold; a term without any matches no node.
fn term_matches(term: &NodeSelectorTerm, name: &str, labels: &BTreeMap<String, String>) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if expressions.is_empty() && fields.is_empty() {
        return false;
    }
    expressions.iter().all(|wanted| holds(wanted, labels.get(&wanted.key).map(String::as_str)))
        && fields.iter().all(|wanted| holds(wanted, (wanted.key == "metadata.name").then_some(name)))
}

fn holds(wanted: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = wanted.values.as_deref().unwrap_or_default();
    let listed = value.is_some_and(|value| values.iter().any(|listed| listed == value));
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
    let compared = number(value).zip(number(values.first().map(String::as_str)));
    match wanted.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared.is_some_and(|(value, bound)| value > bound),
        "Lt" => compared.is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn checked(spec: serde_json::Value, node: serde_json::Value) -> String {
        let mut spec_json = json!({"containers": []});
        spec_json.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let node = serde_json::from_value(node).unwrap();
        match check(&serde_json::from_value(spec_json).unwrap(), &node) {
            Ok(()) => "ok".into(),
            Err(refusal) => refusal.reasons.join("+"),
        }
    }

    fn node(spec: serde_json::Value) -> serde_json::Value {
        json!({"metadata": {"name": "n1", "labels": {"zone": "a", "size": "4"}}, "spec": spec})
    }

    #[test]
    fn a_cordoned_node_takes_only_pods_that_tolerate_it() {
        let cordoned = || node(json!({"unschedulable": true}));
        assert_eq!(checked(json!({}), cordoned()), "node(s) were unschedulable");
        assert_eq!(checked(json!({"tolerations": [{"operator": "Exists"}]}), cordoned()), "ok");
    }

    #[test]
    fn taints_need_tolerations() {
        let tainted = || node(json!({"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}));
        let soft = node(json!({"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}));
        assert_eq!(checked(json!({}), tainted()), "node(s) had untolerated taint(s)");
        assert_eq!(checked(json!({}), soft), "ok");
        for (toleration, expected) in [
            (json!({"key": "k", "value": "v", "effect": "NoSchedule"}), "ok"),
            (json!({"key": "k", "operator": "Exists"}), "ok"),
            (json!({"key": "k", "value": "other"}), "node(s) had untolerated taint(s)"),
            (
                json!({"key": "k", "operator": "Exists", "effect": "NoExecute"}),
                "node(s) had untolerated taint(s)",
            ),
        ] {
            assert_eq!(checked(json!({"tolerations": [toleration]}), tainted()), expected);
        }
    }

    #[test]
    fn selectors_and_required_affinity_choose_nodes() {
        let unmatched = "node(s) didn't match Pod's node affinity/selector";
        assert_eq!(checked(json!({"nodeSelector": {"zone": "a"}}), node(json!({}))), "ok");
        assert_eq!(checked(json!({"nodeSelector": {"zone": "b"}}), node(json!({}))), unmatched);
        for (key, operator, values, expected) in [
            ("zone", "In", vec!["a", "b"], "ok"),
            ("zone", "NotIn", vec!["a"], unmatched),
            ("none", "NotIn", vec!["a"], "ok"),
            ("none", "Exists", vec![], unmatched),
            ("none", "DoesNotExist", vec![], "ok"),
            ("size", "Gt", vec!["3"], "ok"),
            ("size", "Lt", vec!["3"], unmatched),
        ] {
            let term = json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
            let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [term]}}});
            assert_eq!(checked(json!({"affinity": affinity}), node(json!({}))), expected, "{key} {operator}");
        }
    }
}
