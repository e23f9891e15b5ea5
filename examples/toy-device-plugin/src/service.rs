//! The calls of the kubelet.

use kubelet_api::deviceplugin::v1beta1::device_plugin_server::DevicePlugin;
use kubelet_api::deviceplugin::v1beta1::*;
use tokio::sync::watch;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::WatchStream;
use tokio_util::sync::CancellationToken;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

use crate::pairs::{IDS, preferred};

/// The variable that tells a container the ids of its devices, sorted, with commas.
pub const IDS_VARIABLE: &str = "EXAMPLE_PAIR_IDS";

/// Answers from the newest list of devices.
pub struct PairService {
    pub devices: watch::Receiver<Vec<Device>>,
    /// Cancelled when the kubelet has ended its stream: it may have dropped the plugin, and says it in no other way.
    pub ended: CancellationToken,
}

#[tonic::async_trait]
impl DevicePlugin for PairService {
    type ListAndWatchStream = BoxStream<ListAndWatchResponse>;

    async fn get_device_plugin_options(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<DevicePluginOptions>, Status> {
        Ok(Response::new(DevicePluginOptions {
            pre_start_required: false,
            get_preferred_allocation_available: true,
        }))
    }

    async fn list_and_watch(&self, _: Request<Empty>) -> Result<Response<Self::ListAndWatchStream>, Status> {
        let (lists, end) = (WatchStream::new(self.devices.clone()), self.ended.clone().drop_guard());
        Ok(Response::new(Box::pin(lists.map(move |devices| {
            let _until_the_end = &end;
            Ok(ListAndWatchResponse { devices })
        }))))
    }

    async fn get_preferred_allocation(
        &self,
        request: Request<PreferredAllocationRequest>,
    ) -> Result<Response<PreferredAllocationResponse>, Status> {
        let answer = |container: ContainerPreferredAllocationRequest| {
            let count = usize::try_from(container.allocation_size).unwrap_or(0);
            let ids = preferred(&container.available_device_i_ds, &container.must_include_device_i_ds, count);
            ContainerPreferredAllocationResponse { device_i_ds: ids }
        };
        let container_responses = request.into_inner().container_requests.into_iter().map(answer).collect();
        Ok(Response::new(PreferredAllocationResponse { container_responses }))
    }

    async fn allocate(
        &self,
        request: Request<AllocateRequest>,
    ) -> Result<Response<AllocateResponse>, Status> {
        let containers = request.into_inner().container_requests.into_iter();
        let container_responses = containers.map(|container| allocated(container.devices_ids));
        let container_responses = container_responses.collect::<Result<_, _>>()?;
        Ok(Response::new(AllocateResponse { container_responses }))
    }

    async fn pre_start_container(
        &self,
        _: Request<PreStartContainerRequest>,
    ) -> Result<Response<PreStartContainerResponse>, Status> {
        Ok(Response::new(PreStartContainerResponse {}))
    }
}

/// What a container gets with its ids: the variable, and a device node for each.
fn allocated(mut ids: Vec<String>) -> Result<ContainerAllocateResponse, Status> {
    if let Some(unknown) = ids.iter().find(|id| !IDS.contains(&id.as_str())) {
        return Err(Status::not_found(format!("there is no device {unknown}; the devices are {IDS:?}")));
    }
    ids.sort();
    // There is no hardware: every machine has /dev/null.
    let device = |id: &String| DeviceSpec {
        container_path: format!("/dev/example/{id}"),
        host_path: "/dev/null".to_owned(),
        permissions: "rw".to_owned(),
    };
    Ok(ContainerAllocateResponse {
        devices: ids.iter().map(device).collect(),
        envs: [(IDS_VARIABLE.to_owned(), ids.join(","))].into(),
        ..Default::default()
    })
}
