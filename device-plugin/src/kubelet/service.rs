//! The gRPC service of one resource: kubelet's device plugin contract on one side, the engine on the other. Every call is
//! a span named after it. Served by `socket`.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::stream::select;
use futures::{Stream, StreamExt};
use kubelet_api::deviceplugin::v1beta1::device_plugin_server::DevicePlugin;
use kubelet_api::deviceplugin::v1beta1::{
    AllocateRequest, AllocateResponse, ContainerPreferredAllocationResponse, Device, DevicePluginOptions,
    Empty, HEALTHY, ListAndWatchResponse, PreStartContainerRequest, PreStartContainerResponse,
    PreferredAllocationRequest, PreferredAllocationResponse, UNHEALTHY,
};
use neuron_core::ids::{CoreSet, KubeletId};
use neuron_core::names::Resource;
use neuron_core::topology::Topology;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_stream::wrappers::WatchStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tracing::{Span, info_span, instrument};

use crate::allocation::engine::Engine;
use crate::allocation::refusal::AllocationRefusal;
use crate::hardware::machine::Machine;
use crate::metrics::Preferred;
use crate::resource::{AdvertisedResource, ids_with_cores};

/// Which optional calls kubelet is to make.
pub const OPTIONS: DevicePluginOptions =
    DevicePluginOptions { pre_start_required: false, get_preferred_allocation_available: true };

/// Numbers of ListAndWatch streams. kubelet has exactly one open while a resource is registered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    /// Opened since the start.
    pub opened: u64,
    /// Open now.
    pub open: u64,
}

/// The service of one resource.
pub struct Service {
    /// The name to serve under and what one id of it stands for.
    pub resource: AdvertisedResource,
    /// Decides the answers.
    pub engine: Arc<Engine>,
    /// Counts ListAndWatch streams.
    pub streams: Arc<watch::Sender<Streams>>,
    /// Ends the streams; a server cannot shut down before.
    pub closing: CancellationToken,
}

/// A ListAndWatch stream that is counted, and polled in its span.
struct Counted<S> {
    inner: S,
    streams: Arc<watch::Sender<Streams>>,
    span: Span,
}

impl<S> Drop for Counted<S> {
    fn drop(&mut self) {
        self.streams.send_modify(|streams| streams.open = streams.open.saturating_sub(1));
    }
}

impl<S: Stream + Unpin> Stream for Counted<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let this = &mut *self;
        let _entered = this.span.enter();
        this.inner.poll_next_unpin(context)
    }
}

#[tonic::async_trait]
impl DevicePlugin for Service {
    type ListAndWatchStream = Pin<Box<dyn Stream<Item = Result<ListAndWatchResponse, Status>> + Send>>;

