//! A plugin that knows every answer before it is asked: what is left is gRPC's part of a call. Used by the bench `calls`.

use std::path::Path;

use kubelet_api::deviceplugin::v1beta1::device_plugin_client::DevicePluginClient;
use kubelet_api::deviceplugin::v1beta1::device_plugin_server::{DevicePlugin, DevicePluginServer};
use kubelet_api::deviceplugin::v1beta1::{
    AllocateRequest, AllocateResponse, ContainerAllocateResponse, ContainerPreferredAllocationResponse,
    DevicePluginOptions, DeviceSpec, Empty, ListAndWatchResponse, PreStartContainerRequest,
    PreStartContainerResponse, PreferredAllocationRequest, PreferredAllocationResponse,
};
use kubelet_api::unix::{connect, incoming, listen};
use testkit_support::eventually;
use tonic::codegen::BoxStream;
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status};

use crate::node::{PODS, id, on_a_thread};

struct Constant;

#[tonic::async_trait]
impl DevicePlugin for Constant {
    type ListAndWatchStream = BoxStream<ListAndWatchResponse>;

    async fn get_device_plugin_options(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<DevicePluginOptions>, Status> {
        Ok(Response::new(DevicePluginOptions::default()))
    }

    async fn allocate(&self, _: Request<AllocateRequest>) -> Result<Response<AllocateResponse>, Status> {
        let device = DeviceSpec {
            container_path: "/dev/neuron8".to_owned(),
            host_path: "/dev/neuron8".to_owned(),
            permissions: "rw".to_owned(),
        };
        let envs = [("NEURON_RT_VISIBLE_CORES".to_owned(), "64".to_owned())].into();
        let answer = ContainerAllocateResponse { envs, devices: vec![device], ..Default::default() };
        Ok(Response::new(AllocateResponse { container_responses: vec![answer] }))
    }

    async fn get_preferred_allocation(
        &self,
        _: Request<PreferredAllocationRequest>,
    ) -> Result<Response<PreferredAllocationResponse>, Status> {
        let answer = ContainerPreferredAllocationResponse { device_i_ds: vec![id(PODS)] };
        Ok(Response::new(PreferredAllocationResponse { container_responses: vec![answer] }))
    }

    async fn list_and_watch(&self, _: Request<Empty>) -> Result<Response<Self::ListAndWatchStream>, Status> {
        Err(Status::unimplemented("nobody asks this plugin for a list"))
    }

    async fn pre_start_container(
        &self,
        _: Request<PreStartContainerRequest>,
    ) -> Result<Response<PreStartContainerResponse>, Status> {
        Ok(Response::new(PreStartContainerResponse {}))
    }
}

/// Serves it on that socket, on a thread of its own as the plugin has, until the process ends.
pub(crate) async fn serve(socket: &Path) -> DevicePluginClient<Channel> {
    let path = socket.to_owned();
    on_a_thread(async move {
        let listener = listen(&path).expect("a socket");
        let server = Server::builder().add_service(DevicePluginServer::new(Constant));
        server.serve_with_incoming(incoming(listener)).await.expect("a server");
    });
    let channel = eventually("a plugin that knows its answers", async || connect(socket).await.ok()).await;
    DevicePluginClient::new(channel)
}
