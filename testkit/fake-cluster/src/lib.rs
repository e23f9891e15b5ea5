//! A Kubernetes cluster in the memory of a test: an API server, kube-scheduler's side of the extender protocol, and
//! kubelets with the device manager. Use it to test what talks to them (a controller, a scheduler extender, a device
//! plugin) in milliseconds, without a container or a port, and with Kubernetes' own texts, as of the [`Version`] it is told
//! to be.
//!
//! Each of the three works alone. All of one cluster share a [`Clock`] that moves only when the test advances it, so
//! back-offs and grace periods take no time and two runs take the same course. Each runs on a [`System`]: this machine
//! ([`System::real`]), or a simulated one.
//!
//! # A kube client on the API server
//! ```
//! use fake_cluster::ApiServer;
//! use futures::{StreamExt, TryStreamExt};
//! use k8s_openapi::api::core::v1::Pod;
//! use kube::api::{Api, PostParams, WatchEvent, WatchParams};
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ApiServer::default();
//! let pods: Api<Pod> = Api::default_namespaced(server.client());
//!
//! let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "none"}]}});
//! pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
//!
//! let mut events = pods.watch(&WatchParams::default(), "0").await?.boxed();
//! let Some(WatchEvent::Added(pod)) = events.try_next().await? else { panic!("the watch begins with the pod") };
//! assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Pending"));
//! # Ok(())
//! # }
//! ```
//! It is Kubernetes 1.37, or as another [`Version`]: schedulers and kubelets that are started on it follow.
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use fake_cluster::{ApiServer, Version};
//!
//! let server = ApiServer::default().with_version(Version::V1_34);
//! assert_eq!(server.client().apiserver_version().await?.git_version, "v1.34.4");
//! # Ok(())
//! # }
//! ```
//! [`ApiServer::serve`] answers over HTTP, for programs of their own; [`ApiServer::set_available`] and
//! [`ApiServer::compact`] inject faults.
//!
//! # A scheduler and an extender
//! The extender is a closure here. [`ExtenderConfig::in_process`](scheduler::ExtenderConfig::in_process) takes an axum
//! router instead, and [`ExtenderConfig::new`](scheduler::ExtenderConfig::new) the address of a running one.
//! ```
//! use fake_cluster::scheduler::{ExtenderConfig, SchedulerConfig};
//! use fake_cluster::{ApiServer, Scheduler, System};
//! use k8s_openapi::api::core::v1::{Node, Pod};
//! use kube::ResourceExt;
//! use kube::api::{Api, PostParams};
//! use kube::runtime::wait::await_condition;
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ApiServer::default();
//! let nodes: Api<Node> = Api::all(server.client());
//! for (name, disk) in [("n1", "hdd"), ("n2", "ssd")] {
//!     let allocatable = json!({"cpu": "8", "memory": "16Gi", "pods": "110"});
//!     let node = json!({"metadata": {"name": name, "labels": {"disk": disk}}, "status": {"allocatable": allocatable}});
//!     nodes.create(&PostParams::default(), &serde_json::from_value(node)?).await?;
//! }
//!
//! let on_ssd = ExtenderConfig::filtering(|_pod, node| match node.labels().get("disk") {
//!     Some(disk) if disk == "ssd" => Ok(()),
//!     _ => Err("no ssd".to_owned()),
//! });
//! let config = SchedulerConfig::new("default-scheduler").with_extender(on_ssd);
//! let scheduler = Scheduler::start(&System::real(), server.client(), &server, config);
//!
//! let pods: Api<Pod> = Api::default_namespaced(server.client());
//! let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "none"}]}});
//! pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
//! let node_of = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
//! let bound = await_condition(pods, "p", |pod: Option<&Pod>| pod.is_some_and(|pod| node_of(pod).is_some())).await?;
//! assert_eq!(bound.as_ref().and_then(node_of).as_deref(), Some("n2"));
//! scheduler.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! # A kubelet and a device plugin
//! The plugin is any program or task that registers on the kubelet's socket; `kubelet-api` shows one.
//! ```
//! # use std::path::{Path, PathBuf};
//! # use kubelet_api::deviceplugin::v1beta1::device_plugin_server::{DevicePlugin, DevicePluginServer};
//! # use kubelet_api::deviceplugin::v1beta1::registration_client::RegistrationClient;
//! # use kubelet_api::deviceplugin::v1beta1::*;
//! # use tonic::{Request, Response, Status};
//! # struct TwoWidgets;
//! # #[tonic::async_trait]
//! # impl DevicePlugin for TwoWidgets {
//! #     type ListAndWatchStream = futures::stream::BoxStream<'static, Result<ListAndWatchResponse, Status>>;
//! #     async fn get_device_plugin_options(&self, _: Request<Empty>) -> Result<Response<DevicePluginOptions>, Status> {
//! #         Ok(Response::new(DevicePluginOptions::default()))
//! #     }
//! #     async fn list_and_watch(&self, _: Request<Empty>) -> Result<Response<Self::ListAndWatchStream>, Status> {
//! #         use futures::{StreamExt, stream};
//! #         let device = |id: &str| Device { id: id.into(), health: HEALTHY.into(), topology: None };
//! #         let list = ListAndWatchResponse { devices: ["w0", "w1"].map(device).to_vec() };
//! #         Ok(Response::new(stream::iter([Ok(list)]).chain(stream::pending()).boxed()))
//! #     }
//! #     async fn get_preferred_allocation(&self, _: Request<PreferredAllocationRequest>) -> Result<Response<PreferredAllocationResponse>, Status> {
//! #         Ok(Response::new(PreferredAllocationResponse::default()))
//! #     }
//! #     async fn allocate(&self, request: Request<AllocateRequest>) -> Result<Response<AllocateResponse>, Status> {
//! #         let answer = |ids: Vec<String>| ContainerAllocateResponse { envs: [("WIDGETS".to_owned(), ids.join(","))].into(), ..Default::default() };
//! #         let container_responses = request.into_inner().container_requests.into_iter().map(|one| answer(one.devices_ids)).collect();
//! #         Ok(Response::new(AllocateResponse { container_responses }))
//! #     }
//! #     async fn pre_start_container(&self, _: Request<PreStartContainerRequest>) -> Result<Response<PreStartContainerResponse>, Status> {
//! #         Ok(Response::new(PreStartContainerResponse {}))
//! #     }
//! # }
//! # async fn your_plugin(folder: PathBuf) -> Result<(), Box<dyn std::error::Error>> {
//! #     let listener = kubelet_api::unix::listen(&folder.join("widget.sock"))?;
//! #     let server = tonic::transport::Server::builder().add_service(DevicePluginServer::new(TwoWidgets));
//! #     tokio::spawn(server.serve_with_incoming(kubelet_api::unix::incoming(listener)));
//! #     let kubelet = kubelet_api::unix::connect(&folder.join(KUBELET_SOCKET)).await?;
//! #     let request = RegisterRequest { version: VERSION.into(), endpoint: "widget.sock".into(), resource_name: "example.com/widget".into(), options: None };
//! #     RegistrationClient::new(kubelet).register(request).await?;
//! #     Ok(())
//! # }
//! use std::sync::Arc;
//!
//! use fake_cluster::kubelet::{KubeletConfig, RecordingRuntime};
//! use fake_cluster::{ApiServer, Kubelet, System};
//! use k8s_openapi::api::core::v1::{Node, Pod};
//! use kube::api::{Api, PostParams};
//! use kube::runtime::wait::{await_condition, conditions};
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let server = ApiServer::default();
//! let config = KubeletConfig::new("n1", folder.path());
//! let containers = Arc::new(RecordingRuntime::default());
//! let system = System::real();
//! let kubelet = Kubelet::start(&system, server.client(), &server, config.clone(), containers.clone()).await?;
//! your_plugin(config.plugins_dir()).await?;
//! let nodes: Api<Node> = Api::all(server.client());
//! await_condition(nodes, "n1", |node: Option<&Node>| {
//!     let allocatable = node.and_then(|node| node.status.as_ref()?.allocatable.as_ref()?.get("example.com/widget"));
//!     allocatable.is_some_and(|count| count.0 == "2")
//! })
//! .await?;
//!
//! let pods: Api<Pod> = Api::default_namespaced(server.client());
//! let resources = json!({"limits": {"example.com/widget": "2"}});
//! let main = json!({"name": "main", "image": "none", "resources": resources});
//! let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n1", "containers": [main]}});
//! pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
//! await_condition(pods, "p", conditions::is_pod_running()).await?;
//!
//! assert_eq!(kubelet.assignments()[0].ids, ["w0", "w1"].map(String::from).into());
//! // What the plugin answered to Allocate is what the container gets.
//! assert!(containers.last_start("p", "main").unwrap().env["WIDGETS"].contains("w1"));
//! kubelet.stop().await;
//! # Ok(())
//! # }
//! ```
//! [`FreeChoices::Adversarial`](kubelet::FreeChoices::Adversarial) makes the kubelet take the worst of what Kubernetes
//! leaves open: which ids, and in which order.
//!
//! # A simulation
//! Everything can run in one thread, in tokio's paused time, on machines whose files and sockets are in memory: a
//! [`Platform`](system::Platform) of the simulation's own is each process' [`System`], and [`Clock::of_runtime`] the cluster's
//! clock. Then no part waits for real time, a process is killed by dropping the tasks of its `System`, and equal seeds give equal
//! runs. Scheduler and kubelets reach the API server by the clients that they are given, which a simulation makes of
//! [`ApiServer::router`] and slow, lossy or cut; [`ApiServer::lagging_router`] shows an older state as the real server's cache
//! may. [`ApiServer::observe`] tells of every write, and the [`ContainerRuntime`](kubelet::ContainerRuntime) of every start and
//! end of a container and of every change of assignments. [`BRANCHES`] are what happens rarely and should have happened in it.
//! `tests/simulated` has the smallest of such simulations.

mod amounts;
pub mod api;
mod api_client;
mod branches;
mod calls;
pub mod clock;
pub mod kubelet;
mod quantity;
mod reflector;
pub mod scheduler;
mod version;
mod watch_backoff;

pub use api::ApiServer;
pub use branches::BRANCHES;
pub use calls::CALLS;
pub use clock::Clock;
pub use kubelet::Kubelet;
pub use runtime::{System, system};
pub use scheduler::Scheduler;
pub use version::{ServerVersionError, UnknownVersion, Version};
