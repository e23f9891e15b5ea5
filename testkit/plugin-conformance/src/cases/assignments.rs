//! The cases about which devices a container has, and that it keeps them: `device_plugin_test.go`.

use std::time::Duration;

use anyhow::ensure;
use kind_driver::status::is_ready;
use serde_json::json;

use super::kubelet_ways;
use crate::case_context::{CaseContext, MAIN};
use crate::plugin::Injection;
use crate::{CaseOutcome, NAMESPACE};

/// The pod of a case that has one.
const POD: &str = "device-plugin-test";
/// The first release of containerd that knows CDI devices.
const CDI: (u32, u32) = (1, 7);
/// The first kubelet that, restarted itself, takes any running container of a name for running: docs/reference/kubernetes.md §8.
const KNOWS_RESTARTED: (u32, u32) = (1, 35);

pub(super) async fn can_schedule(context: &CaseContext<'_>) -> anyhow::Result<CaseOutcome> {
    context.run_pod(POD, 1).await?;
    let ids = context.sees(POD, MAIN).await?;
    ensure!(ids.len() == 1, "a pod that asks for one device sees {ids:?}");
    context.kubelet_says(POD, MAIN, &ids).await?;
    let all = context.assignments().await?;
    let mut holders = all.iter().filter(|(_, containers)| containers.values().any(|ids| !ids.is_empty()));
    let others = holders.find(|(pod, _)| **pod != format!("{NAMESPACE}/{POD}"));
    ensure!(others.is_none(), "a pod that asked for nothing has devices: {others:?}");
    Ok(CaseOutcome::Passed(format!("{} in the container and in kubelet's podresources", ids.join(", "))))
}

pub(super) async fn cdi(context: &CaseContext<'_>) -> anyhow::Result<CaseOutcome> {
    if let Some(node) = context.stage.embedded() {
        return kubelet_ways::cdi(context, node).await;
    }
    let info = context.node_object().await?.status.and_then(|status| status.node_info).unwrap_or_default();
    let runtime = info.container_runtime_version;
    let too_old = is_below(&runtime, CDI).then(|| format!("this node has {runtime}, CDI needs 1.7"));
    match (context.stage.description().injection, too_old) {
        (Injection::DeviceNodes, too_old) => Ok(CaseOutcome::NotApplicable(format!(
            "this plugin hands out device nodes, no CDI devices{}",
            too_old.map(|why| format!("; {why}")).unwrap_or_default()
        ))),
        (Injection::Cdi, Some(too_old)) => Ok(CaseOutcome::NotApplicable(too_old)),
        (Injection::Cdi, None) => can_schedule(context).await,
    }
}

/// Whether `containerd://1.6.20~ds1` is of an earlier minor version.
fn is_below(runtime: &str, wanted: (u32, u32)) -> bool {
    let version = runtime.strip_prefix("containerd://").unwrap_or_default();
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor) < wanted,
        _ => false,
    }
}

pub(super) async fn across_pod_restarts(context: &CaseContext<'_>) -> anyhow::Result<CaseOutcome> {
    context.run_pod(POD, 1).await?;
    let (ids, report) = (context.sees(POD, MAIN).await?, context.report(POD, MAIN).await?);
    let restarts = context.restart_container(POD, MAIN).await?;
    context.still_sees(POD, MAIN, &report, "its restart").await?;
    context.kubelet_says(POD, MAIN, &ids).await?;
    let other = "device-plugin-test-2";
    context.run_pod(other, 1).await?;
    let others = context.sees(other, MAIN).await?;
    ensure!(others != ids, "two pods have {ids:?}");
    context.kubelet_says(POD, MAIN, &ids).await?;
    context.kubelet_says(other, MAIN, &others).await?;
    Ok(CaseOutcome::Passed(format!(
        "{} before and after restart {restarts}; a second pod has {}",
        ids.join(", "),
        others.join(", ")
    )))
}

pub(super) async fn across_kubelet_restarts(context: &CaseContext<'_>) -> anyhow::Result<CaseOutcome> {
    context.run_pod(POD, 1).await?;
    let (ids, pod) = (context.sees(POD, MAIN).await?, context.pod(POD).await?);
    context.stop_kubelet().await?;
    context.start_kubelet().await?;
    context.advertises_all().await?;
    context.still_runs(&pod).await?;
    let restarts = context.status(POD, MAIN).await?.restart_count;
    ensure!(restarts == 0, "the container restarted {restarts} times");
    context.kubelet_says(POD, MAIN, &ids).await?;
    let all = context.devices();
    Ok(CaseOutcome::Passed(format!(
        "same pod, no restart, {} as before; allocatable {all} of {all} again",
        ids.join(", ")
    )))
}

/// What it means that a pod with a restarted container did not become ready after kubelet's restart. Up to 1.34 kubelet may take
/// such a container for one that does not run; then it admits the pod anew, before the plugin has registered again.
async fn refused_anew(context: &CaseContext<'_>, error: anyhow::Error) -> anyhow::Result<CaseOutcome> {
    let kubelet = context.kubelet_release().await?;
    let status = context.pod(POD).await?.status.unwrap_or_default();
    // What kubelet says before a plugin has registered; no plugin was asked.
    let unserved = "no healthy devices present; cannot allocate unhealthy devices";
    let by_kubelet = status.message.is_some_and(|message| message.contains(unserved));
    if by_kubelet && !kubelet.is_since(KNOWS_RESTARTED) {
        let why = format!(
            "kubelet {kubelet} admits a pod with a restarted container anew by chance, and refused it"
        );
        return Ok(CaseOutcome::NotApplicable(why));
    }
    Err(error)
}

