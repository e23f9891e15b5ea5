//! A device plugin that does everything right, but for one defect. Run as a process by `main`.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use futures::{Stream, StreamExt as _};
use kubelet_api::deviceplugin::v1beta1::device_plugin_server::{DevicePlugin, DevicePluginServer};
use kubelet_api::deviceplugin::v1beta1::registration_client::RegistrationClient;
use kubelet_api::deviceplugin::v1beta1::*;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::defect::Defect;

/// What the fixture is told by its environment.
pub(crate) const SETTINGS: [&str; 5] =
    ["FIXTURE_DEFECT", "FIXTURE_PLUGINS", "FIXTURE_FOLDER", "FIXTURE_DEVICES", "FIXTURE_RESOURCE"];
/// How often it looks at files.
const POLL: Duration = Duration::from_millis(20);
/// When a plugin gives up that does.
const PATIENCE: Duration = Duration::from_millis(2200);

type Devices = Vec<Device>;

struct Fixture {
    defect: Defect,
    plugins: PathBuf,
    folder: PathBuf,
    resource: String,
    devices: u64,
    list: watch::Sender<Devices>,
    /// How often it has registered.
    generation: AtomicU64,
    allocated: Mutex<BTreeSet<String>>,
    preferred: Mutex<Option<Vec<String>>>,
    stuck: Mutex<BTreeSet<String>>,
}

/// Runs the plugin as the environment says, without end.
pub(crate) async fn run() {
    let [defect, plugins, folder, devices, resource] = SETTINGS.map(|name| std::env::var(name).unwrap());
    let fixture = Arc::new(Fixture {
        defect: Defect::named(&defect),
        plugins: plugins.into(),
        folder: folder.into(),
        resource,
        devices: devices.parse().unwrap(),
        list: watch::Sender::new(Devices::new()),
        generation: AtomicU64::new(0),
        allocated: Mutex::default(),
        preferred: Mutex::default(),
        stuck: Mutex::default(),
    });
    if fixture.defect == Defect::SingleInstance && fixture.another_serves() {
        return;
    }
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap();
    let socket = Arc::new(Mutex::new(None::<PathBuf>));
    tokio::select! {
        () = fixture.clone().follow_health() => {}
        () = fixture.clone().serve_for_ever(socket.clone()) => {}
        _ = terminate.recv() => {}
    }
    if let Some(socket) = socket.lock().unwrap().take() {
        let _gone = std::fs::remove_file(socket);
    }
}

/// What tells one kubelet.sock from another.
type Identity = (u64, SystemTime);

fn identity(path: &Path) -> Option<Identity> {
    let file = std::fs::symlink_metadata(path).ok()?;
    Some((file.ino(), file.modified().ok()?))
}

impl Fixture {
    fn kubelet(&self) -> PathBuf {
        self.plugins.join(KUBELET_SOCKET)
    }

    fn another_serves(&self) -> bool {
        let mut entries = std::fs::read_dir(&self.plugins).unwrap().map(|entry| entry.unwrap());
        entries.any(|entry| {
            entry.file_name().to_string_lossy().starts_with("fixture-")
                && std::os::unix::net::UnixStream::connect(entry.path()).is_ok()
        })
    }

    fn id(&self, number: u64) -> String {
        match (self.defect, self.generation.load(Ordering::SeqCst)) {
            (Defect::RenamesIds, generation) => format!("f{number}-{generation}"),
            (Defect::RenamesIdsAtStart, _) => format!("f{number}-{}", std::process::id()),
            _ => format!("f{number}"),
        }
    }

    /// The list as the files say.
    fn now(&self) -> Devices {
        let mut one_is = false;
        let device = |number| {
            let id = self.id(number);
            let mut is_unhealthy = self.folder.join("unhealthy").join(&id).exists();
            match self.defect {
                Defect::OneUnhealthy => {
                    is_unhealthy &= !one_is;
                    one_is |= is_unhealthy;
                }
                Defect::StaysUnhealthy => {
                    let mut stuck = self.stuck.lock().unwrap();
                    if is_unhealthy {
                        stuck.insert(id.clone());
                    }
                    is_unhealthy = stuck.contains(&id);
                }
                Defect::IgnoresHealthOfAllocated => {
                    is_unhealthy &= !self.allocated.lock().unwrap().contains(&id);
                }
                _ => {}
            }
            let health = if is_unhealthy { UNHEALTHY } else { HEALTHY };
            Device { id, health: health.to_owned(), topology: None }
        };
        (0..self.devices).map(device).collect()
    }