    #[instrument(name = "GetDevicePluginOptions", skip_all, fields(resource = self.resource.name))]
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
        let (engine, AdvertisedResource { name, unit, .. }) = (Arc::clone(&self.engine), self.resource);
        let mut last = None;
        let machine = WatchStream::new(engine.machine.subscribe()).map(drop);
        let withdrawn = WatchStream::new(engine.withdrawn.subscribe()).map(drop);
        let lists = select(machine, withdrawn)
            .filter_map(move |()| {
                let says = engine.machine().map(|machine| {
                    let unhealthy = unhealthy_cores(&machine, engine.withdrawn_from(name));
                    (Arc::clone(&machine.topology), unhealthy)
                });
                let news = says.filter(|says| last.as_ref() != Some(says));
                if news.is_some() {
                    last.clone_from(&news);
                }
                futures::future::ready(news.map(|(topology, unhealthy)| devices(&topology, unit, unhealthy)))
            })
            .map(|devices| {
                let unhealthy = devices.iter().filter(|device| device.health == UNHEALTHY).count();
                tracing::info!(count = devices.len(), unhealthy_count = unhealthy, "advertised");
                Ok(ListAndWatchResponse { devices })
            })
            .take_until(self.closing.clone().cancelled_owned());
        Ok(Response::new(Box::pin(Counted {
            inner: lists.boxed(),
            streams: Arc::clone(&self.streams),
            span: info_span!("ListAndWatch", resource = self.resource.name),
        })))
    }

    #[instrument(name = "GetPreferredAllocation", skip_all, fields(resource = self.resource.name))]
    async fn get_preferred_allocation(
        &self,
        request: Request<PreferredAllocationRequest>,
    ) -> Result<Response<PreferredAllocationResponse>, Status> {
        let (mut container_responses, deadlines) = (Vec::new(), self.engine.deadlines());
        for container in request.into_inner().container_requests {
            let count = u32::try_from(container.allocation_size).unwrap_or_default();
            let (available, must_include) =
                (&container.available_device_i_ds, &container.must_include_device_i_ds);
            let began = Instant::now();
            let preferred =
                self.engine.prefer(&self.resource, available, must_include, count, &deadlines).await;
            let answer = match &preferred {
                Ok(ids) if ids.is_empty() => Preferred::Nothing,
                Ok(_) => Preferred::Set,
                Err(_) => Preferred::Refused,
            };
            self.engine.metrics.preferred(self.resource.name, began.elapsed(), answer);
            let device_i_ds = preferred.map_err(status)?;
            tracing::debug!(count, ids = device_i_ds.join(","), "preferred");
            container_responses.push(ContainerPreferredAllocationResponse { device_i_ds });
        }
        Ok(Response::new(PreferredAllocationResponse { container_responses }))
    }

    #[instrument(name = "Allocate", skip_all, fields(resource = self.resource.name))]
    async fn allocate(
        &self,
        request: Request<AllocateRequest>,
    ) -> Result<Response<AllocateResponse>, Status> {
        let (mut container_responses, deadlines) = (Vec::new(), self.engine.deadlines());
        for container in request.into_inner().container_requests {
            let answer = self.engine.allocate(&self.resource, &container.devices_ids, &deadlines).await;
            container_responses.push(answer.map_err(status)?);
        }
        Ok(Response::new(AllocateResponse { container_responses }))
    }

    /// Never called: [`OPTIONS`] do not ask for it.
    async fn pre_start_container(
        &self,
        _request: Request<PreStartContainerRequest>,
    ) -> Result<Response<PreStartContainerResponse>, Status> {
        Ok(Response::new(PreStartContainerResponse {}))
    }
}

/// The cores whose ids kubelet is told to be unhealthy. Of a loss the node report is told first.
fn unhealthy_cores(machine: &Machine, withdrawn: CoreSet) -> CoreSet {
    machine.topology.cores_of(machine.withheld).union(withdrawn)
}

/// Every id of a resource. None ever leaves the list, whoever holds it and whatever its health.
fn devices(topology: &Topology, unit: Resource, unhealthy: CoreSet) -> Vec<Device> {
    let device = |(id, cores): (KubeletId, CoreSet)| Device {
        id: id.to_string(),
        health: if cores.intersects(unhealthy) { UNHEALTHY } else { HEALTHY }.to_owned(),
        // A topology manager with hints overrides the preferred set (docs/reference/kubernetes.md §6).
        topology: None,
    };
    ids_with_cores(topology, unit, topology.all_cores()).map(device).collect()
}

/// Numbers of the healthy and of the unhealthy ids that kubelet is told of.
pub fn listed(machine: &Machine, unit: Resource, withdrawn: CoreSet) -> [usize; 2] {
    let devices = devices(&machine.topology, unit, unhealthy_cores(machine, withdrawn));
    let healthy = devices.iter().filter(|device| device.health == HEALTHY).count();
    [healthy, devices.len() - healthy]
}

fn status(refusal: AllocationRefusal) -> Status {
    let text = refusal.to_string();
    match refusal {
        AllocationRefusal::NotReady | AllocationRefusal::Unhealthy { .. } => Status::unavailable(text),
        AllocationRefusal::Unknown(_) => Status::invalid_argument(text),
        AllocationRefusal::NotAllowed { .. }
        | AllocationRefusal::Held { .. }
        | AllocationRefusal::StillOpen { .. } => Status::failed_precondition(text),
    }
}
