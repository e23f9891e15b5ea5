//! The cases about what kubelet admits, and forgets, after it was away: of `device_plugin_test.go` and
//! `device_manager_test.go`.

use anyhow::ensure;
use kube::api::DeleteParams;
use serde_json::json;

use super::Seen;
use super::room::{MAIN, Room, container, manifest};
use crate::kind::nodes::is_ready;
use crate::kind::wait::until;
use neuron_e2e_engine::cluster::NAMESPACE;
use neuron_e2e_engine::observe::phase;

/// The pod of a case.
const POD: &str = "device-plugin-test";
/// Devices of the node.
const ALL: usize = 6;
/// What kubelet says of a pod whose devices nobody has registered.
const REFUSAL: &str = "no healthy devices present; cannot allocate unhealthy devices";

pub(super) async fn succeeded_pod(room: &Room<'_>) -> anyhow::Result<Seen> {
    let mut pod = manifest(POD, 1);
    // Only a pod that nobody can remove is sure to be there when kubelet is back.
    pod["metadata"]["finalizers"] = json!(["neuron-e2e/conformance"]);
    pod["spec"]["restartPolicy"] = json!("Never");
    pod["spec"]["containers"] = json!([container(MAIN, 1, &["--for", "2s"])]);
    room.create(&pod).await?;
    room.by("waiting for the pod to succeed");
    room.pod_until(POD, "to succeed", |pod| phase(pod) == "Succeeded").await?;
    let ids = room.sees(POD, MAIN).await?;
    room.by("deleting the device plugin");
    room.cluster.stop_plugin(room.node_name()?).await?;
    room.offers(0, ALL as i64).await?;
    room.stop_kubelet().await?;
    room.start_kubelet_alone().await?;
    room.stays(POD, "Succeeded").await?;
    room.release(POD).await?;
    Ok(Seen::That(format!(
        "the pod had {}; without the plugin and after kubelet's restart it stayed Succeeded",
        ids.join(", ")
    )))
}

pub(super) async fn orphaned_pod(room: &Room<'_>) -> anyhow::Result<Seen> {
    room.run_pod(POD, 1).await?;
    let (ids, status) = (room.sees(POD, MAIN).await?, room.status(POD, MAIN).await?);
    room.stop_kubelet().await?;
    room.delete(POD, DeleteParams::default().grace_period(0)).await?;
    let id = status.container_id.unwrap_or_default();
    ensure!(room.has_container(&id).await?, "the container of {POD} ended while kubelet was away");
    room.start_kubelet().await?;
    room.by("waiting for the pod's container to disappear");
    until(&format!("container {id} to be removed"), || async { Ok(!room.has_container(&id).await?) }).await?;
    let held = room.books().await?.remove(&format!("{NAMESPACE}/{POD}"));
    ensure!(held.is_none(), "stale device assignment after pod deletion while kubelet was down: {held:?}");
    room.everything_is_free(ALL).await?;
    Ok(Seen::That(format!(
        "the container with {} was removed, kubelet lists it no more, all {ALL} devices were given out again",
        ids.join(", ")
    )))
}

pub(super) async fn node_reboot(room: &Room<'_>) -> anyhow::Result<Seen> {
    room.run_pod(POD, 1).await?;
    let ids = room.sees(POD, MAIN).await?;
    room.stop_kubelet().await?;
    room.keep_plugin_away().await?;
    room.kill_containers(None).await?;
    room.start_kubelet_alone().await?;
    let refusal = refused(room).await?;
    let held = room.books().await?.remove(&format!("{NAMESPACE}/{POD}")).unwrap_or_default();
    ensure!(held.values().all(Vec::is_empty), "a pod that failed admission has {held:?}");
    room.by("bringing the device plugin back");
    room.cluster.start_plugin(room.node_name()?).await?;
    room.offers(ALL as i64, ALL as i64).await?;
    room.everything_is_free(ALL).await?;
    Ok(Seen::That(format!(
        "the pod had {}; then {refusal}; with the plugin back all {ALL} devices were given out again",
        ids.join(", ")
    )))
}

pub(super) async fn not_registered_again(room: &Room<'_>) -> anyhow::Result<Seen> {
    let mut pod = manifest(POD, 2);
    pod["spec"]["restartPolicy"] = json!("Never");
    room.create(&pod).await?;
    room.pod_until(POD, "to be ready", is_ready).await?;
    let ids = room.sees(POD, MAIN).await?;
    let plugin = room.plugin().await?;
    room.stop_kubelet().await?;
    room.by("stopping the device plugin's process, so that it runs and does not register");
    room.signal_plugin(&plugin, "SIGSTOP").await?;
    room.kill_containers(Some(&plugin)).await?;
    room.start_kubelet_alone().await?;
    room.offers(0, 0).await?;
    let refusal = refused(room).await?;
    room.by("letting the device plugin's process go on");
    room.signal_plugin(&plugin, "SIGCONT").await?;
    room.cluster.serves(room.node_name()?, None).await?;
    room.offers(ALL as i64, ALL as i64).await?;
    let now = room.plugin().await?;
    ensure!(now.metadata.uid == plugin.metadata.uid, "the plugin's pod was replaced");
    room.everything_is_free(ALL).await?;
    Ok(Seen::That(format!(
        "the pod had {}; allocatable 0 of 0, and {refusal}; once the plugin went on it registered by itself, and all \
         {ALL} devices were given out again",
        ids.join(", ")
    )))
}

/// Waits until the pod has failed, and checks that it did for the reason there is.
async fn refused(room: &Room<'_>) -> anyhow::Result<String> {
    room.by("waiting for the pod to fail with an admission error");
    room.pod_until(POD, "to fail", |pod| phase(pod) == "Failed").await?;
    let status = room.pod(POD).await?.status.unwrap_or_default();
    let (reason, message) = (status.reason.unwrap_or_default(), status.message.unwrap_or_default());
    ensure!(
        reason == "UnexpectedAdmissionError" && message.contains(REFUSAL),
        "the pod failed with {reason}: {message}"
    );
    Ok(format!("{reason} ({REFUSAL})"))
}
