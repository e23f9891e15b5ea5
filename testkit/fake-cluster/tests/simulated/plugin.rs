//! A device plugin with four widgets, on a simulated machine. It registers whenever it has no stream.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use fake_cluster::System;
use fake_cluster::system::Address;
use futures::{Stream, StreamExt, stream};
use kubelet_api::deviceplugin::v1beta1::device_plugin_server::{DevicePlugin, DevicePluginServer};
use kubelet_api::deviceplugin::v1beta1::registration_client::RegistrationClient;
use kubelet_api::deviceplugin::v1beta1::*;
use runtime::{Protocol, Server};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

/// The plugin.
#[derive(Clone, Default)]
pub(crate) struct Plugin {
    streams: Arc<AtomicUsize>,
}

impl Plugin {
    /// Serves until its process ends.
    pub(crate) fn start(system: &System, folder: PathBuf) -> Self {
        let plugin = Self::default();
        drop(system.spawn(plugin.clone().run(system.clone(), folder)));
        plugin
    }

    /// How many lists are open.
    pub(crate) fn streams(&self) -> usize {
        self.streams.load(Ordering::SeqCst)
    }

    async fn run(self, system: System, folder: PathBuf) {
        for number in 0.. {
            let socket = format!("widget-{number}.sock");
            let shutdown = CancellationToken::new();
            if let Ok(listener) = system.listen(&Address::Unix(folder.join(&socket))) {
                let routes = Routes::new(DevicePluginServer::new(self.clone())).prepare().into_axum_router();
                let server = Server::new(system.clone(), Protocol::Http2, routes, Duration::ZERO);
                drop(system.spawn(server.run(listener, shutdown.clone())));
                if register(&system, &folder, socket).await.is_ok() {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
            while self.streams() > 0 {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            shutdown.cancel();
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

async fn register(
    system: &System,
    folder: &Path,
    endpoint: String,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let kubelet = folder.join(KUBELET_SOCKET);
    let channel = kubelet_api::unix::connect_by(&kubelet, system.dialler(), system.executor()).await?;
    let request = RegisterRequest {
        version: VERSION.to_owned(),
        endpoint,
        resource_name: crate::cluster::WIDGET.to_owned(),
        options: None,
    };
    RegistrationClient::new(channel).register(request).await?;
    Ok(())
}

/// Counts a stream while it is open.
struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Stream for Open {
    type Item = Result<ListAndWatchResponse, Status>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Pending
    }
}

#[tonic::async_trait]
impl DevicePlugin for Plugin {
    type ListAndWatchStream = stream::BoxStream<'static, Result<ListAndWatchResponse, Status>>;

    async fn get_device_plugin_options(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<DevicePluginOptions>, Status> {
        Ok(Response::new(DevicePluginOptions::default()))
    }

    async fn list_and_watch(&self, _: Request<Empty>) -> Result<Response<Self::ListAndWatchStream>, Status> {
        let device = |id: &str| Device { id: id.to_owned(), health: HEALTHY.to_owned(), ..Device::default() };
        let list = ListAndWatchResponse { devices: ["w0", "w1", "w2", "w3"].map(device).to_vec() };
        self.streams.fetch_add(1, Ordering::SeqCst);
        Ok(Response::new(stream::iter([Ok(list)]).chain(Open(self.streams.clone())).boxed()))
    }

    async fn get_preferred_allocation(
        &self,
        _: Request<PreferredAllocationRequest>,
    ) -> Result<Response<PreferredAllocationResponse>, Status> {
        Ok(Response::new(PreferredAllocationResponse::default()))
    }

    async fn allocate(
        &self,
        request: Request<AllocateRequest>,
    ) -> Result<Response<AllocateResponse>, Status> {
        let answer = |container: ContainerAllocateRequest| ContainerAllocateResponse {
            envs: BTreeMap::from([("WIDGETS".to_owned(), container.devices_ids.join(","))]),
            ..Default::default()
        };
        let container_responses = request.into_inner().container_requests.into_iter().map(answer).collect();
        Ok(Response::new(AllocateResponse { container_responses }))
    }

    async fn pre_start_container(
        &self,
        _: Request<PreStartContainerRequest>,
    ) -> Result<Response<PreStartContainerResponse>, Status> {
        Ok(Response::new(PreStartContainerResponse::default()))
    }
}
