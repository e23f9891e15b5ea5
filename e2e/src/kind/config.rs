//! The configuration that `kind create cluster` gets: one control plane, workers, and a scheduler whose configuration
//! is a file of ours. Typed here, rendered to YAML, shown in a snapshot.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::kubeadm::{self, SCHEDULER_FOLDER};

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
    pub fn new(workers: usize, scheduler_folder: &Path) -> anyhow::Result<Self> {
        let mount =
            Mount { host_path: scheduler_folder.display().to_string(), container_path: SCHEDULER_FOLDER };
        let control_plane = Node { role: "control-plane", extra_mounts: vec![mount] };
        let workers = (0..workers).map(|_| Node { role: "worker", extra_mounts: Vec::new() });
        Ok(Self {
            kind: "Cluster",
            api_version: "kind.x-k8s.io/v1alpha4",
            feature_gates: BTreeMap::new(),
            nodes: std::iter::once(control_plane).chain(workers).collect(),
            kubeadm_config_patches: kubeadm::patches()?,
        })
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
        let config = KindConfig::new(2, Path::new("/tmp/neuron-e2e-demo/scheduler")).unwrap();
        insta::assert_snapshot!(config.to_yaml().unwrap());
    }

    #[test]
    fn feature_gates_are_on_in_every_part() {
        let config =
            KindConfig::new(1, Path::new("/tmp")).unwrap().with_feature_gates(&["ResourceHealthStatus"]);
        let text = config.to_yaml().unwrap();
        assert!(text.contains("featureGates:\n  ResourceHealthStatus: true\n"), "{text}");
    }
}
