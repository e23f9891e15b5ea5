//! What stands in for containerd: the trait a test implements to say what a container does, and where logs go.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::api::ApiServer;

/// Runs containers. Called once per start of a container, restarts included; not across kubelet restarts.
pub trait ContainerRuntime: Send + Sync {
    /// Starts a container and says at once what it will have done. Must not block for long.
    fn start(&self, container: &ContainerStart) -> ContainerRun;
}

/// A container about to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerStart {
    /// The pod's namespace.
    pub pod_namespace: String,
    /// The pod's name.
    pub pod_name: String,
    /// The pod's UID.
    pub pod_uid: String,
    /// The container's name.
    pub container: String,
    /// The container's `args`; its `command` is not run.
    pub args: Vec<String>,
    /// Its environment: the device plugin's variables, and over them those of the pod's spec.
    pub env: BTreeMap<String, String>,
    /// Device nodes the plugin asked for, each container path once.
    pub devices: Vec<DeviceMount>,
    /// Annotations for the container runtime.
    pub annotations: BTreeMap<String, String>,
}

/// One device node in a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceMount {
    /// Path on the host.
    pub host_path: String,
    /// Path in the container.
    pub container_path: String,
    /// Some of `r`, `w`, `m`.
    pub permissions: String,
}

/// What a container does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerRun {
    /// All it ever prints.
    pub log: String,
    /// How long it runs by the cluster's clock, and its exit code; `None` runs until it is stopped.
    pub ends: Option<(Duration, i32)>,
}

/// Takes the logs of containers, as the kubelet's own log endpoint would serve them.
pub trait LogSink: Send + Sync {
    /// Stores one container's log; a restart replaces it.
    fn set_log(&self, namespace: &str, pod: &str, container: &str, text: &str);
}

impl LogSink for ApiServer {
    fn set_log(&self, namespace: &str, pod: &str, container: &str, text: &str) {
        ApiServer::set_log(self, namespace, pod, container, text);
    }
}
