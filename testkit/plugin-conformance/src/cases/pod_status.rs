//! The cases about device health in a pod's status: `device_plugin_failures_pod_status_test.go`.

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Pod;
use kind_driver::status::{containers, phase};
use kube::api::DeleteParams;
use serde_json::json;

use crate::CaseOutcome;
use crate::case_context::{CaseContext, MAIN};

/// The pod of a case.
const POD: &str = "device-plugin-failures-test";
/// An image that nobody has.
const NO_IMAGE: &str = "invalid.registry.k8s.io/invalid/alpine:3.1";

pub(super) async fn of_a_running_pod(context: &CaseContext<'_>) -> anyhow::Result<CaseOutcome> {
    context.run_pod(POD, 1).await?;
    healthy_then_unhealthy(context).await
}

pub(super) async fn of_a_pod_without_image(context: &CaseContext<'_>) -> anyhow::Result<CaseOutcome> {
    if context.stage.embedded().is_some() {
        return Ok(CaseOutcome::NotApplicable("the embedded kubelet pulls no images".to_owned()));
    }
    let mut pod = context.manifest(POD, 1);
    pod["spec"]["containers"][0]["image"] = json!(NO_IMAGE);
    pod["spec"]["containers"][0]["imagePullPolicy"] = json!("Always");
    context.create(&pod).await?;
    context.step("waiting for its image not to come");
    context.pod_until(POD, "to back off from its image", backs_off).await?;
    healthy_then_unhealthy(context).await
}

async fn healthy_then_unhealthy(context: &CaseContext<'_>) -> anyhow::Result<CaseOutcome> {
    let resource = &context.stage.description().resource;
    let ids = context.assigned(POD, MAIN).await?;
    ensure!(ids.len() == 1, "kubelet says a pod that asks for one device has {ids:?}");
    let id = ids.first().context("no device")?;
    for (health, is_healthy) in [("Healthy", true), ("Unhealthy", false)] {
        if !is_healthy {
            context.set_health(0, false).await?;
        }
        context.step(format!("waiting for {id} as {health} in the pod's status"));
        let shows = |pod: &Pod| shows(pod, resource, id, health);
        context.pod_until(POD, &format!("to show {id} as {health}"), shows).await?;
    }
    let phase = phase(&context.pod(POD).await?).to_owned();
    context.delete(POD, DeleteParams::default()).await?;
    context.set_health(0, true).await?;
    context.advertises(1, 1).await?;
    Ok(CaseOutcome::Passed(format!(
        "{resource}: {id} Healthy, then Unhealthy, in the status of a pod that is {phase}"
    )))
}

/// Whether the status has exactly this: the one device under the one resource, in this health.
fn shows(pod: &Pod, resource: &str, id: &str, health: &str) -> bool {
    let main = containers(pod).find(|status| status.name == MAIN);
    let Some([shown]) = main.and_then(|status| status.allocated_resources_status.as_deref()) else {
        return false;
    };
    let Some([device]) = shown.resources.as_deref() else { return false };
    shown.name == resource && device.resource_id == id && device.health.as_deref() == Some(health)
}

fn backs_off(pod: &Pod) -> bool {
    containers(pod).any(|status| {
        let waiting = status.state.as_ref().and_then(|state| state.waiting.as_ref());
        waiting.and_then(|waiting| waiting.reason.as_deref()) == Some("ImagePullBackOff")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(resource: &str, id: &str, health: &str) -> Pod {
        let shown = json!({"name": resource, "resources": [{"resourceID": id, "health": health}]});
        let main = json!({
            "name": MAIN, "ready": true, "restartCount": 0, "image": "", "imageID": "",
            "allocatedResourcesStatus": [shown],
        });
        serde_json::from_value(json!({"status": {"containerStatuses": [main]}})).unwrap()
    }

    #[test]
    fn only_the_device_itself_in_that_health_counts() {
        let shown = pod("vendor.example/toy", "toy3", "Unhealthy");
        assert!(shows(&shown, "vendor.example/toy", "toy3", "Unhealthy"));
        assert!(!shows(&shown, "vendor.example/toy", "toy3", "Healthy"));
        assert!(!shows(&shown, "vendor.example/toy", "toy4", "Unhealthy"));
        assert!(!shows(&shown, "vendor.example/other", "toy3", "Unhealthy"));
        assert!(!shows(&Pod::default(), "vendor.example/toy", "toy3", "Unhealthy"));
    }
}
