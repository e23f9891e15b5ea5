//! What stands in for containerd: the trait by which a test defines what its containers do, and a runtime that records them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::device_manager::assignments::Assignment;
use super::device_mount::DeviceMount;
use super::plugin_call::PluginCall;

/// Runs containers. A closure `Fn(&ContainerStart) -> ContainerRun` is one too. Nothing here may block for long or call the
/// kubelet.
pub trait ContainerRuntime: Send + Sync {
    /// Starts a container and gives at once what it will have done. Called for each start of a container, restarts included,
    /// but not for containers that outlive their kubelet.
    fn start(&self, container: &ContainerStart) -> ContainerRun;

    /// A container has ended. Called once for each that was started, when it ends and before anything that follows from that;
    /// where no kubelet runs then, by the next one that starts. Containers that end with their node (the file of containers is
    /// removed) end without a word.
    fn ended(&self, _end: &ContainerEnd<'_>) {}

    /// Which ids kubelet has given to whom has changed. It is no business of a real runtime, but of whoever watches what
    /// containers get. Called before kubelet does anything by it; `assignments` are all, as the checkpoint has them.
    fn assigned(&self, _assignments: &[Assignment]) {}

    /// Kubelet and a device plugin have said something to each other. As [`Self::assigned`], for whoever watches.
    fn plugin_called(&self, _call: &PluginCall) {}
}

impl<F: Fn(&ContainerStart) -> ContainerRun + Send + Sync> ContainerRuntime for F {
    fn start(&self, container: &ContainerStart) -> ContainerRun {
        self(container)
    }
}

/// A container about to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerStart {
    /// `metadata.namespace` of its pod.
    pub pod_namespace: String,
    /// `metadata.name` of its pod.
    pub pod_name: String,
    /// `metadata.uid` of its pod, which tells it from a pod of the same name made anew.
    pub pod_uid: String,
    /// Its name in the pod's spec, unique among containers and init containers.
    pub container: String,
    /// The container's `args`; its `command` is not run.
    pub args: Vec<String>,
    /// Its environment: the device plugin's variables, and over them those of the pod's spec.
    pub env: BTreeMap<String, String>,
    /// Device nodes that the plugin answered, each container path once.
    pub devices: Vec<DeviceMount>,
    /// Annotations for the container runtime.
    pub annotations: BTreeMap<String, String>,
    /// The ids that kubelet has given it, by resource.
    pub ids: BTreeMap<String, BTreeSet<String>>,
    /// File of its seccomp profile of type `Localhost`, below kubelet's folder of profiles; none for the other types.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seccomp_profile: Option<String>,
}

/// What a container does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerRun {
    /// All it ever prints.
    pub log: String,
    /// How long it runs by the cluster's clock, and its exit code; `None`: it runs until it is stopped.
    pub ends: Option<(Duration, i32)>,
    /// How long it takes to end, with exit code 0, after SIGTERM. It is killed, with 137, when its pod's grace is over.
    pub termination: Duration,
}

/// A container that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerEnd<'a> {
    /// What it was started as.
    pub container: &'a ContainerStart,
    /// When it ended, by the cluster's clock.
    pub at: Timestamp,
    /// Its exit code.
    pub exit_code: i32,
}

/// A runtime that records every container it starts. Each runs until its pod ends.
#[derive(Debug, Default)]
pub struct RecordingRuntime {
    starts: Mutex<Vec<ContainerStart>>,
}

impl RecordingRuntime {
    /// The last start of a container; `None` if it has not started.
    pub fn last_start(&self, pod: &str, container: &str) -> Option<ContainerStart> {
        let starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        starts.iter().rfind(|start| start.pod_name == pod && start.container == container).cloned()
    }

    /// Every start, restarts included, in order.
    pub fn starts(&self) -> Vec<ContainerStart> {
        self.starts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ContainerRuntime for RecordingRuntime {
    fn start(&self, container: &ContainerStart) -> ContainerRun {
        self.starts.lock().unwrap_or_else(PoisonError::into_inner).push(container.clone());
        ContainerRun::default()
    }
}
