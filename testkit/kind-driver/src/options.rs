//! How a cluster is made.

use std::path::PathBuf;

/// How a cluster is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The cluster's name, as kind knows it. An earlier cluster of that name is replaced, or used again with `keep`.
    pub name: String,
    /// Number of workers beside the one control plane.
    pub workers: usize,
    /// Leave the cluster running, and use one that an earlier run left.
    pub keep: bool,
    /// Node image; [`crate::node_image::DEFAULT`] if not given.
    pub node_image: Option<String>,
    /// Feature gates of Kubernetes that are on beside its own choice.
    pub feature_gates: Vec<String>,
    /// Folders of the host that every node has.
    pub mounts: Vec<Mount>,
    /// The default scheduler's `KubeSchedulerConfiguration`, as YAML; Kubernetes' own if not given. Only a scheduler that
    /// was given one can be given another ([`crate::Cluster::configure_scheduler`]).
    pub scheduler_configuration: Option<String>,
}

/// A folder of the host in a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Its path on the host.
    pub host_path: PathBuf,
    /// Its path in the node.
    pub container_path: String,
}

impl Options {
    /// A control plane alone, removed afterwards.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            workers: 0,
            keep: false,
            node_image: None,
            feature_gates: Vec::new(),
            mounts: Vec::new(),
            scheduler_configuration: None,
        }
    }
}
