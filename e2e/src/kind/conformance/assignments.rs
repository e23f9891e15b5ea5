//! The cases about which devices a container has, and that it keeps them: `device_plugin_test.go`.

use anyhow::ensure;
use serde_json::json;

use super::Seen;
use super::room::{MAIN, Room, container, manifest};
use crate::kind::nodes::is_ready;
use neuron_e2e_engine::cluster::NAMESPACE;

/// The pod of a case that has one.
const POD: &str = "device-plugin-test";
/// Devices of the node.
const ALL: i64 = 6;

pub(super) async fn can_schedule(room: &Room<'_>) -> anyhow::Result<Seen> {
    room.run_pod(POD, 1).await?;
    let ids = room.sees(POD, MAIN).await?;
    ensure!(ids.len() == 1, "a pod that asks for one device sees {ids:?}");
    room.kubelet_says(POD, MAIN, &ids).await?;
    let books = room.books().await?;
    let mut holders = books.iter().filter(|(_, containers)| containers.values().any(|ids| !ids.is_empty()));
    let others = holders.find(|(pod, _)| **pod != format!("{NAMESPACE}/{POD}"));
    ensure!(others.is_none(), "a pod that asked for nothing has devices: {others:?}");
    Ok(Seen::That(format!("{} in the container and in kubelet's podresources", ids.join(", "))))
}