pub(super) async fn across_pod_and_kubelet_restarts(
    context: &CaseContext<'_>,
) -> anyhow::Result<CaseOutcome> {
    context.run_pod(POD, 1).await?;
    let (ids, report) = (context.sees(POD, MAIN).await?, context.report(POD, MAIN).await?);
    context.restart_container(POD, MAIN).await?;
    context.still_sees(POD, MAIN, &report, "its restart").await?;
    context.stop_kubelet().await?;
    context.start_kubelet().await?;
    if let Err(error) = context.pod_until(POD, "to be ready", is_ready).await {
        return refused_anew(context, error).await;
    }
    context.kubelet_says(POD, MAIN, &ids).await?;
    // Kubernetes leaves it to the sixty seconds of its container whether it restarts once more.
    let restarts = context.restart_container(POD, MAIN).await?;
    context.still_sees(POD, MAIN, &report, "kubelet's restart").await?;
    context.kubelet_says(POD, MAIN, &ids).await?;
    Ok(CaseOutcome::Passed(format!(
        "{} before, after a container restart, and after kubelet's and restart {restarts}",
        ids.join(", ")
    )))
}

pub(super) async fn after_plugin_restart(context: &CaseContext<'_>) -> anyhow::Result<CaseOutcome> {
    context.run_pod(POD, 1).await?;
    let (ids, report) = (context.sees(POD, MAIN).await?, context.report(POD, MAIN).await?);
    context.replace_plugin().await?;
    context.advertises_all().await?;
    if let Some(node) = context.stage.embedded() {
        // kubelet does not look: it keeps what the pod has, and offers whatever the new process lists.
        let listed = node.said().last_ids();
        let is_kept = ids.iter().all(|id| listed.contains(id));
        ensure!(is_kept, "the pod has {ids:?}, and the plugin that has started lists {listed:?}");
    }
    context.kubelet_says(POD, MAIN, &ids).await?;
    let restarts = context.restart_container(POD, MAIN).await?;
    context.still_sees(POD, MAIN, &report, "the plugin's restart").await?;
    context.kubelet_says(POD, MAIN, &ids).await?;
    let all = context.devices();
    Ok(CaseOutcome::Passed(format!(
        "{} before and after, also after restart {restarts}; allocatable {all} of {all} again",
        ids.join(", ")
    )))
}

pub(super) async fn after_kubelet_and_plugin_restart(
    context: &CaseContext<'_>,
) -> anyhow::Result<CaseOutcome> {
    context.run_pod(POD, 1).await?;
    let (ids, pod) = (context.sees(POD, MAIN).await?, context.pod(POD).await?);
    context.stop_kubelet().await?;
    context.start_kubelet().await?;
    context.still_runs(&pod).await?;
    context.kubelet_says(POD, MAIN, &ids).await?;
    context.replace_plugin().await?;
    context.advertises_all().await?;
    context.still_runs(&pod).await?;
    context.kubelet_says(POD, MAIN, &ids).await?;
    let all = context.devices();
    Ok(CaseOutcome::Passed(format!(
        "same pod, {} as before; allocatable {all} of {all} again",
        ids.join(", ")
    )))
}

pub(super) async fn restartable_init_container(context: &CaseContext<'_>) -> anyhow::Result<CaseOutcome> {
    if !context.stage.description().reports_ids {
        let why = "kubelet's podresources leaves out ordinary init containers, and nothing else says what they have";
        return Ok(CaseOutcome::NotApplicable(why.to_owned()));
    }
    let mut sidecar = context.container("restartable-init-2", 1, None);
    sidecar["restartPolicy"] = json!("Always");
    let init = context.container("init-1", 1, Some(Duration::from_secs(1)));
    let mut pod = context.manifest(POD, 1);
    pod["spec"]["initContainers"] = json!([init, sidecar]);
    pod["spec"]["containers"] = json!([context.container("regular-1", 1, None)]);
    context.create(&pod).await?;
    context.pod_until(POD, "to be ready", is_ready).await?;
    let init = context.sees(POD, "init-1").await?;
    let sidecar = context.sees(POD, "restartable-init-2").await?;
    let regular = context.sees(POD, "regular-1").await?;
    ensure!(sidecar == init, "the init container saw {init:?}, the restartable one {sidecar:?}");
    ensure!(regular != sidecar, "the restartable init container and the regular one share {regular:?}");
    context.kubelet_says(POD, "restartable-init-2", &sidecar).await?;
    context.kubelet_says(POD, "regular-1", &regular).await?;
    let listed = context.assignments().await?.remove(&format!("{NAMESPACE}/{POD}")).unwrap_or_default();
    ensure!(listed.len() == 2, "kubelet lists {listed:?}, not two containers");
    Ok(CaseOutcome::Passed(format!(
        "{} handed from the init container to the restartable one, {} for the regular one",
        sidecar.join(", "),
        regular.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::is_below;

    #[test]
    fn containerd_is_compared_by_number() {
        assert!(is_below("containerd://1.6.20~ds1", (1, 7)));
        assert!(!is_below("containerd://1.7.18", (1, 7)));
        assert!(!is_below("containerd://2.1.3", (1, 7)));
    }
}
