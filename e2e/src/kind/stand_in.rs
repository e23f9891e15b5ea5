//! A device plugin that fails where somebody needs one that does: a case of Kubernetes' own, beside ours and of a resource
//! of its own, or a fault step in place of ours. It runs in the harness; its socket is in the node.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use futures::{Stream, StreamExt as _, stream};
use kubelet_api::deviceplugin::v1beta1::device_plugin_server::{DevicePlugin, DevicePluginServer};
use kubelet_api::deviceplugin::v1beta1::registration_client::RegistrationClient;
use kubelet_api::deviceplugin::v1beta1::{
    AllocateRequest, AllocateResponse, Device, DevicePluginOptions, Empty, HEALTHY, ListAndWatchResponse,
    PreStartContainerRequest, PreStartContainerResponse, PreferredAllocationRequest,
    PreferredAllocationResponse, RegisterRequest, VERSION,
};
use tokio::net::UnixStream;
use tokio::process::Child;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use super::wait::until;
use super::{KindCluster, pipe};

const FOLDER: &str = "/var/lib/kubelet/device-plugins";
/// Longest that kubelet may take to answer Register; it dials back meanwhile, for up to 10 s.
const LIMIT: Duration = Duration::from_secs(15);
/// Devices that it lists.
pub(super) const DEVICES: i64 = 2;

/// Where it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fails {
    /// When kubelet asks for its options.
    Options,
    /// When kubelet asks for its devices.
    List,
    /// Once it has listed its devices, when it is told to.
    Later,
    /// It never lists its devices: dropped, it dies between its registration and its first list.
    Never,
}

/// A stand-in that serves until it is dropped.
pub(super) struct StandIn {
    node: String,
    resource: String,
    /// The name of its socket in kubelet's folder.
    socket: String,
    fails: Fails,
    calls: Calls,
    fail_now: CancellationToken,
    _tasks: JoinSet<()>,
    _connection: Child,
}

/// The calls of kubelet, in order.
type Calls = Arc<Mutex<Vec<&'static str>>>;

impl StandIn {
    /// Serves a resource of its own in the node. Nobody knows of it until it registers.
    pub(super) async fn start(cluster: &KindCluster, node: &str, fails: Fails) -> anyhow::Result<Self> {
        let resource = format!("test.device/neuron-e2e-{fails:?}").to_lowercase();
        Self::of(cluster, node, resource, fails).await
    }

    /// Serves this resource, of which kubelet should know no other plugin that lives.
    pub(super) async fn of(
        cluster: &KindCluster,
        node: &str,
        resource: String,
        fails: Fails,
    ) -> anyhow::Result<Self> {
        // One that goes takes the file of its socket with it, so that each has another.
        let socket = format!("stand-in-{}.sock", resource.replace('/', "-"));
        let path = format!("{FOLDER}/{socket}");
        cluster.in_node(node, &format!("rm -f {path}")).await?;
        // kubelet opens one connection; the socket's file goes with it.
        let pipe::Pipe { mut bytes, program } = pipe::open(node, pipe::End::Listen, &path)?;
        let (ours, mut theirs) = UnixStream::pair().context("a pair of sockets")?;
        let (calls, fail_now) = (Calls::default(), CancellationToken::new());
        let service = Service { fails, calls: Arc::clone(&calls), fail_now: fail_now.clone() };
        let serving = Server::builder().add_service(DevicePluginServer::new(service));
        let mut tasks = JoinSet::new();
        // What breaks off here is a call that kubelet loses, which the case sees.
        tasks.spawn(async move {
            let _broken = serving.serve_with_incoming(stream::iter([Ok::<_, std::io::Error>(ours)])).await;
        });
        tasks.spawn(async move {
            let _broken = tokio::io::copy_bidirectional(&mut bytes, &mut theirs).await;
        });
        until("the stand-in's socket", || async {
            Ok(cluster.in_node(node, &format!("test -S {path} && echo yes || :")).await?.trim() == "yes")
        })
        .await?;
        Ok(Self {
            node: node.to_owned(),
            resource,
            socket,
            fails,
            calls,
            fail_now,
            _tasks: tasks,
            _connection: program,
        })
    }

