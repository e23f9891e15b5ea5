//! The cases about device health in a pod's status: `device_plugin_failures_pod_status_test.go`.

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use neuron_core::names;
use serde_json::json;

use super::Seen;
use super::room::{MAIN, Room, manifest};
use neuron_e2e_engine::scenario::DeviceState;

/// The pod of a case.
const POD: &str = "device-plugin-failures-test";
/// An image that nobody has.
const NO_IMAGE: &str = "invalid.registry.k8s.io/invalid/alpine:3.1";

pub(super) async fn of_a_running_pod(room: &Room<'_>) -> anyhow::Result<Seen> {
    room.offers(1, 1).await?;
    room.run_pod(POD, 1).await?;
    healthy_then_unhealthy(room).await
}

pub(super) async fn of_a_pod_without_image(room: &Room<'_>) -> anyhow::Result<Seen> {
    room.offers(1, 1).await?;
    let mut pod = manifest(POD, 1);
    pod["spec"]["containers"][0]["image"] = json!(NO_IMAGE);
    pod["spec"]["containers"][0]["imagePullPolicy"] = json!("Always");
    room.create(&pod).await?;
    room.by("waiting for its image not to come");
    room.pod_until(POD, "to back off from its image", backs_off).await?;
    healthy_then_unhealthy(room).await
}

async fn healthy_then_unhealthy(room: &Room<'_>) -> anyhow::Result<Seen> {
    room.by("waiting for a healthy device in the pod's status");
    room.pod_until(POD, "to show neuron0 as Healthy", |pod| shows(pod, "Healthy")).await?;
    room.becomes(0, DeviceState::Unhealthy).await?;
    room.by("waiting for an unhealthy device in the pod's status");
    room.pod_until(POD, "to show neuron0 as Unhealthy", |pod| shows(pod, "Unhealthy")).await?;
    let phase = room.pod(POD).await?.status.and_then(|status| status.phase).context("a pod without phase")?;
    room.delete(POD, DeleteParams::default()).await?;
    room.becomes(0, DeviceState::Healthy).await?;
    room.offers(1, 1).await?;
    Ok(Seen::That(format!(
        "{}: neuron0 Healthy, then Unhealthy, in the status of a pod that is {phase}",
        names::NEURON
    )))
}

/// Whether the status has exactly this: the one device under the one resource, in this health.
fn shows(pod: &Pod, health: &str) -> bool {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let main = statuses.into_iter().find(|status| status.name == MAIN);
    let Some([resource]) = main.and_then(|status| status.allocated_resources_status.as_deref()) else {
        return false;
    };
    let Some([device]) = resource.resources.as_deref() else { return false };
    resource.name == names::NEURON
        && device.resource_id == "neuron0"
        && device.health.as_deref() == Some(health)
}

fn backs_off(pod: &Pod) -> bool {
    let mut statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    statuses.any(|status| {
        let waiting = status.state.as_ref().and_then(|state| state.waiting.as_ref());
        waiting.and_then(|waiting| waiting.reason.as_deref()) == Some("ImagePullBackOff")
    })
}
