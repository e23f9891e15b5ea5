//! What kubeadm and kubelet are told of a cluster beyond what kind tells them: patches of its configuration. Typed here,
//! shown in the snapshots of kind's configuration ([`super`]).

use std::collections::BTreeMap;

use serde::Serialize;

use super::SCHEDULER_FILE;
use crate::{Options, Owner};

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
    /// Flags by name without dashes; a map in kubeadm v1beta3. From Kubernetes 1.36 kind writes v1beta4, and converts the map
    /// because the patch names no apiVersion.
    extra_args: BTreeMap<&'static str, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    extra_volumes: Vec<Volume>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Volume {
    name: &'static str,
    host_path: String,
    mount_path: String,
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
pub(super) fn patches(owner: Owner, options: &Options) -> anyhow::Result<Vec<String>> {
    // One of each name: a lease would only delay it after a stop.
    let alone = || ("leader-elect", "false".to_owned());
    let folder = owner.folder_in_node();
    let scheduler = match &options.scheduler_configuration {
        None => Component::with([alone()]),
        Some(_) => Component {
            extra_volumes: vec![Volume {
                name: owner.name(),
                host_path: folder.clone(),
                mount_path: folder.clone(),
                read_only: true,
                path_type: "Directory",
            }],
            ..Component::with([("config", format!("{folder}/{SCHEDULER_FILE}")), alone()])
        },
    };
    let cluster = ClusterConfiguration {
        kind: "ClusterConfiguration",
        // Nothing in it outlives the run, so that no write need wait for the disk.
        etcd: Etcd { local: Component::with([("unsafe-no-fsync", "true".to_owned())]) },
        controller_manager: Component::with([alone()]),
        scheduler,
    };
    // A changed allocatable shows after a second instead of ten: tests change what nodes have. What has not changed is not
    // written as often.
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
