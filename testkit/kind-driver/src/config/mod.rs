//! What `kind create cluster` is told: one control plane and workers, with what tests need of them. A pure function of the
//! options, rendered to YAML and shown in snapshots.

mod kubeadm;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{Mount, Options, Owner};

/// The file of the default scheduler's configuration, in [`Owner::scheduler_folder`] and [`Owner::folder_in_node`].
pub(crate) const SCHEDULER_FILE: &str = "scheduler.yaml";

/// A kind configuration, `kind.x-k8s.io/v1alpha4`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KindConfig {
    kind: &'static str,
    api_version: &'static str,
    /// Feature gates of every component.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    feature_gates: BTreeMap<String, bool>,
    nodes: Vec<Node>,
    /// YAML texts.
    kubeadm_config_patches: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    role: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    extra_mounts: Vec<ExtraMount>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ExtraMount {
    host_path: String,
    container_path: String,
}

impl KindConfig {
    /// The configuration of an owner's cluster.
    ///
    /// # Errors
    /// A patch cannot be written as YAML.
    pub fn new(owner: Owner, options: &Options) -> anyhow::Result<Self> {
        let mounts: Vec<ExtraMount> = options.mounts.iter().map(ExtraMount::of).collect();
        let scheduler = options.scheduler_configuration.is_some().then(|| ExtraMount {
            host_path: owner.scheduler_folder(&options.name).display().to_string(),
            container_path: owner.folder_in_node(),
        });
        let control_plane = Node {
            role: "control-plane",
            extra_mounts: scheduler.into_iter().chain(mounts.clone()).collect(),
        };
        let worker = Node { role: "worker", extra_mounts: mounts };
        Ok(Self {
            kind: "Cluster",
            api_version: "kind.x-k8s.io/v1alpha4",
            feature_gates: options.feature_gates.iter().map(|gate| (gate.clone(), true)).collect(),
            nodes: std::iter::once(control_plane)
                .chain(std::iter::repeat_n(worker, options.workers))
                .collect(),
            kubeadm_config_patches: kubeadm::patches(owner, options)?,
        })
    }

    /// The configuration as the YAML file that kind reads.
    ///
    /// # Errors
    /// It cannot be written as YAML.
    pub fn to_yaml(&self) -> anyhow::Result<String> {
        Ok(serde_saphyr::to_string(self)?)
    }
}

impl ExtraMount {
    fn of(Mount { host_path, container_path }: &Mount) -> Self {
        Self { host_path: host_path.display().to_string(), container_path: container_path.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Owner = Owner::new("my-tests");

    fn yaml(options: &Options) -> String {
        KindConfig::new(OWNER, options).unwrap().to_yaml().unwrap()
    }

    #[test]
    fn two_workers_and_a_scheduler_with_our_configuration() {
        let scheduler_configuration = Some("kind: KubeSchedulerConfiguration".to_owned());
        let yaml = yaml(&Options { workers: 2, scheduler_configuration, ..Options::new("demo") });
        let temporary = std::env::temp_dir().display().to_string();
        insta::assert_snapshot!(yaml.replace(&temporary, "/tmp"));
    }

    #[test]
    fn a_folder_of_the_host_in_every_node_and_a_feature_gate_in_every_part() {
        let devices = Mount { host_path: "/srv/devices".into(), container_path: "/var/devices".to_owned() };
        let feature_gates = vec!["ResourceHealthStatus".to_owned()];
        insta::assert_snapshot!(yaml(&Options {
            workers: 1,
            mounts: vec![devices],
            feature_gates,
            ..Options::new("demo")
        }));
    }
}
