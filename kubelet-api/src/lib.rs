//! The kubelet's gRPC contracts, generated at build time from `proto/`: device plugin v1beta1, podresources v1 and pods v1alpha1,
//! both ends of each, and the Unix sockets they are spoken over ([`unix`]).
//!
//! # A device plugin
//! A plugin serves [`DevicePlugin`](deviceplugin::v1beta1::device_plugin_server::DevicePlugin) on a socket in the kubelet's
//! folder and registers it. A new list goes to the kubelet whenever the sender of `devices` changes.
//! ```
//! use std::path::Path;
//!
//! use kubelet_api::deviceplugin::v1beta1::device_plugin_server::{DevicePlugin, DevicePluginServer};
//! use kubelet_api::deviceplugin::v1beta1::registration_client::RegistrationClient;
//! use kubelet_api::deviceplugin::v1beta1::*;
//! use kubelet_api::unix;
//! use tokio::sync::watch;
//! use tokio_stream::StreamExt;
//! use tokio_stream::wrappers::WatchStream;
//! use tonic::codegen::BoxStream;
//! use tonic::{Request, Response, Status};
//!
//! struct Widgets {
//!     devices: watch::Receiver<Vec<Device>>,
//! }
//!
//! #[tonic::async_trait]
//! impl DevicePlugin for Widgets {
//!     type ListAndWatchStream = BoxStream<ListAndWatchResponse>;
//!
//!     async fn list_and_watch(&self, _: Request<Empty>) -> Result<Response<Self::ListAndWatchStream>, Status> {
//!         let lists = WatchStream::new(self.devices.clone());
//!         Ok(Response::new(Box::pin(lists.map(|devices| Ok(ListAndWatchResponse { devices })))))
//!     }
//!
//!     async fn allocate(&self, request: Request<AllocateRequest>) -> Result<Response<AllocateResponse>, Status> {
//!         let answer = |container: ContainerAllocateRequest| ContainerAllocateResponse {
//!             envs: [("WIDGETS".to_owned(), container.devices_ids.join(","))].into(),
//!             ..Default::default()
//!         };
//!         let container_responses = request.into_inner().container_requests.into_iter().map(answer).collect();
//!         Ok(Response::new(AllocateResponse { container_responses }))
//!     }
//!
//!     // Options, preferences and the call before a container starts: the defaults ask for none of it.
//! #   async fn get_device_plugin_options(&self, _: Request<Empty>) -> Result<Response<DevicePluginOptions>, Status> {
//! #       Ok(Response::new(DevicePluginOptions::default()))
//! #   }
//! #   async fn get_preferred_allocation(&self, _: Request<PreferredAllocationRequest>) -> Result<Response<PreferredAllocationResponse>, Status> {
//! #       Ok(Response::new(PreferredAllocationResponse::default()))
//! #   }
//! #   async fn pre_start_container(&self, _: Request<PreStartContainerRequest>) -> Result<Response<PreStartContainerResponse>, Status> {
//! #       Ok(Response::new(PreStartContainerResponse::default()))
//! #   }
//! }
//!
//! async fn serve(folder: &Path, widgets: Widgets) -> Result<(), Box<dyn std::error::Error>> {
//!     let listener = unix::listen(&folder.join("widgets.sock"))?;
//!     let server = tonic::transport::Server::builder().add_service(DevicePluginServer::new(widgets));
//!     tokio::spawn(server.serve_with_incoming(unix::incoming(listener)));
//!
//!     let kubelet = unix::connect(&folder.join(KUBELET_SOCKET)).await?;
//!     let request = RegisterRequest {
//!         version: VERSION.to_owned(),
//!         endpoint: "widgets.sock".to_owned(),
//!         resource_name: "example.com/widget".to_owned(),
//!         options: None,
//!     };
//!     RegistrationClient::new(kubelet).register(request).await?;
//!     Ok(())
//! }
//! ```
//!
//! # Who has which device
//! ```
//! use std::path::Path;
//!
//! use kubelet_api::podresources::v1::pod_resources_lister_client::PodResourcesListerClient;
//! use kubelet_api::podresources::v1::{ListPodResourcesRequest, MAX_MESSAGE_BYTES};
//!
//! async fn print_assignments() -> Result<(), Box<dyn std::error::Error>> {
//!     let socket = Path::new("/var/lib/kubelet/pod-resources/kubelet.sock");
//!     let lister = PodResourcesListerClient::new(kubelet_api::unix::connect(socket).await?);
//!     let mut lister = lister.max_decoding_message_size(MAX_MESSAGE_BYTES);
//!     for pod in lister.list(ListPodResourcesRequest {}).await?.into_inner().pod_resources {
//!         for device in pod.containers.iter().flat_map(|container| &container.devices) {
//!             println!("{}/{} {} {:?}", pod.namespace, pod.name, device.resource_name, device.device_ids);
//!         }
//!     }
//!     Ok(())
//! }
//! ```

pub mod unix;

/// The device plugin contract: plugin and kubelet listen on sockets in one folder of the node
/// (`/var/lib/kubelet/device-plugins`).
pub mod deviceplugin {
    /// v1beta1, the only version that kubelets serve.
    #[allow(missing_docs, reason = "generated; the .proto file explains every field")]
    pub mod v1beta1 {
        tonic::include_proto!("v1beta1");

        /// `RegisterRequest::version` of this contract (kubelet's `SupportedVersions`).
        pub const VERSION: &str = "v1beta1";
        /// `Device::health` of a device that can be allocated.
        pub const HEALTHY: &str = "Healthy";
        /// `Device::health` of a device that cannot be allocated; a container that has it keeps it.
        pub const UNHEALTHY: &str = "Unhealthy";
        /// The kubelet's registration socket, a file name in the device plugin folder.
        pub const KUBELET_SOCKET: &str = "kubelet.sock";
    }
}

/// The podresources contract: which device ids each container has
/// (`/var/lib/kubelet/pod-resources/kubelet.sock`).
pub mod podresources {
    /// v1, which every supported kubelet serves.
    #[allow(missing_docs, reason = "generated; the .proto file explains every field")]
    pub mod v1 {
        tonic::include_proto!("v1");

        /// Largest answer a client should accept, in bytes: the kubelet's own limit (tonic's default is 4 MB).
        pub const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;
    }
}

/// The contract of kubelet's own pods (`/var/lib/kubelet/pods-api/pods-api.sock`, from Kubernetes 1.37 on).
pub mod pods {
    /// v1alpha1, of which kubelet's WatchPods is left out.
    #[allow(missing_docs, reason = "generated; the .proto file explains every field")]
    pub mod v1alpha1 {
        tonic::include_proto!("v1alpha1");
    }
}
