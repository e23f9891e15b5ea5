//! The kubelet's gRPC contracts, generated at build time from `proto/`: what a device plugin speaks, and what the
//! kubelet says about who holds which device. The device plugin and the fake kubelet stand on the two ends of it.

pub mod unix;

/// The device plugin contract: both ends talk over sockets in one folder of the node.
pub mod deviceplugin {
    /// The only version there is.
    #[allow(missing_docs, reason = "generated; the .proto file explains every field")]
    pub mod v1beta1 {
        tonic::include_proto!("v1beta1");

        /// What a plugin sends as `RegisterRequest::version` (kubelet's `SupportedVersions`).
        pub const VERSION: &str = "v1beta1";
        /// `Device::health` of a device that can be given out.
        pub const HEALTHY: &str = "Healthy";
        /// `Device::health` of a device that cannot be given out; who holds it keeps it.
        pub const UNHEALTHY: &str = "Unhealthy";
        /// The kubelet's registration socket, a file name in the device plugin folder.
        pub const KUBELET_SOCKET: &str = "kubelet.sock";
    }
}

/// The podresources contract: who holds which device ids.
pub mod podresources {
    /// The version every supported kubelet serves.
    #[allow(missing_docs, reason = "generated; the .proto file explains every field")]
    pub mod v1 {
        tonic::include_proto!("v1");

        /// Largest answer a client should accept, in bytes: the kubelet's own limit (tonic's default is 4 MB).
        pub const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;
    }
}
