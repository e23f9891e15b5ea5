//! Ends pods for one of higher priority, as kube-scheduler's DefaultPreemption does: a dry run, the extenders' say, the choice of a node,
//! and the deletions. Called by `scheduling_loop` for a pod that no node takes.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use runtime::reached;
use serde_json::json;

use super::cache::NodeInfo;
use super::choose_node::diagnosis::Diagnosis;
use super::choose_node::preemption::{Preempted, Victims, dry_run, least};
use super::cluster_event::ClusterEvent;
use super::nominations::Kept;
use super::priority::priority;
use super::report::Report;
use super::shared::Shared;
use crate::clock::rfc3339;

/// The condition of a pod that is ended for another one, and its reason.
const DISRUPTED: (&str, &str) = ("DisruptionTarget", "PreemptionByScheduler");

/// Ends pods for `pod`, which none of `nodes` takes for the reasons of `diagnosis`.
pub(crate) async fn preempt(
    shared: &Shared,
    pod: &Arc<Pod>,
    nodes: &[Arc<NodeInfo>],
    diagnosis: &Diagnosis,
    kept: &Kept,
) -> Preempted {
    if let Some(why) = not_eligible(pod, nodes, diagnosis) {
        return Preempted::Nobody(why.to_owned());
    }
    let run = dry_run(pod, nodes, diagnosis, kept, &shared.ignored_resources);
    if run.candidates.is_empty() {
        return match run.errors.as_slice() {
            [] => {
                unnominate(shared, pod).await;
                Preempted::Nobody(diagnosis.preemption(&run.refusals))
            }
            [only] => Preempted::Failed(only.clone()),
            all => Preempted::Failed(format!("[{}]", all.join(", "))),
        };
    }
    let candidates = match ask_extenders(shared, pod, run.candidates, nodes).await {
        Ok(candidates) => candidates,
        Err(error) => return Preempted::Failed(error),
    };
    let Some(node) = least(&candidates).map(str::to_owned) else {
        return Preempted::Nobody("no candidate node for preemption".to_owned());
    };
    let victims = candidates.get(&node).cloned().unwrap_or_default();
    for victim in victims.iter().filter(|victim| victim.metadata.deletion_timestamp.is_none()) {
        if let Err(error) = end(shared, pod, victim, &node).await {
            // kube-scheduler ends victims beside the loop: it nominates the pod all the same, and tries it again.
            tracing::debug!(victim = %victim.name_any(), %error, "a victim was not ended");
            let now = shared.clock.now();
            shared.with_state(|state| state.queue.observe(ClusterEvent::PodGone, now));
        }
    }
    nominate(shared, pod, &node).await;
    reached("cluster: pods ended for another one");
    Preempted::Nominated { node, victims: victims.len() }
}

fn not_eligible(pod: &Pod, nodes: &[Arc<NodeInfo>], diagnosis: &Diagnosis) -> Option<&'static str> {
    if pod.spec.as_ref().and_then(|spec| spec.preemption_policy.as_deref()) == Some("Never") {
        return Some("not eligible due to preemptionPolicy=Never.");
    }
    let nominated = pod.status.as_ref()?.nominated_node_name.as_deref()?;
    let may_be_helped = diagnosis.refusals.get(nominated).is_some_and(|refusal| refusal.resolvable);
    let node = nodes.iter().find(|node| node.name == nominated).filter(|_| may_be_helped)?;
    let ends_for_it = |other: &Pod| priority(other) < priority(pod) && is_ended_for_another(other);
    node.pods
        .iter()
        .any(|on_node| ends_for_it(&on_node.pod))
        .then_some("not eligible due to a terminating pod on the nominated node.")
}

fn is_ended_for_another(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let (type_, reason) = DISRUPTED;
    pod.metadata.deletion_timestamp.is_some()
        && conditions.iter().any(|condition| {
            (condition.type_ == type_ && condition.status == "True")
                && condition.reason.as_deref() == Some(reason)
        })
}

