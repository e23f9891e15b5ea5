//! The gRPC service of one resource: kubelet's device plugin contract on one side, the engine on the other.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::{Stream, StreamExt};
use kubelet_api::deviceplugin::v1beta1::device_plugin_server::DevicePlugin;
use kubelet_api::deviceplugin::v1beta1::{
    AllocateRequest, AllocateResponse, ContainerPreferredAllocationResponse, Device, DevicePluginOptions,
    Empty, HEALTHY, ListAndWatchResponse, PreStartContainerRequest, PreStartContainerResponse,
    PreferredAllocationRequest, PreferredAllocationResponse, UNHEALTHY,
};
use neuron_core::ids::{CoreSet, DeviceSet};
use neuron_core::names::Resource;
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use crate::discovery::Machine;
use crate::engine::{Engine, Refusal};
use crate::offer::{Offer, ids_of};

/// What kubelet is to ask for.
pub const OPTIONS: DevicePluginOptions =
    DevicePluginOptions { pre_start_required: false, get_preferred_allocation_available: true };

/// How many ListAndWatch streams there were and are: kubelet has exactly one open while a resource is registered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    /// Opened since the start.
    pub opened: u64,
    /// Open now.
    pub open: u64,
}

/// The service of one resource.
pub struct Service {
    /// What is served.
    pub offer: Offer,
    /// Who answers.
    pub engine: Arc<Engine>,
    /// Its streams.
    pub streams: Arc<watch::Sender<Streams>>,
    /// Ends the streams; a server cannot shut down before.
    pub closing: CancellationToken,
}

/// A ListAndWatch stream that is counted.
struct Counted<S> {
    inner: S,
    streams: Arc<watch::Sender<Streams>>,
}

impl<S> Drop for Counted<S> {
    fn drop(&mut self) {
        self.streams.send_modify(|streams| streams.open = streams.open.saturating_sub(1));
    }
}

impl<S: Stream + Unpin> Stream for Counted<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        self.inner.poll_next_unpin(context)
    }
}

#[tonic::async_trait]
impl DevicePlugin for Service {
    type ListAndWatchStream = Pin<Box<dyn Stream<Item = Result<ListAndWatchResponse, Status>> + Send>>;

    async fn get_device_plugin_options(
        &self,
        _request: Request<Empty>,
    ) -> Result<Response<DevicePluginOptions>, Status> {
        Ok(Response::new(OPTIONS))
    }

    async fn list_and_watch(
        &self,
        _request: Request<Empty>,
    ) -> Result<Response<Self::ListAndWatchStream>, Status> {
        self.streams.send_modify(|streams| {
            streams.opened += 1;
            streams.open += 1;
        });
        let resource = self.offer.resource;
        let mut last = None;
        let lists = WatchStream::new(self.engine.machine.subscribe())
            .filter_map(move |machine| {
                let list = machine.map(|machine| devices(&machine, resource));
                let news = list.filter(|list| last.as_ref() != Some(list));
                if news.is_some() {
                    last.clone_from(&news);
                }
                futures::future::ready(news)
            })
            .map(|devices| Ok(ListAndWatchResponse { devices }))
            .take_until(self.closing.clone().cancelled_owned());
        Ok(Response::new(Box::pin(Counted { inner: lists.boxed(), streams: Arc::clone(&self.streams) })))
    }

    async fn get_preferred_allocation(
        &self,
        request: Request<PreferredAllocationRequest>,
    ) -> Result<Response<PreferredAllocationResponse>, Status> {
        let mut container_responses = Vec::new();
        for container in request.into_inner().container_requests {
            let size = u32::try_from(container.allocation_size).unwrap_or_default();
            let (available, must) = (&container.available_device_i_ds, &container.must_include_device_i_ds);
            let device_i_ds = self.engine.prefer(&self.offer, available, must, size).await.map_err(status)?;
            container_responses.push(ContainerPreferredAllocationResponse { device_i_ds });
        }
        Ok(Response::new(PreferredAllocationResponse { container_responses }))
    }

    async fn allocate(
        &self,
        request: Request<AllocateRequest>,
    ) -> Result<Response<AllocateResponse>, Status> {
        let mut container_responses = Vec::new();
        for container in request.into_inner().container_requests {
            let answer = self.engine.allocate(&self.offer, &container.devices_ids).await.map_err(status)?;
            container_responses.push(answer);
        }
        Ok(Response::new(AllocateResponse { container_responses }))
    }

    async fn pre_start_container(
        &self,
        _request: Request<PreStartContainerRequest>,
    ) -> Result<Response<PreStartContainerResponse>, Status> {
        Ok(Response::new(PreStartContainerResponse {}))
    }
}

/// Every id of a resource; none ever leaves the list, whoever holds it and whatever its health.
fn devices(machine: &Machine, resource: Resource) -> Vec<Device> {
    let topology = &machine.topology;
    let unhealthy = machine.unhealthy();
    let of_device = |device: u8| {
        let health = if unhealthy.contains(device) { UNHEALTHY } else { HEALTHY };
        let cores: CoreSet = topology.cores_of(DeviceSet::single(device));
        ids_of(topology, resource, cores).into_iter().map(move |id| Device {
            id,
            health: health.to_owned(),
            // A topology manager with hints overrides the preferred set (docs/reference/kubernetes.md §6).
            topology: None,
        })
    };
    topology.all_devices().iter().flat_map(of_device).collect()
}

/// The ids of a resource that may be given out.
pub fn healthy(machine: &Machine, resource: Resource) -> BTreeSet<String> {
    let healthy = devices(machine, resource).into_iter().filter(|device| device.health == HEALTHY);
    healthy.map(|device| device.id).collect()
}

fn status(refusal: Refusal) -> Status {
    let text = refusal.to_string();
    match refusal {
        Refusal::NotReady | Refusal::Unhealthy { .. } => Status::unavailable(text),
        Refusal::Unknown(_) => Status::invalid_argument(text),
        Refusal::NotAllowed { .. } | Refusal::Held { .. } => Status::failed_precondition(text),
    }
}
