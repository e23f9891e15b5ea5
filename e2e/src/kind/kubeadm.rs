//! What kubeadm and kubelet are told of a cluster beyond what kind tells them: patches of its configuration. Typed here,
//! shown in the snapshot of kind's configuration ([`super::config`]).

use std::collections::BTreeMap;

use serde::Serialize;

/// Where the scheduler's configuration stands in the control plane's node and in its pod.
pub(crate) const SCHEDULER_FOLDER: &str = "/etc/neuron-e2e";
/// The file in it.
pub(super) const SCHEDULER_FILE: &str = "scheduler.yaml";

/// A patch of kubeadm's `ClusterConfiguration`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ClusterConfiguration {
    kind: &'static str,
    etcd: Etcd,
    controller_manager: Component,
    scheduler: Component,
}

#[derive(Serialize)]
struct Etcd {
    local: Component,
}

/// A part of the control plane, a static pod.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Component {
    /// Flags by name without dashes; a map in kubeadm v1beta3, which kind writes for Kubernetes 1.34.
    extra_args: BTreeMap<&'static str, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    extra_volumes: Vec<Volume>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Volume {
    name: &'static str,
    host_path: &'static str,
    mount_path: &'static str,
    read_only: bool,
    path_type: &'static str,
}

/// A patch of kubelet's configuration. Durations are as Go writes them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct KubeletConfiguration {
    kind: &'static str,
    node_status_update_frequency: &'static str,
    node_status_report_frequency: &'static str,
}

/// The patches, as kind reads them: YAML texts.
pub(super) fn patches() -> anyhow::Result<Vec<String>> {
    let scheduler = [
        ("config", format!("{SCHEDULER_FOLDER}/{SCHEDULER_FILE}")),
        // One scheduler of this name: a lease would only delay it after a stop.
        ("leader-elect", "false".to_owned()),
    ];
    let folder = Volume {
        name: "neuron-e2e",
        host_path: SCHEDULER_FOLDER,
        mount_path: SCHEDULER_FOLDER,
        read_only: true,
        path_type: "Directory",
    };
    let cluster = ClusterConfiguration {
        kind: "ClusterConfiguration",
        // Nothing in it outlives the run, so that no write need wait for the disk.
        etcd: Etcd { local: Component::with([("unsafe-no-fsync", "true".to_owned())]) },
        controller_manager: Component::with([("leader-elect", "false".to_owned())]),
        scheduler: Component { extra_volumes: vec![folder], ..Component::with(scheduler) },
    };
    // A changed allocatable shows after a second instead of ten: nodes change their type between scenarios. What has not
    // changed is not written as often.
    let kubelet = KubeletConfiguration {
        kind: "KubeletConfiguration",
        node_status_update_frequency: "1s",
        node_status_report_frequency: "10s",
    };
    Ok(vec![serde_saphyr::to_string(&cluster)?, serde_saphyr::to_string(&kubelet)?])
}

impl Component {
    fn with<const N: usize>(flags: [(&'static str, String); N]) -> Self {
        Self { extra_args: flags.into(), extra_volumes: Vec::new() }
    }
}