/// Each extender with a preempt verb leaves what it agrees with of what the one before left.
async fn ask_extenders(
    shared: &Shared,
    pod: &Pod,
    mut candidates: BTreeMap<String, Victims>,
    nodes: &[Arc<NodeInfo>],
) -> Result<BTreeMap<String, Victims>, String> {
    let preempters = shared.extenders.iter().filter(|extender| extender.is_preempter());
    for extender in preempters.filter(|extender| extender.is_interested(pod)) {
        let mut answer = match extender.preempt(pod, &candidates, nodes).await {
            Ok(answer) => answer,
            Err(error) if extender.is_ignorable() => {
                tracing::info!(pod = %pod.name_any(), %error, "an ignorable extender failed; preemption continues without it");
                continue;
            }
            Err(error) => return Err(error.to_string()),
        };
        if extender.is_ignorable() {
            answer.retain(|_, victims| !victims.is_empty());
        } else if let Some((node, _)) = answer.iter().find(|(_, victims)| victims.is_empty()) {
            return Err(format!("expected at least one victim pod on node {node:?}"));
        }
        candidates = answer;
        if candidates.is_empty() {
            break;
        }
    }
    Ok(candidates)
}

/// Ends one pod with its own grace, and says why. One that is gone has ended.
async fn end(shared: &Shared, pod: &Arc<Pod>, victim: &Arc<Pod>, node: &str) -> Result<(), kube::Error> {
    let pods: Api<Pod> = Api::namespaced(shared.client.clone(), &victim.namespace().unwrap_or_default());
    let (name, now) = (victim.name_any(), shared.clock.now());
    let (type_, reason) = DISRUPTED;
    let condition = json!({
        "type": type_,
        "status": "True",
        "reason": reason,
        "message": format!("{}: preempting to accommodate a higher priority pod", shared.config.name),
        "lastProbeTime": null,
        "lastTransitionTime": rfc3339(now),
    });
    let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
    let ended = async {
        pods.patch_status(&name, &PatchParams::default(), &patch).await?;
        pods.delete(&name, &DeleteParams::default()).await
    };
    match ended.await {
        Ok(_) => {
            shared.report(Report::preempted(Arc::clone(victim), pod, node, now));
            Ok(())
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error),
    }
}

/// The node is kept for the pod: pods that are less important see it as if the pod was there, and lose their own nomination to it.
async fn nominate(shared: &Shared, pod: &Pod, node: &str) {
    let uid = pod.uid().unwrap_or_default();
    let less_important = shared.with_state(|state| {
        // It may have been deleted meanwhile.
        state.queue.contains(&uid).then(|| {
            state.nominations.set(pod, node);
            let below = state.nominations.below(priority(pod), node);
            below.into_iter().filter_map(|uid| state.queue.pod(&uid)).collect::<Vec<_>>()
        })
    });
    let Some(less_important) = less_important else { return };
    patch_nomination(shared, pod, Some(node)).await;
    for other in less_important {
        unnominate(shared, &other).await;
        let now = shared.clock.now();
        shared.with_state(|state| state.queue.observe(ClusterEvent::PodGone, now));
    }
}

/// No node is kept for the pod any more.
pub(crate) async fn unnominate(shared: &Shared, pod: &Pod) {
    let uid = pod.uid().unwrap_or_default();
    let was_kept = shared.with_state(|state| state.nominations.remove(&uid));
    let is_told = pod.status.as_ref().is_some_and(|status| status.nominated_node_name.is_some());
    if was_kept || is_told {
        patch_nomination(shared, pod, None).await;
    }
}

async fn patch_nomination(shared: &Shared, pod: &Pod, node: Option<&str>) {
    let pods: Api<Pod> = Api::namespaced(shared.client.clone(), &pod.namespace().unwrap_or_default());
    let patch = Patch::Strategic(json!({"status": {"nominatedNodeName": node}}));
    if let Err(error) = pods.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await {
        tracing::debug!(pod = %pod.name_any(), %error, "the nomination was not written");
    }
}
