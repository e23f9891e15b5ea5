//! A device plugin that fails where a test needs one that does: beside the plugin under test with a resource of its own, or
//! in its place. It runs in this process; its socket is in the node. Used by the cases, and by tests of kubelet's faults.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use futures::{Stream, StreamExt as _, stream};
use kubelet_api::deviceplugin::v1beta1::device_plugin_server::{DevicePlugin, DevicePluginServer};
use kubelet_api::deviceplugin::v1beta1::registration_client::RegistrationClient;
use kubelet_api::deviceplugin::v1beta1::{
    AllocateRequest, AllocateResponse, Device, DevicePluginOptions, Empty, HEALTHY, KUBELET_SOCKET,
    ListAndWatchResponse, PreStartContainerRequest, PreStartContainerResponse, PreferredAllocationRequest,
    PreferredAllocationResponse, RegisterRequest, VERSION,
};
use tokio::net::UnixStream;
use tokio::process::Child;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use kind_driver::socket::{self, End, Pipe};
use kind_driver::{Cluster, WAIT};

const FOLDER: &str = "/var/lib/kubelet/device-plugins";
/// How long kubelet may take to answer Register; it dials back meanwhile, for up to 10 s.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Devices that it lists.
pub const DEVICES: u64 = 2;

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// GetDevicePluginOptions fails.
    OptionsFail,
    /// ListAndWatch fails at once.
    ListFails,
    /// ListAndWatch fails once it has listed its devices, when it is told to.
    ListFailsLater,
    /// It never lists its devices: dropped, it dies between its registration and its first list.
    NeverLists,
}

/// A faulty plugin that serves until it is dropped.
pub struct FaultyPlugin {
    place: Place,
    resource: String,
    /// The name of its socket in kubelet's folder.
    socket: String,
    fault: Fault,
    calls: Calls,
    fail_now: CancellationToken,
    _tasks: JoinSet<()>,
}

/// Where kubelet's folder is.
enum Place {
    /// In a node of kind, and the program that brings the plugin's socket there.
    Node(String, #[expect(dead_code, reason = "it ends with the plugin")] Child),
    /// On this machine.
    Folder(PathBuf),
}

/// The resource of a faulty plugin that has one of its own.
pub(crate) fn resource_of(fault: Fault) -> String {
    format!("test.device/plugin-conformance-{fault:?}").to_lowercase()
}

/// The calls of kubelet, in order.
type Calls = Arc<Mutex<Vec<&'static str>>>;

impl FaultyPlugin {
    /// Serves a resource of its own in the node. Nobody knows of it until it registers.
    ///
    /// # Errors
    /// Its socket does not come to be in the node.
    pub async fn start(cluster: &Cluster, node: &str, fault: Fault) -> anyhow::Result<Self> {
        Self::of(cluster, node, resource_of(fault), fault).await
    }

    /// Serves this resource. A kubelet before 1.37 should know no other plugin of it that lives.
    ///
    /// # Errors
    /// Its socket does not come to be in the node.
    pub async fn of(cluster: &Cluster, node: &str, resource: String, fault: Fault) -> anyhow::Result<Self> {
        // One that goes takes the file of its socket with it, so that each has another.
        let socket = format!("faulty-plugin-{}.sock", resource.replace('/', "-"));
        let path = format!("{FOLDER}/{socket}");
        cluster.exec(node, &format!("rm -f {path}")).await?;
        // kubelet opens one connection; the socket's file goes with it.
        let Pipe { mut bytes, program } = socket::open(node, End::Listen, &path)?;
        let (ours, mut theirs) = UnixStream::pair().context("a pair of sockets")?;
        let (calls, fail_now) = (Calls::default(), CancellationToken::new());
        let service = Service { fault, calls: Arc::clone(&calls), fail_now: fail_now.clone() };
        let serving = Server::builder().add_service(DevicePluginServer::new(service));
        let mut tasks = JoinSet::new();
        // What breaks off here is a call that kubelet loses, which the case sees.
        tasks.spawn(async move {
            let _broken = serving.serve_with_incoming(stream::iter([Ok::<_, std::io::Error>(ours)])).await;
        });
        tasks.spawn(async move {
            let _broken = tokio::io::copy_bidirectional(&mut bytes, &mut theirs).await;
        });
        WAIT.until("the faulty plugin's socket", async || {
            Ok(cluster.exec(node, &format!("test -S {path} && echo yes || :")).await?.trim() == "yes")
        })
        .await?;
        let place = Place::Node(node.to_owned(), program);
        Ok(Self { place, resource, socket, fault, calls, fail_now, _tasks: tasks })
    }

