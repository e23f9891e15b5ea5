//! A device node in a container: what the plugin answers and the container is started with. Used by `device_manager`, `pods` and
//! `container_runtime`.

use serde::{Deserialize, Serialize};

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