pub(super) async fn cdi(room: &Room<'_>) -> anyhow::Result<Seen> {
    let node = room.node().await?;
    let info = node.status.and_then(|status| status.node_info).unwrap_or_default();
    let runtime = info.container_runtime_version;
    let too_old = is_below(&runtime, (1, 7)).then(|| format!("; this node has {runtime}, CDI needs 1.7"));
    Ok(Seen::NotApplicable(format!(
        "this plugin hands out device nodes, no CDI devices{}",
        too_old.unwrap_or_default()
    )))
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

pub(super) async fn across_pod_restarts(room: &Room<'_>) -> anyhow::Result<Seen> {
    room.run_pod(POD, 1).await?;
    let (ids, report) = (room.sees(POD, MAIN).await?, room.report(POD, MAIN).await?);
    let restarts = room.restart_container(POD, MAIN).await?;
    let again = room.report(POD, MAIN).await?;
    ensure!(again == report, "the container saw {report:?}, and after its restart {again:?}");
    room.kubelet_says(POD, MAIN, &ids).await?;
    let other = "device-plugin-test-2";
    room.run_pod(other, 1).await?;
    let others = room.sees(other, MAIN).await?;
    ensure!(others != ids, "two pods have {ids:?}");
    room.kubelet_says(POD, MAIN, &ids).await?;
    room.kubelet_says(other, MAIN, &others).await?;
    Ok(Seen::That(format!(
        "{} before and after restart {restarts}; a second pod has {}",
        ids.join(", "),
        others.join(", ")
    )))
}

pub(super) async fn across_kubelet_restarts(room: &Room<'_>) -> anyhow::Result<Seen> {
    room.run_pod(POD, 1).await?;
    let (ids, pod) = (room.sees(POD, MAIN).await?, room.pod(POD).await?);
    room.stop_kubelet().await?;
    room.start_kubelet().await?;
    room.offers(ALL, ALL).await?;
    room.still_runs(&pod).await?;
    let restarts = room.status(POD, MAIN).await?.restart_count;
    ensure!(restarts == 0, "the container restarted {restarts} times");
    room.kubelet_says(POD, MAIN, &ids).await?;
    Ok(Seen::That(format!(
        "same pod, no restart, {} as before; allocatable {ALL} of {ALL} again",
        ids.join(", ")
    )))
}

pub(super) async fn across_pod_and_kubelet_restarts(room: &Room<'_>) -> anyhow::Result<Seen> {
    room.run_pod(POD, 1).await?;
    let (ids, report) = (room.sees(POD, MAIN).await?, room.report(POD, MAIN).await?);
    room.restart_container(POD, MAIN).await?;
    let again = room.report(POD, MAIN).await?;
    ensure!(again == report, "the container saw {report:?}, and after its restart {again:?}");
    room.stop_kubelet().await?;
    room.start_kubelet().await?;
    room.pod_until(POD, "to be ready", is_ready).await?;
    room.kubelet_says(POD, MAIN, &ids).await?;
    // Kubernetes leaves it to the sixty seconds of its container whether it restarts once more.
    let restarts = room.restart_container(POD, MAIN).await?;
    let again = room.report(POD, MAIN).await?;
    ensure!(again == report, "the container saw {report:?}, and after kubelet's restart {again:?}");
    room.kubelet_says(POD, MAIN, &ids).await?;
    Ok(Seen::That(format!(
        "{} before, after a container restart, and after kubelet's and restart {restarts}",
        ids.join(", ")
    )))
}

pub(super) async fn after_plugin_restart(room: &Room<'_>) -> anyhow::Result<Seen> {
    room.run_pod(POD, 1).await?;
    let (ids, report) = (room.sees(POD, MAIN).await?, room.report(POD, MAIN).await?);
    room.replace_plugin().await?;
    room.offers(ALL, ALL).await?;
    room.kubelet_says(POD, MAIN, &ids).await?;
    let restarts = room.restart_container(POD, MAIN).await?;
    let again = room.report(POD, MAIN).await?;
    ensure!(again == report, "the container saw {report:?}, and after the plugin's restart {again:?}");
    room.kubelet_says(POD, MAIN, &ids).await?;
    Ok(Seen::That(format!(
        "{} before and after, also after restart {restarts}; allocatable {ALL} of {ALL} again",
        ids.join(", ")
    )))
}

pub(super) async fn after_kubelet_and_plugin_restart(room: &Room<'_>) -> anyhow::Result<Seen> {
    room.run_pod(POD, 1).await?;
    let (ids, pod) = (room.sees(POD, MAIN).await?, room.pod(POD).await?);
    room.stop_kubelet().await?;
    room.start_kubelet().await?;
    room.still_runs(&pod).await?;
    room.kubelet_says(POD, MAIN, &ids).await?;
    room.replace_plugin().await?;
    room.offers(ALL, ALL).await?;
    room.still_runs(&pod).await?;
    room.kubelet_says(POD, MAIN, &ids).await?;
    Ok(Seen::That(format!("same pod, {} as before; allocatable {ALL} of {ALL} again", ids.join(", "))))
}

pub(super) async fn restartable_init_container(room: &Room<'_>) -> anyhow::Result<Seen> {
    let mut sidecar = container("restartable-init-2", 1, &[]);
    sidecar["restartPolicy"] = json!("Always");
    let mut pod = manifest(POD, 1);
    pod["spec"]["initContainers"] = json!([container("init-1", 1, &["--for", "1s"]), sidecar]);
    pod["spec"]["containers"] = json!([container("regular-1", 1, &[])]);
    room.create(&pod).await?;
    room.pod_until(POD, "to be ready", is_ready).await?;
    let init = room.sees(POD, "init-1").await?;
    let sidecar = room.sees(POD, "restartable-init-2").await?;
    let regular = room.sees(POD, "regular-1").await?;
    ensure!(sidecar == init, "the init container saw {init:?}, the restartable one {sidecar:?}");
    ensure!(regular != sidecar, "the restartable init container and the regular one share {regular:?}");
    room.kubelet_says(POD, "restartable-init-2", &sidecar).await?;
    room.kubelet_says(POD, "regular-1", &regular).await?;
    let listed = room.books().await?.remove(&format!("{NAMESPACE}/{POD}")).unwrap_or_default();
    ensure!(listed.len() == 2, "kubelet lists {listed:?}, not two containers");
    Ok(Seen::That(format!(
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