    /// The resource it registers.
    pub(super) fn resource(&self) -> &str {
        &self.resource
    }

    /// Registers with kubelet and gives what it answers.
    pub(super) async fn register(&self) -> anyhow::Result<Result<(), Status>> {
        let (channel, _connection) = pipe::dial(&self.node, &format!("{FOLDER}/kubelet.sock")).await?;
        let request = RegisterRequest {
            version: VERSION.to_owned(),
            endpoint: self.socket.clone(),
            resource_name: self.resource.clone(),
            options: None,
        };
        let mut kubelet = RegistrationClient::new(channel);
        let answer = tokio::time::timeout(LIMIT, kubelet.register(request)).await;
        let answer = answer.with_context(|| format!("kubelet did not answer Register in {LIMIT:?}"))?;
        Ok(answer.map(|_| ()))
    }

    /// Lets the open ListAndWatch fail.
    pub(super) fn fail_now(&self) {
        self.fail_now.cancel();
    }

    /// What kubelet has called, in order.
    pub(super) fn calls(&self) -> Vec<&'static str> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What kubelet calls of a plugin that fails there, and nothing after it.
    pub(super) fn expected_calls(&self) -> &'static [&'static str] {
        match self.fails {
            Fails::Options => &["GetDevicePluginOptions"],
            Fails::List | Fails::Later | Fails::Never => &["GetDevicePluginOptions", "ListAndWatch"],
        }
    }
}

struct Service {
    fails: Fails,
    calls: Calls,
    fail_now: CancellationToken,
}

impl Service {
    /// Notes the call; fails if it is the one that does.
    fn called(&self, call: &'static str, fails: Fails) -> Result<(), Status> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
        if self.fails == fails { Err(Status::internal(format!("{call} failed"))) } else { Ok(()) }
    }

    /// What no case comes to, because nobody asks for the stand-in's resource.
    fn unasked<T>(&self, call: &'static str) -> Result<Response<T>, Status> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
        Err(Status::unimplemented(format!("the stand-in has no {call}")))
    }
}

#[tonic::async_trait]
impl DevicePlugin for Service {
    type ListAndWatchStream = Pin<Box<dyn Stream<Item = Result<ListAndWatchResponse, Status>> + Send>>;

    async fn get_device_plugin_options(
        &self,
        _request: Request<Empty>,
    ) -> Result<Response<DevicePluginOptions>, Status> {
        self.called("GetDevicePluginOptions", Fails::Options)?;
        Ok(Response::new(DevicePluginOptions::default()))
    }

    async fn list_and_watch(
        &self,
        _request: Request<Empty>,
    ) -> Result<Response<Self::ListAndWatchStream>, Status> {
        self.called("ListAndWatch", Fails::List)?;
        if self.fails == Fails::Never {
            std::future::pending::<()>().await;
        }
        let device = |id: i64| Device { id: id.to_string(), health: HEALTHY.to_owned(), topology: None };
        let list = ListAndWatchResponse { devices: (0..DEVICES).map(device).collect() };
        let failed = self.fail_now.clone().cancelled_owned();
        let end = stream::once(async {
            failed.await;
            Err(Status::internal("ListAndWatch failed"))
        });
        Ok(Response::new(Box::pin(stream::iter([Ok(list)]).chain(end))))
    }

    async fn get_preferred_allocation(
        &self,
        _request: Request<PreferredAllocationRequest>,
    ) -> Result<Response<PreferredAllocationResponse>, Status> {
        self.unasked("GetPreferredAllocation")
    }

    async fn allocate(
        &self,
        _request: Request<AllocateRequest>,
    ) -> Result<Response<AllocateResponse>, Status> {
        self.unasked("Allocate")
    }

    async fn pre_start_container(
        &self,
        _request: Request<PreStartContainerRequest>,
    ) -> Result<Response<PreStartContainerResponse>, Status> {
        self.unasked("PreStartContainer")
    }
}