    /// As [`Self::of`], in a kubelet's folder of this machine.
    pub(crate) fn in_folder(folder: &Path, resource: String, fault: Fault) -> anyhow::Result<Self> {
        let socket = format!("faulty-plugin-{}.sock", resource.replace('/', "-"));
        let listener = kubelet_api::unix::listen(&folder.join(&socket))?;
        let (calls, fail_now) = (Calls::default(), CancellationToken::new());
        let service = Service { fault, calls: Arc::clone(&calls), fail_now: fail_now.clone() };
        let serving = Server::builder().add_service(DevicePluginServer::new(service));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let _broken = serving.serve_with_incoming(kubelet_api::unix::incoming(listener)).await;
        });
        let place = Place::Folder(folder.to_owned());
        Ok(Self { place, resource, socket, fault, calls, fail_now, _tasks: tasks })
    }

    /// The resource it registers.
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// Registers with kubelet and gives what it answers.
    ///
    /// # Errors
    /// kubelet cannot be reached, or does not answer in time.
    pub async fn register(&self) -> anyhow::Result<Result<(), Status>> {
        let (channel, _connection) = match &self.place {
            Place::Node(node, _) => {
                let (channel, connection) = socket::dial(node, &format!("{FOLDER}/{KUBELET_SOCKET}")).await?;
                (channel, Some(connection))
            }
            Place::Folder(folder) => (kubelet_api::unix::connect(&folder.join(KUBELET_SOCKET)).await?, None),
        };
        let request = RegisterRequest {
            version: VERSION.to_owned(),
            endpoint: self.socket.clone(),
            resource_name: self.resource.clone(),
            options: None,
        };
        let mut kubelet = RegistrationClient::new(channel);
        let answer = tokio::time::timeout(TIMEOUT, kubelet.register(request)).await;
        let answer = answer.with_context(|| format!("kubelet did not answer Register in {TIMEOUT:?}"))?;
        Ok(answer.map(|_| ()))
    }

    /// Lets the open ListAndWatch fail.
    pub fn fail_now(&self) {
        self.fail_now.cancel();
    }

    /// What kubelet has called, in order.
    pub fn calls(&self) -> Vec<&'static str> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What kubelet calls of a plugin that fails there, and nothing after it.
    pub fn expected_calls(&self) -> &'static [&'static str] {
        match self.fault {
            Fault::OptionsFail => &["GetDevicePluginOptions"],
            Fault::ListFails | Fault::ListFailsLater | Fault::NeverLists => {
                &["GetDevicePluginOptions", "ListAndWatch"]
            }
        }
    }
}

impl Drop for FaultyPlugin {
    fn drop(&mut self) {
        if let Place::Folder(folder) = &self.place {
            // kubelet may have removed it.
            let _gone = std::fs::remove_file(folder.join(&self.socket));
        }
    }
}

struct Service {
    fault: Fault,
    calls: Calls,
    fail_now: CancellationToken,
}

impl Service {
    /// Notes the call; fails if it is the one that does.
    fn called(&self, call: &'static str, fault: Fault) -> Result<(), Status> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
        if self.fault == fault { Err(Status::internal(format!("{call} failed"))) } else { Ok(()) }
    }

    /// What no case comes to, because nobody asks for the faulty plugin's resource.
    fn unasked<T>(&self, call: &'static str) -> Result<Response<T>, Status> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
        Err(Status::unimplemented(format!("the faulty plugin has no {call}")))
    }
}

#[tonic::async_trait]
impl DevicePlugin for Service {
    type ListAndWatchStream = Pin<Box<dyn Stream<Item = Result<ListAndWatchResponse, Status>> + Send>>;

    async fn get_device_plugin_options(
        &self,
        _request: Request<Empty>,
    ) -> Result<Response<DevicePluginOptions>, Status> {
        self.called("GetDevicePluginOptions", Fault::OptionsFail)?;
        Ok(Response::new(DevicePluginOptions::default()))
    }

    async fn list_and_watch(
        &self,
        _request: Request<Empty>,
    ) -> Result<Response<Self::ListAndWatchStream>, Status> {
        self.called("ListAndWatch", Fault::ListFails)?;
        if self.fault == Fault::NeverLists {
            std::future::pending::<()>().await;
        }
        let device = |id: u64| Device { id: id.to_string(), health: HEALTHY.to_owned(), topology: None };
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