    async fn follow_health(self: Arc<Self>) {
        loop {
            let now = self.now();
            let before = self.list.borrow().clone();
            if now != before {
                if self.defect == Defect::Flickers && !before.is_empty() {
                    let stays = |device: &&Device| before.contains(device);
                    self.list.send_replace(now.iter().filter(stays).cloned().collect());
                    sleep(POLL * 5).await;
                }
                self.list.send_replace(now);
            }
            sleep(POLL).await;
        }
    }

    async fn serve_for_ever(self: Arc<Self>, own: Arc<Mutex<Option<PathBuf>>>) {
        let mut server: Option<(CancellationToken, JoinHandle<()>)> = None;
        // The inode of the last kubelet.
        let mut last = None;
        loop {
            // Its streams end before anything else comes over them.
            if let Some((stopped, before)) = server.take() {
                stopped.cancel();
                let _ended = timeout(PATIENCE, before).await;
            }
            if let Some(path) = own.lock().unwrap().take() {
                let _gone = std::fs::remove_file(path);
            }
            self.generation.fetch_add(1, Ordering::SeqCst);
            self.list.send_replace(self.now());
            let name = self.socket_name();
            let socket = self.plugins.join(&name);
            if self.defect == Defect::ServesLate {
                let _refused = self.register(&name).await;
            }
            let Ok(listener) = kubelet_api::unix::listen(&socket) else {
                // The name is taken by what a killed one left.
                sleep(POLL).await;
                continue;
            };
            *own.lock().unwrap() = Some(socket.clone());
            let (stopped, lost) = (CancellationToken::new(), Arc::new(Notify::new()));
            let service = Service { fixture: self.clone(), stopped: stopped.clone(), lost: lost.clone() };
            let serving = Server::builder().add_service(DevicePluginServer::new(service));
            let end = stopped.clone().cancelled_owned();
            let incoming = kubelet_api::unix::incoming(listener);
            let task = tokio::spawn(async move {
                let _broken = serving.serve_with_incoming_shutdown(incoming, end).await;
            });
            server = Some((stopped, task));
            let Some(registered_at) = self.registered(&name, &socket, last).await else { continue };
            last = Some(registered_at.0);
            self.until_to_register(registered_at, &socket, &lost).await;
        }
    }

    fn socket_name(&self) -> String {
        if self.defect == Defect::Leftover {
            return "fixture-fixed.sock".to_owned();
        }
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
        format!("fixture-{}-{time:x}.sock", std::process::id())
    }

    /// Registers, as often as it takes; the kubelet it was. None where its socket was removed meanwhile.
    async fn registered(&self, name: &str, socket: &Path, last: Option<u64>) -> Option<Identity> {
        let began = Instant::now();
        let mut is_first = true;
        loop {
            let kubelet = identity(&self.kubelet());
            let is_new = kubelet.is_some_and(|(inode, _)| Some(inode) != last);
            let takes_notice = self.defect != Defect::Inode || is_new;
            if takes_notice && !socket.exists() {
                return None;
            }
            if (takes_notice || is_first) && kubelet.is_some() && self.register(name).await {
                return kubelet;
            }
            is_first = false;
            if self.defect == Defect::GivesUp && began.elapsed() > PATIENCE {
                std::future::pending::<()>().await;
            }
            sleep(POLL).await;
        }
    }

    /// Returns once it is to register again.
    async fn until_to_register(&self, registered_at: Identity, socket: &Path, lost: &Notify) {
        loop {
            if self.defect == Defect::RegistersOnce {
                std::future::pending::<()>().await;
            }
            let kubelet = identity(&self.kubelet());
            let is_another = match self.defect {
                Defect::Inode => kubelet.is_some_and(|(inode, _)| inode != registered_at.0),
                _ => kubelet.is_some_and(|kubelet| kubelet != registered_at),
            };
            if is_another || (self.defect != Defect::Inode && !socket.exists()) {
                return;
            }
            if timeout(POLL, lost.notified()).await.is_ok() && self.defect != Defect::IgnoresLostStream {
                return;
            }
        }
    }

