//! A DaemonSet's pods taken off single nodes and brought back, by a label of the nodes.

use anyhow::Context as _;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Affinity, NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm};
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use super::Cluster;
use crate::WAIT;

/// The value of the label on nodes that take no pod of the DaemonSet.
const OFF: &str = "off";

/// A DaemonSet that keeps off nodes whose label says `off`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonSetSwitch {
    /// The DaemonSet's namespace.
    pub namespace: String,
    /// The DaemonSet's name.
    pub daemon_set: String,
    /// Selector of its pods, such as `name=my-plugin`.
    pub pods: String,
    /// Key of the label of nodes.
    pub label: String,
}

impl DaemonSetSwitch {
    /// Adds the rule to the DaemonSet, whose other rules stay.
    ///
    /// # Errors
    /// There is no such DaemonSet, or the API server refuses the change.
    pub async fn install(&self, cluster: &Cluster) -> anyhow::Result<()> {
        let daemon_sets: Api<DaemonSet> = Api::namespaced(cluster.client(), &self.namespace);
        let name = &self.daemon_set;
        let daemon_set = daemon_sets.get(name).await.with_context(|| format!("reading DaemonSet {name}"))?;
        let affinity = kept_off(daemon_set, &self.label).with_context(|| format!("DaemonSet {name}"))?;
        let patch = json!({"spec": {"template": {"spec": {"affinity": affinity}}}});
        let patched = daemon_sets.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        patched.with_context(|| format!("patching DaemonSet {name}"))?;
        Ok(())
    }

    /// Lets the API server delete the pod on this node, and waits until it is to be deleted. A kubelet that is away takes
    /// no notice.
    ///
    /// # Errors
    /// It is not in time.
    pub async fn switch_off(&self, cluster: &Cluster, node: &str) -> anyhow::Result<()> {
        cluster.patch_node(node, &json!({"metadata": {"labels": {&self.label: OFF}}})).await?;
        WAIT.until(&format!("the pod of {} on {node} to be deleted", self.daemon_set), async || {
            let pods = cluster.pods_on(node, &self.namespace, &self.pods).await?;
            Ok(pods.iter().all(|pod| pod.metadata.deletion_timestamp.is_some()))
        })
        .await
    }

    /// Takes the pod off this node and waits until it has ended.
    ///
    /// # Errors
    /// It has not in time.
    pub async fn take_off(&self, cluster: &Cluster, node: &str) -> anyhow::Result<()> {
        self.switch_off(cluster, node).await?;
        WAIT.until(&format!("the pod of {} on {node} to end", self.daemon_set), async || {
            Ok(cluster.pods_on(node, &self.namespace, &self.pods).await?.is_empty())
        })
        .await
    }

    /// Lets the node have its pod again, which is not waited for.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn switch_on(&self, cluster: &Cluster, node: &str) -> anyhow::Result<()> {
        cluster.patch_node(node, &json!({"metadata": {"labels": {&self.label: null}}})).await
    }
}

/// The affinity of the DaemonSet's pods with the rule, once.
fn kept_off(daemon_set: DaemonSet, label: &str) -> anyhow::Result<Affinity> {
    let spec = daemon_set.spec.and_then(|spec| spec.template.spec).context("it has no pods")?;
    let mut affinity = spec.affinity.unwrap_or_default();
    let NodeAffinity { required_during_scheduling_ignored_during_execution: required, .. } =
        affinity.node_affinity.get_or_insert_default();
    let terms = &mut required.get_or_insert_default().node_selector_terms;
    if terms.is_empty() {
        terms.push(NodeSelectorTerm::default());
    }
    let rule = NodeSelectorRequirement {
        key: label.to_owned(),
        operator: "NotIn".to_owned(),
        values: Some(vec![OFF.to_owned()]),
    };
    // Any one of the terms would let a node in.
    for term in terms {
        let expressions = term.match_expressions.get_or_insert_default();
        if !expressions.contains(&rule) {
            expressions.push(rule.clone());
        }
    }
    Ok(affinity)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// The terms of a DaemonSet with this affinity, once the rule was added.
    fn terms(affinity: Value) -> Value {
        let spec = json!({"affinity": affinity, "containers": []});
        let daemon_set = json!({"spec": {"selector": {}, "template": {"spec": spec}}});
        let affinity = kept_off(serde_json::from_value(daemon_set).unwrap(), "switch").unwrap();
        let affinity = serde_json::to_value(affinity).unwrap();
        let place = "/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
        affinity.pointer(place).unwrap().clone()
    }

    fn affinity(terms: &Value) -> Value {
        let required = json!({"nodeSelectorTerms": terms});
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}})
    }

    #[test]
    fn no_way_onto_a_node_that_is_off_is_left() {
        let rule = json!({"key": "switch", "operator": "NotIn", "values": ["off"]});
        assert_eq!(terms(Value::Null), json!([{"matchExpressions": [rule]}]));
        let [one, other] = ["a", "b"].map(|key| json!({"key": key, "operator": "Exists"}));
        let before = json!([{"matchExpressions": [one]}, {"matchExpressions": [other]}]);
        let after = json!([{"matchExpressions": [one, rule]}, {"matchExpressions": [other, rule]}]);
        assert_eq!(terms(affinity(&before)), after);
        assert_eq!(terms(affinity(&after)), after);
    }
}
