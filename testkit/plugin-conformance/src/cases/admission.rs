//! The cases about what kubelet admits, and forgets, after it was away: of `device_plugin_test.go` and
//! `device_manager_test.go`.

use std::time::Duration;

use anyhow::ensure;
use kind_driver::status::{is_ready, phase};
use kube::api::DeleteParams;
use serde_json::json;

use crate::case_context::{CaseContext, MAIN};
use crate::instance::{ContainerOf, Signal};
use crate::{CaseOutcome, NAMESPACE};

/// The pod of a case.
const POD: &str = "device-plugin-test";
/// What kubelet says of a pod whose devices nobody has registered.
const REFUSAL: &str = "no healthy devices present; cannot allocate unhealthy devices";

pub(super) async fn succeeded_pod(context: &CaseContext<'_>) -> anyhow::Result<CaseOutcome> {
    let mut pod = context.manifest(POD, 1);
    // Only a pod that nobody can remove is sure to be there when kubelet is back.
    pod["metadata"]["finalizers"] = json!(["plugin-conformance/case"]);
    pod["spec"]["restartPolicy"] = json!("Never");
    pod["spec"]["containers"] = json!([context.container(MAIN, 1, Some(Duration::from_secs(2)))]);
    context.create(&pod).await?;
    context.step("waiting for the pod to succeed");
    context.pod_until(POD, "to succeed", |pod| phase(pod) == "Succeeded").await?;
    let had = context.saw(POD, MAIN).await?;
    context.stop_plugin().await?;
    context.advertises(0, context.devices()).await?;
    context.stop_kubelet().await?;
    context.start_kubelet_alone().await?;
    context.stays(POD, "Succeeded").await?;
    context.release(POD).await?;
    Ok(CaseOutcome::Passed(format!(
        "the pod had {had}; without the plugin and after kubelet's restart it stayed Succeeded"
    )))
}

pub(super) async fn orphaned_pod(context: &CaseContext<'_>) -> anyhow::Result<CaseOutcome> {
    context.run_pod(POD, 1).await?;
    let pod = context.pod(POD).await?;
    let (ids, status) = (context.sees(POD, MAIN).await?, context.status(POD, MAIN).await?);
    context.stop_kubelet().await?;
    context.delete(POD, DeleteParams::default().grace_period(0)).await?;
    let container = ContainerOf { pod: &pod, name: MAIN, id: status.container_id.as_deref() };
    let is_there = || context.stage.has_container(&container);
    ensure!(is_there().await?, "the container of {POD} ended while kubelet was away");
    context.start_kubelet().await?;
    context.step("waiting for the pod's container to disappear");
    let wait = context.stage.wait();
    wait.until(&format!("the container of {POD} to be removed"), async || Ok(!is_there().await?)).await?;
    let held = context.assignments().await?.remove(&format!("{NAMESPACE}/{POD}"));
    ensure!(held.is_none(), "stale device assignment after pod deletion while kubelet was down: {held:?}");
    context.everything_is_free().await?;
    Ok(CaseOutcome::Passed(format!(
        "the container with {} was removed, kubelet lists it no more, all {} devices were given out again",
        ids.join(", "),
        context.devices()
    )))
}

pub(super) async fn node_reboot(context: &CaseContext<'_>) -> anyhow::Result<CaseOutcome> {
    context.run_pod(POD, 1).await?;
    let ids = context.sees(POD, MAIN).await?;
    context.stop_kubelet().await?;
    context.keep_plugin_away().await?;
    context.kill_containers(None).await?;
    context.start_kubelet_alone().await?;
    let refusal = refused(context).await?;
    let held = context.assignments().await?.remove(&format!("{NAMESPACE}/{POD}")).unwrap_or_default();
    ensure!(held.values().all(Vec::is_empty), "a pod that failed admission has {held:?}");
    context.start_plugin().await?;
    context.everything_is_free().await?;
    Ok(CaseOutcome::Passed(format!(
        "the pod had {}; then {refusal}; with the plugin back all {} devices were given out again",
        ids.join(", "),
        context.devices()
    )))
}

pub(super) async fn not_registered_again(context: &CaseContext<'_>) -> anyhow::Result<CaseOutcome> {
    let mut pod = context.manifest(POD, 2);
    pod["spec"]["restartPolicy"] = json!("Never");
    context.create(&pod).await?;
    context.pod_until(POD, "to be ready", is_ready).await?;
    let ids = context.sees(POD, MAIN).await?;
    let plugin = context.plugin().await?;
    context.stop_kubelet().await?;
    context.step("stopping the device plugin's process, so that it runs and does not register");
    context.signal_plugin(&plugin, Signal::Stop).await?;
    context.kill_containers(Some(&plugin)).await?;
    context.start_kubelet_alone().await?;
    context.advertises(0, 0).await?;
    let refusal = refused(context).await?;
    context.step("letting the device plugin's process go on");
    context.signal_plugin(&plugin, Signal::Continue).await?;
    context.advertises_everything_since(None).await?;
    let now = context.plugin().await?;
    ensure!(now.id == plugin.id, "the plugin was replaced by another");
    context.everything_is_free().await?;
    Ok(CaseOutcome::Passed(format!(
        "the pod had {}; allocatable 0 of 0, and {refusal}; once the plugin went on it registered by itself, and all \
         {} devices were given out again",
        ids.join(", "),
        context.devices()
    )))
}

/// Waits until the pod has failed, and checks that it did for the reason there is.
async fn refused(context: &CaseContext<'_>) -> anyhow::Result<String> {
    context.step("waiting for the pod to fail with an admission error");
    context.pod_until(POD, "to fail", |pod| phase(pod) == "Failed").await?;
    let status = context.pod(POD).await?.status.unwrap_or_default();
    let (reason, message) = (status.reason.unwrap_or_default(), status.message.unwrap_or_default());
    ensure!(
        reason == "UnexpectedAdmissionError" && message.contains(REFUSAL),
        "the pod failed with {reason}: {message}"
    );
    Ok(format!("{reason} ({REFUSAL})"))
}
