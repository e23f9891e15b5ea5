//! The configuration that `kind create cluster` gets: one control plane, workers, and a scheduler whose configuration
//! is a file of ours. Typed here, rendered to YAML, shown in a snapshot.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use serde_json::json;

/// Where the scheduler's configuration stands in the control plane's node and in its pod.
pub(crate) const SCHEDULER_FOLDER: &str = "/etc/neuron-e2e";
/// The file in it.
pub(super) const SCHEDULER_FILE: &str = "scheduler.yaml";

/// A kind configuration, `kind.x-k8s.io/v1alpha4`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KindConfig {
    kind: &'static str,
    api_version: &'static str,
    /// Of every part of Kubernetes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    feature_gates: BTreeMap<String, bool>,
    nodes: Vec<Node>,
    kubeadm_config_patches: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    role: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    extra_mounts: Vec<Mount>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Mount {
    host_path: String,
    container_path: &'static str,
}

impl KindConfig {
    /// One control plane and this many workers. `scheduler_folder` is the host's folder with the default scheduler's
    /// configuration.
    pub fn new(workers: usize, scheduler_folder: &Path) -> Self {
        let mount =
            Mount { host_path: scheduler_folder.display().to_string(), container_path: SCHEDULER_FOLDER };
        let control_plane = Node { role: "control-plane", extra_mounts: vec![mount] };
        let workers = (0..workers).map(|_| Node { role: "worker", extra_mounts: Vec::new() });
        // kubeadm v1beta3, which kind writes for Kubernetes 1.34, has its arguments as a map.
        let cluster = json!({
            "kind": "ClusterConfiguration",
            // Nothing in it outlives the run, so that no write need wait for the disk.
            "etcd": {"local": {"extraArgs": {"unsafe-no-fsync": "true"}}},
            "controllerManager": {"extraArgs": {"leader-elect": "false"}},
            "scheduler": {
                "extraArgs": BTreeMap::from([
                    ("config", format!("{SCHEDULER_FOLDER}/{SCHEDULER_FILE}")),
                    // One scheduler of this name: a lease would only delay it after a stop.
                    ("leader-elect", "false".to_owned()),
                ]),
                "extraVolumes": [{
                    "name": "neuron-e2e",
                    "hostPath": SCHEDULER_FOLDER,
                    "mountPath": SCHEDULER_FOLDER,
                    "readOnly": true,
                    "pathType": "Directory",
                }],
            },
        });
        // A changed allocatable shows after a second instead of ten: nodes change their type between scenarios. What has
        // not changed is not written as often.
        let kubelet = json!({
            "kind": "KubeletConfiguration",
            "nodeStatusUpdateFrequency": "1s",
            "nodeStatusReportFrequency": "10s",
        });
        Self {
            kind: "Cluster",
            api_version: "kind.x-k8s.io/v1alpha4",
            feature_gates: BTreeMap::new(),
            nodes: std::iter::once(control_plane).chain(workers).collect(),
            kubeadm_config_patches: vec![cluster.to_string(), kubelet.to_string()],
        }
    }

    /// With these feature gates of Kubernetes on.
    pub fn with_feature_gates(mut self, gates: &[&str]) -> Self {
        self.feature_gates = gates.iter().map(|gate| ((*gate).to_owned(), true)).collect();
        self
    }

    /// As the file that kind reads.
    pub fn to_yaml(&self) -> anyhow::Result<String> {
        Ok(serde_saphyr::to_string(self)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_workers_and_a_scheduler_with_our_configuration() {
        let config = KindConfig::new(2, Path::new("/tmp/neuron-e2e-demo/scheduler"));
        insta::assert_snapshot!(config.to_yaml().unwrap());
    }

    #[test]
    fn feature_gates_are_on_in_every_part() {
        let config = KindConfig::new(1, Path::new("/tmp")).with_feature_gates(&["ResourceHealthStatus"]);
        let text = config.to_yaml().unwrap();
        assert!(text.contains("featureGates:\n  ResourceHealthStatus: true\n"), "{text}");
    }
}
