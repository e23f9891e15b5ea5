//! What scenarios break: the parts of the suite and of Kubernetes, and the states of a device. Part of the scenario file's
//! form.

use serde::Deserialize;

/// The parts of the suite and of Kubernetes that scenarios stop and start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// The scheduler extender, with all its replicas.
    Extender,
    /// The replica of the extender that leads. While it is stopped it stands still, and another one leads; then it goes on as if no
    /// time had passed.
    ExtenderLeader,
    /// A node's device plugin.
    Plugin,
    /// A node's kubelet; containers go on.
    Kubelet,
    /// A whole node: while it is stopped nothing on it moves and nobody reaches it; then all of it goes on.
    Node,
    /// The scheduler that the pods name.
    Scheduler,
    /// A node's container runtime; it can be restarted, not stopped.
    Containerd,
    /// The API server.
    ApiServer,
    /// What the API server keeps everything in; it can be restarted, not stopped.
    Etcd,
}

impl Part {
    /// The word of scenario files for it, such as `api-server`.
    pub const fn name(self) -> &'static str {
        match self {
            Part::Extender => "extender",
            Part::ExtenderLeader => "extender-leader",
            Part::Plugin => "plugin",
            Part::Kubelet => "kubelet",
            Part::Node => "node",
            Part::Scheduler => "scheduler",
            Part::Containerd => "containerd",
            Part::ApiServer => "api-server",
            Part::Etcd => "etcd",
        }
    }
}

/// States that a scenario can put a device in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceState {
    /// Reports a broken component.
    Unhealthy,
    /// Works again.
    Healthy,
    /// Its files are gone.
    Lost,
}