    /// Whether kubelet took it.
    async fn register(&self, endpoint: &str) -> bool {
        let Ok(kubelet) = kubelet_api::unix::connect(&self.kubelet()).await else { return false };
        let request = RegisterRequest {
            version: VERSION.to_owned(),
            endpoint: endpoint.to_owned(),
            resource_name: self.resource.clone(),
            options: None,
        };
        let answer =
            timeout(Duration::from_secs(5), RegistrationClient::new(kubelet).register(request)).await;
        if let Ok(Err(error)) = &answer {
            println!("not registered: {error}");
        }
        matches!(answer, Ok(Ok(_)))
    }

    fn answer(&self, ids: &[String]) -> Result<ContainerAllocateResponse, Status> {
        let marker = self.folder.join("allocated");
        if self.defect == Defect::FirstAllocate && !marker.exists() {
            std::fs::write(marker, "").unwrap();
            return Err(Status::internal("the first Allocate fails"));
        }
        let mut ids = ids.to_vec();
        match (self.defect, self.preferred.lock().unwrap().take()) {
            (Defect::NeedsPreference, None) => {
                return Err(Status::failed_precondition("nobody asked which are preferred"));
            }
            (Defect::AllocatesPreferred, Some(preferred)) => ids = preferred,
            _ => {}
        }
        ids.sort();
        self.allocated.lock().unwrap().extend(ids.iter().cloned());
        let root = if self.defect == Defect::RelativePath { "dev" } else { "/dev" };
        let device = |id: &String| DeviceSpec {
            container_path: format!("{root}/{id}"),
            host_path: "/dev/null".to_owned(),
            permissions: "rw".to_owned(),
        };
        let cdi = CdiDevice { name: "fixture0".to_owned() };
        Ok(ContainerAllocateResponse {
            devices: ids.iter().map(device).collect(),
            envs: [("FIXTURE".to_owned(), ids.join(","))].into(),
            cdi_devices: (self.defect == Defect::UnqualifiedCdi).then_some(cdi).into_iter().collect(),
            ..Default::default()
        })
    }
}

struct Service {
    fixture: Arc<Fixture>,
    stopped: CancellationToken,
    lost: Arc<Notify>,
}

/// Tells of the end of a stream.
struct Told(Arc<Notify>);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[tonic::async_trait]
impl DevicePlugin for Service {
    type ListAndWatchStream = Pin<Box<dyn Stream<Item = Result<ListAndWatchResponse, Status>> + Send>>;

    async fn get_device_plugin_options(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<DevicePluginOptions>, Status> {
        let options =
            DevicePluginOptions { pre_start_required: false, get_preferred_allocation_available: true };
        Ok(Response::new(options))
    }

    async fn list_and_watch(&self, _: Request<Empty>) -> Result<Response<Self::ListAndWatchStream>, Status> {
        let told = Told(self.lost.clone());
        let lists = tokio_stream::wrappers::WatchStream::new(self.fixture.list.subscribe());
        let lists = lists.take_until(self.stopped.clone().cancelled_owned());
        let stream = lists.map(move |devices| {
            let _until_the_end = &told;
            Ok(ListAndWatchResponse { devices })
        });
        Ok(Response::new(stream.boxed()))
    }

    async fn get_preferred_allocation(
        &self,
        request: Request<PreferredAllocationRequest>,
    ) -> Result<Response<PreferredAllocationResponse>, Status> {
        let answer = |container: ContainerPreferredAllocationRequest| {
            let mut ids = container.must_include_device_i_ds.clone();
            let mut available = container.available_device_i_ds;
            available.sort();
            available.retain(|id| !ids.contains(id));
            let missing = usize::try_from(container.allocation_size).unwrap().saturating_sub(ids.len());
            ids.extend(available.into_iter().take(missing));
            *self.fixture.preferred.lock().unwrap() = Some(ids.clone());
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
        let answers = containers.map(|container| self.fixture.answer(&container.devices_ids));
        Ok(Response::new(AllocateResponse { container_responses: answers.collect::<Result<_, _>>()? }))
    }

    async fn pre_start_container(
        &self,
        _: Request<PreStartContainerRequest>,
    ) -> Result<Response<PreStartContainerResponse>, Status> {
        Ok(Response::new(PreStartContainerResponse {}))
    }
}
