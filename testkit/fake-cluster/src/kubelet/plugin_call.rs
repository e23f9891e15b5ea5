//! What kubelet and device plugins say to each other, for whoever watches it: given to
//! [`ContainerRuntime::plugin_called`](super::ContainerRuntime::plugin_called) by `device_manager`.

use std::collections::{BTreeMap, BTreeSet};

use kubelet_api::deviceplugin::v1beta1::{ContainerAllocateResponse, ContainerPreferredAllocationRequest};

/// One thing that was said. An error is kubelet's own text.
#[derive(Clone, Debug, PartialEq)]
pub enum PluginCall {
    /// A plugin has registered and was dialled back, or was refused.
    Registered {
        /// The extended resource.
        resource: String,
        /// The name of its socket.
        endpoint: String,
        /// Why it was refused.
        answer: Result<(), String>,
    },
    /// A plugin's list has come over its stream.
    Listed {
        /// The extended resource.
        resource: String,
        /// The name of the plugin's socket.
        endpoint: String,
        /// Health by id.
        devices: BTreeMap<String, String>,
    },
    /// A plugin was asked which ids it prefers.
    Preferred {
        /// The extended resource.
        resource: String,
        /// What it was asked.
        request: ContainerPreferredAllocationRequest,
        /// What it prefers.
        answer: Result<BTreeSet<String>, String>,
    },
    /// A plugin was asked for what the ids mean.
    Allocated {
        /// The extended resource.
        resource: String,
        /// UID of the container's pod, which the plugin is not told.
        pod_uid: String,
        /// The container's name, which the plugin is not told.
        container: String,
        /// The ids.
        ids: BTreeSet<String>,
        /// Its answers, of which the first counts; there should be one.
        answer: Result<Vec<ContainerAllocateResponse>, String>,
    },
}
