//! A device plugin that does what a test scripts and records its calls.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use futures::{Stream, StreamExt};
use kubelet_api::deviceplugin::v1beta1::device_plugin_server::{DevicePlugin, DevicePluginServer};
use kubelet_api::deviceplugin::v1beta1::registration_client::RegistrationClient;
use kubelet_api::deviceplugin::v1beta1::*;
use kubelet_api::unix;
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use crate::test_node::{TestNode, WIDGET};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Preferred { available: BTreeSet<String>, must: BTreeSet<String>, size: i32 },
    Allocate(BTreeSet<String>),
}

/// The plugin. Dropping it kills it.
pub(crate) struct TestPlugin {
    pub(crate) script: Arc<Script>,
    socket: String,
    folder: std::path::PathBuf,
    killed: CancellationToken,
}

/// What the plugin answers, and what it was asked.
pub(crate) struct Script {
    pub(crate) devices: watch::Sender<Vec<Device>>,
    pub(crate) calls: Mutex<Vec<Call>>,
    /// What fails, by RPC name.
    pub(crate) errors: Mutex<BTreeMap<&'static str, Status>>,
    preferred: Mutex<Vec<String>>,
    /// While false, Allocate stays open.
    pub(crate) allocate_may_end: watch::Sender<bool>,
    /// Ends every ListAndWatch.
    pub(crate) streams: CancellationToken,
}

pub(crate) fn device(id: &str, health: &str) -> Device {
    Device { id: id.to_owned(), health: health.to_owned(), topology: None }
}

pub(crate) fn healthy(count: usize) -> Vec<Device> {
    (0..count).map(|number| device(&format!("w{number}"), HEALTHY)).collect()
}

pub(crate) fn ids<const N: usize>(ids: [&str; N]) -> BTreeSet<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

impl TestPlugin {
    /// Serves `count` widgets on `widget.sock` and registers them.
    pub(crate) async fn registered(node: &TestNode, count: usize) -> Self {
        let plugin = Self::serving(node, "widget.sock", healthy(count));
        plugin.register().await.unwrap();
        let count = count.to_string();
        node.shows(&count, &count).await;
        plugin
    }

    pub(crate) fn serving(node: &TestNode, socket: &str, devices: Vec<Device>) -> Self {
        let script = Arc::new(Script {
            devices: watch::Sender::new(devices),
            calls: Mutex::default(),
            errors: Mutex::default(),
            preferred: Mutex::default(),
            allocate_may_end: watch::Sender::new(true),
            streams: CancellationToken::new(),
        });
        let (folder, killed) = (node.plugins_dir(), CancellationToken::new());
        let listener = unix::listen(&folder.join(socket)).unwrap();
        let service = DevicePluginServer::new(Service(Arc::clone(&script)));
        let server = tonic::transport::Server::builder().add_service(service);
        let stop = killed.clone();
        tokio::spawn(server.serve_with_incoming_shutdown(unix::incoming(listener), stop.cancelled_owned()));
        Self { script, socket: socket.to_owned(), folder, killed }
    }

    pub(crate) async fn register(&self) -> Result<(), Status> {
        self.register_as(VERSION, WIDGET).await
    }

    pub(crate) async fn register_as(&self, version: &str, resource: &str) -> Result<(), Status> {
        let channel = unix::connect(&self.folder.join(KUBELET_SOCKET)).await.unwrap();
        let request = RegisterRequest {
            version: version.to_owned(),
            endpoint: self.socket.clone(),
            resource_name: resource.to_owned(),
            options: None,
        };
        RegistrationClient::new(channel).register(request).await.map(drop)
    }

    pub(crate) fn fail(&self, rpc: &'static str, status: Status) {
        self.script.errors.lock().unwrap().insert(rpc, status);
    }

    /// What GetPreferredAllocation answers from now on.
    pub(crate) fn prefer<const N: usize>(&self, ids: [&str; N]) {
        *self.script.preferred.lock().unwrap() = ids.map(str::to_owned).to_vec();
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.script.calls.lock().unwrap().clone()
    }

    pub(crate) fn allocations(&self) -> usize {
        self.calls().iter().filter(|call| matches!(call, Call::Allocate(_))).count()
    }

    /// Ends the streams and closes the socket.
    pub(crate) fn kill(&self) {
        self.script.streams.cancel();
        self.killed.cancel();
    }
}

impl Drop for TestPlugin {
    fn drop(&mut self) {
        self.kill();
    }
}

struct Service(Arc<Script>);

impl Service {
    fn error(&self, rpc: &str) -> Result<(), Status> {
        self.0.errors.lock().unwrap().get(rpc).map_or(Ok(()), |status| Err(status.clone()))
    }
}

#[tonic::async_trait]
impl DevicePlugin for Service {
    async fn get_device_plugin_options(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<DevicePluginOptions>, Status> {
        self.error("options")?;
        let options =
            DevicePluginOptions { pre_start_required: false, get_preferred_allocation_available: true };
        Ok(Response::new(options))
    }

    type ListAndWatchStream = Pin<Box<dyn Stream<Item = Result<ListAndWatchResponse, Status>> + Send>>;

    async fn list_and_watch(&self, _: Request<Empty>) -> Result<Response<Self::ListAndWatchStream>, Status> {
        self.error("list")?;
        let lists = WatchStream::new(self.0.devices.subscribe());
        let lists = lists.map(|devices| Ok(ListAndWatchResponse { devices }));
        Ok(Response::new(Box::pin(lists.take_until(self.0.streams.clone().cancelled_owned()))))
    }

    async fn get_preferred_allocation(
        &self,
        request: Request<PreferredAllocationRequest>,
    ) -> Result<Response<PreferredAllocationResponse>, Status> {
        let request = request.into_inner().container_requests.remove(0);
        self.0.calls.lock().unwrap().push(Call::Preferred {
            available: request.available_device_i_ds.into_iter().collect(),
            must: request.must_include_device_i_ds.into_iter().collect(),
            size: request.allocation_size,
        });
        self.error("preferred")?;
        let device_i_ds = self.0.preferred.lock().unwrap().clone();
        let container_responses = vec![ContainerPreferredAllocationResponse { device_i_ds }];
        Ok(Response::new(PreferredAllocationResponse { container_responses }))
    }

    async fn allocate(
        &self,
        request: Request<AllocateRequest>,
    ) -> Result<Response<AllocateResponse>, Status> {
        let ids: BTreeSet<String> =
            request.into_inner().container_requests.remove(0).devices_ids.into_iter().collect();
        self.0.calls.lock().unwrap().push(Call::Allocate(ids.clone()));
        self.error("allocate")?;
        let _ = self.0.allocate_may_end.subscribe().wait_for(|may_end| *may_end).await;
        let list = ids.iter().cloned().collect::<Vec<_>>().join(",");
        let path = |id: &String| format!("/dev/{id}");
        let node =
            |id| DeviceSpec { container_path: path(id), host_path: path(id), permissions: "rw".to_owned() };
        let answer = ContainerAllocateResponse {
            envs: BTreeMap::from([("WIDGETS".to_owned(), list), ("SET_BY".to_owned(), "plugin".to_owned())]),
            devices: ids.iter().map(node).collect(),
            ..Default::default()
        };
        Ok(Response::new(AllocateResponse { container_responses: vec![answer] }))
    }

    async fn pre_start_container(
        &self,
        _: Request<PreStartContainerRequest>,
    ) -> Result<Response<PreStartContainerResponse>, Status> {
        Ok(Response::new(PreStartContainerResponse {}))
    }
}
