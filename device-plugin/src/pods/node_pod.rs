//! What is kept of a pod, as the API server or kubelet shows it. Called by [`super::Pods`].

use kube::ResourceExt as _;
use neuron_core::names::Resource;
use neuron_core::pod::{BoundPod, PodStatus};
use neuron_core::request::PodRequest;

use crate::kubelet::pods_api::Pod;
use crate::ledger::is_static;
use crate::ledger::slot::NodePod;

/// On a mirror: that it is one.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// On a mirror: the UID by which kubelet knows its static pod.
const CONFIG_HASH: &str = "kubernetes.io/config.hash";

/// What is kept of a pod; none of a pod that requests nothing of the plugin.
pub(super) fn node_pod(pod: &Pod) -> Option<NodePod> {
    let status = pod.status.as_ref();
    let bound = BoundPod::new(
        pod.namespace().unwrap_or_default(),
        pod.name_any(),
        pod.uid().unwrap_or_default(),
        pod.annotations().clone(),
        &pod.spec,
        status,
    );
    if bound.request.as_ref().is_ok_and(PodRequest::is_empty) {
        return None;
    }
    let uid = bound.uid.to_string();
    // kubelet names a static pod by this, and its mirror says so. Anybody can write that on a pod; a UID of the API server has
    // another form, so that no pod can be passed off as another one's.
    let is_mirror = pod.annotations().contains_key(MIRROR);
    let kubelet_uid = pod.annotations().get(CONFIG_HASH).filter(|hash| is_mirror && is_static(hash));
    let of_all = status
        .into_iter()
        .flat_map(|status| status.init_container_statuses.iter().chain(&status.container_statuses));
    let started = of_all.clone().filter(|status| status.has_run()).map(|status| status.name.clone());
    let running = of_all
        .filter(|status| status.is_running())
        .map(|status| (status.name.clone(), status.container_id.clone().unwrap_or_default()));
    Some(NodePod {
        pod: bound,
        version: number(pod.resource_version().as_deref()),
        kubelet_uid: kubelet_uid.cloned().unwrap_or(uid),
        started: started.collect(),
        running: running.collect(),
        failed_admission: status.is_some_and(failed_admission),
    })
}

/// Whether kubelet has refused the pod for devices: a device plugin did (`UnexpectedAdmissionError`), or there were too few of a resource of
/// ours (`OutOfaws.amazon.com/neuron`).
fn failed_admission(status: &PodStatus) -> bool {
    let reason = status.reason.as_deref().unwrap_or_default();
    let too_few = || reason.strip_prefix("OutOf").is_some_and(|resource| Resource::named(resource).is_some());
    status.phase.as_deref() == Some("Failed") && (reason == "UnexpectedAdmissionError" || too_few())
}

/// A version as a number, by which later ones are told; 0 where there is none.
pub(super) fn number(version: Option<&str>) -> u64 {
    version.and_then(|version| version.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::ledger::Life;
    use crate::pods::state::State;

    /// What is kept of a pod whose container asks for a device and a core, of which a ResourceClaim gives these resources:
    /// how many devices and cores it asks the plugin for.
    fn asked(claimed: &[&str], annotations: Value) -> Option<(u32, u32)> {
        let mapping = |name: &&str| json!({"containerName": "c", "resourceName": name, "requestName": "r"});
        let mappings: Vec<Value> = claimed.iter().map(mapping).collect();
        let limits = json!({"aws.amazon.com/neuron": "1", "aws.amazon.com/neuroncore": "1"});
        let pod = json!({
            "metadata": {"name": "p", "annotations": annotations},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"limits": limits}}]},
            "status": {"extendedResourceClaimStatus": {"resourceClaimName": "x", "requestMappings": mappings}},
        });
        let kept = node_pod(&serde_json::from_value(pod).unwrap())?;
        let request = kept.pod.request.unwrap();
        Some((request.containers[0].devices, request.containers[0].cores))
    }

    #[test]
    fn what_a_claim_gives_is_not_asked_of_the_plugin() {
        let (neuron, neuroncore) = ("aws.amazon.com/neuron", "aws.amazon.com/neuroncore");
        assert_eq!(asked(&["example.com/gpu"], json!({})), Some((1, 1)));
        assert_eq!(asked(&[neuron], json!({})), Some((0, 1)));
        assert_eq!(asked(&[neuron, neuroncore], json!({})), None);
        let record = r#"{"v":1,"node":"n1","lnc":1,"containers":{"c":{"devices":[0],"cores":[2]}}}"#;
        let forged = asked(&[neuron, neuroncore], json!({"neuron-scheduler/allocation": record}));
        assert_eq!(forged, Some((1, 1)), "the record says that the plugin was asked");
    }

    #[test]
    fn a_pod_that_was_refused_for_something_else_is_no_failed_admission_of_ours() {
        for (phase, reason, is_ours) in [
            ("Failed", "UnexpectedAdmissionError", true),
            ("Failed", "OutOfaws.amazon.com/neuron", true),
            ("Failed", "OutOfaws.amazon.com/neuroncore", true),
            ("Pending", "OutOfaws.amazon.com/neuron", false),
            ("Failed", "OutOfcpu", false),
            ("Failed", "OutOfnvidia.com/gpu", false),
            ("Failed", "Evicted", false),
        ] {
            let status = serde_json::from_value(json!({"phase": phase, "reason": reason})).unwrap();
            assert_eq!(failed_admission(&status), is_ours, "{phase} {reason}");
        }
    }

    const HASH: &str = "0123456789abcdef0123456789abcdef";

    /// What is kept of a pod with this UID and these annotations that asks for a device.
    fn kept(uid: &str, phase: &str, annotations: &Value) -> NodePod {
        let limits = json!({"aws.amazon.com/neuron": "1"});
        let pod = json!({
            "metadata": {"name": "p", "uid": uid, "annotations": annotations},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"limits": limits}}]},
            "status": {"phase": phase},
        });
        node_pod(&serde_json::from_value(pod).unwrap()).unwrap()
    }

    #[test]
    fn a_mirror_is_of_the_static_pod_that_kubelet_has_by_its_hash_and_nothing_else_is() {
        let other = "8c7a1a3e-0000-4000-8000-000000000001";
        for (annotations, kubelet_uid) in [
            (json!({MIRROR: HASH, CONFIG_HASH: HASH}), HASH),
            (json!({CONFIG_HASH: HASH}), "u"),
            (json!({MIRROR: HASH, CONFIG_HASH: other}), "u"),
            (json!({}), "u"),
        ] {
            assert_eq!(kept("u", "Running", &annotations).kubelet_uid, kubelet_uid, "{annotations}");
        }
    }

    #[test]
    fn a_static_pod_lives_while_one_of_its_mirrors_has_not_ended_and_may_when_all_are_gone() {
        let mirror = json!({MIRROR: HASH, CONFIG_HASH: HASH});
        let mut state = State::default();
        state.known = Some(BTreeMap::new());
        assert_eq!(state.life(HASH), Life::Unseen, "it has no mirror before its admission");
        state.keep(Arc::new(kept("m1", "Running", &mirror)));
        assert_eq!((state.life(HASH), state.life("m1")), (Life::Lives, Life::Unseen));
        state.keep(Arc::new(kept("m1", "Failed", &mirror)));
        assert_eq!(state.life(HASH), Life::Ended);
        state.keep(Arc::new(kept("m2", "Pending", &mirror)));
        assert_eq!(state.life(HASH), Life::Lives);
        state.forget("m1");
        state.forget("m2");
        assert_eq!(state.life(HASH), Life::Unseen, "somebody deleted its mirrors, and kubelet makes another");
    }
}
