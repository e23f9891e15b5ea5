//! A device node as a plugin answers it and a container has it. Used by `device_manager` and `container_runtime`.

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
