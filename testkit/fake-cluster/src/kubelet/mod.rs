//! A kubelet: the device manager as docs/reference/kubernetes.md §4, §6 and §8 describe it, on the sockets of its node's
//! [`System`], with pods from the [`ApiServer`], whose version it has, and containers from a [`ContainerRuntime`]. It knows
//! nothing of any device.
//!
//! [`Kubelet::start`] and [`Kubelet::stop`] may be called at any time: containers and assignments are kept in the kubelet's
//! folder, as on a real node.

mod config;
mod container_runtime;
mod device_manager;
mod device_mount;
mod error;
mod files;
mod free_choices;
mod lease;
mod node_status;
mod plugin_call;
mod pods;
mod pods_api;
mod shared;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use kubelet_api::deviceplugin::v1beta1::registration_server::RegistrationServer;
use kubelet_api::podresources::v1::pod_resources_lister_server::PodResourcesListerServer;
use kubelet_api::pods::v1alpha1::pods_server::PodsServer;
use kubelet_api::unix::{self, SocketError};
use runtime::system::Address;
use runtime::{Protocol, Server, System, reached};
use tokio::sync::{Mutex as AsyncMutex, Notify, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::service::Routes;

pub use self::config::KubeletConfig;
pub use self::container_runtime::{
    ContainerEnd, ContainerRun, ContainerRuntime, ContainerStart, RecordingRuntime,
};
pub use self::device_manager::assignments::Assignment;
pub use self::device_manager::plugins::STOP_GRACE;
pub use self::device_mount::DeviceMount;
pub use self::error::KubeletError;
pub use self::free_choices::FreeChoices;
pub use self::plugin_call::PluginCall;

use self::device_manager::checkpoint::Checkpoint;
use self::device_manager::devices::Devices;
use self::device_manager::{podresources, registration};
use self::files::StateFile;
use self::free_choices::Chooser;
use self::pods::containers::Containers;
use self::pods::table::PodTable;
use self::shared::{Shared, locked};
use crate::api::ApiServer;
use crate::api_client::limited;

/// How long a stopping kubelet waits for calls that are open on its sockets.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// A running kubelet. Dropping it stops it as well, without waiting.
pub struct Kubelet {
    shared: Arc<Shared>,
}

impl Kubelet {
    /// Starts the kubelet of one node on `system`, which is the node's: its files and sockets are there. `client` is its way
    /// to the API server `api`. Returns when the pods that were bound before are admitted or rejected and `kubelet.sock` is
    /// there for plugins to register.
    ///
    /// # Errors
    /// A socket path is too long, the folder cannot be used, or the API server refuses the Node.
    pub async fn start(
        system: &System,
        client: kube::Client,
        api: &ApiServer,
        config: KubeletConfig,
        runtime: Arc<dyn ContainerRuntime>,
    ) -> Result<Kubelet, KubeletError> {
        let node = config.node.clone();
        let socket_error = |source| KubeletError::Socket { node: node.clone(), source };
        unix::check_path(&config.registration_socket()).map_err(socket_error)?;
        unix::check_path(&config.podresources_socket()).map_err(socket_error)?;
        let shared = Arc::new(open(system, client, api, config, runtime).await?);
        let kubelet = Kubelet { shared: Arc::clone(&shared) };
        // What ended while no kubelet ran is told before anything is started.
        if pods::ends::tell(&shared) {
            reached("cluster: a container ended while no kubelet ran");
        }
        shared.spawn(pods::ends::run(Arc::clone(&shared)));
        shared.runtime.assigned(locked(&shared.devices).assignments.all());

        let resources = PodResourcesListerServer::new(podresources::Lister(Arc::clone(&shared)));
        serve(&shared, shared.config.podresources_socket(), Routes::new(resources)).map_err(socket_error)?;
        if api.version().behaviour().pods_api {
            let pods = PodsServer::new(pods_api::PodsApi(Arc::clone(&shared)));
            serve(&shared, shared.config.pods_socket(), Routes::new(pods)).map_err(socket_error)?;
        }
        node_status::register(&shared)
            .await
            .map_err(|source| KubeletError::Node { node: node.clone(), source: Box::new(source) })?;
        shared.spawn(node_status::run(Arc::clone(&shared)));
        if shared.config.heartbeats {
            shared.spawn(lease::run(Arc::clone(&shared)));
        }

        let (done, listed) = oneshot::channel();
        shared.spawn(pods::watch::run(Arc::clone(&shared), done));
        listed.await.map_err(|_| KubeletError::Pods { node: node.clone() })?;

        let registration = RegistrationServer::new(registration::Registrar(Arc::clone(&shared)));
        serve(&shared, shared.config.registration_socket(), Routes::new(registration))
            .map_err(socket_error)?;
        Ok(kubelet)
    }

    /// Stops the kubelet. Containers keep running; `kubelet.sock` stays behind, as after a crash.
    pub async fn stop(self) {
        self.shared.stopping.cancel();
        self.shared.tasks.close();
        if tokio::time::timeout(STOP_TIMEOUT, self.shared.tasks.wait()).await.is_err() {
            tracing::warn!(node = self.shared.config.node, "kubelet stopped with calls still open");
        }
    }

    /// The settings it was started with; give them to the next start.
    pub fn config(&self) -> &KubeletConfig {
        &self.shared.config
    }

    /// Which ids each container has, as the checkpoint has it: ids of a pod that has ended are freed at the next admission.
    pub fn assignments(&self) -> Vec<Assignment> {
        locked(&self.shared.devices).assignments.all().to_vec()
    }

    /// Why the kubelet has stopped by itself, if a plugin did what makes a real one panic.
    pub fn panic_reason(&self) -> Option<String> {
        locked(&self.shared.panic_reason).clone()
    }

    /// Comes when the kubelet stops by itself, with why: as [`Kubelet::panic_reason`].
    pub fn panicked(&self) -> impl Future<Output = String> + Send + use<> {
        let shared = Arc::clone(&self.shared);
        async move {
            shared.stopping.cancelled().await;
            let reason = locked(&shared.panic_reason).clone();
            match reason {
                Some(reason) => reason,
                // It was stopped.
                None => std::future::pending().await,
            }
        }
    }

    /// Injects a fault: with `true` a plugin that registers is accepted but its list is not read, until called with `false`.
    pub fn hold_device_lists(&self, hold: bool) {
        self.shared.hold_lists.send_replace(hold);
    }

    /// Injects a fault: ends the streams of every plugin, as where kubelet drops a plugin for another's end (up to 1.36). It
    /// stays as it is; a plugin that does not notice is not used any more.
    pub fn drop_plugins(&self) {
        let dropped = locked(&self.shared.devices).plugins.drop_all(self.shared.clock.now());
        if dropped {
            self.shared.devices_changed.notify_one();
        }
    }

    /// Injects a fault: with `true` plugins are asked which ids they prefer, and given others where there are any, as by a
    /// topology manager with another view; until called with `false`.
    pub fn ignore_preferences(&self, ignore: bool) {
        self.shared.ignores_preferences.store(ignore, Ordering::SeqCst);
    }

    /// Injects a fault: kills a container that runs, which then restarts as its pod says. Whether it ran.
    pub async fn kill_container(&self, pod_uid: &str, container: &str) -> bool {
        let killed = locked(&self.shared.containers).kill(pod_uid, container, self.shared.clock.now());
        pods::ends::tell(&self.shared);
        self.shared.container_killed.notify_waiters();
        self.shared.save_containers().await;
        killed
    }

    /// How many registered plugins have a list that [`Self::hold_device_lists`] keeps from being read.
    pub fn held_device_lists(&self) -> usize {
        self.shared.held_lists.load(Ordering::SeqCst)
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.shared.stopping.cancel();
    }
}

/// Reads what the kubelet before has left and removes its sockets.
async fn open(
    system: &System,
    client: kube::Client,
    api: &ApiServer,
    config: KubeletConfig,
    runtime: Arc<dyn ContainerRuntime>,
) -> Result<Shared, KubeletError> {
    let folder_error = |path: &Path| {
        let (node, path) = (config.node.clone(), path.to_owned());
        move |source| KubeletError::Folder { node, path, source }
    };
    for socket in [config.registration_socket(), config.podresources_socket(), config.pods_socket()] {
        if let Some(folder) = socket.parent() {
            system.create_folder(folder).await.map_err(folder_error(folder))?;
            registration::remove_sockets(system, folder).await.map_err(folder_error(folder))?;
        }
    }
    let now = api.clock().now();
    let checkpoint_file = StateFile::new(config.checkpoint_file());
    let restored = restored(system, &checkpoint_file, now).await;
    let (had_checkpoint, mut devices) = (restored.is_some(), restored.unwrap_or_default());
    devices.plugins.by_path = api.version().behaviour().plugins_by_path;
    let containers_file = StateFile::new(config.containers_file());
    let containers: Option<Containers> =
        containers_file.read(system).await.map_err(folder_error(containers_file.path()))?;
    let containers = containers.unwrap_or_default();
    Ok(Shared {
        system: system.clone(),
        api: api.clone(),
        client: limited(client),
        clock: api.clock().clone(),
        started: now,
        runtime,
        chooser: Mutex::new(Chooser::new(config.free_choices, &config.node)),
        devices: Mutex::new(devices),
        had_checkpoint,
        pods: Mutex::new(PodTable::new(containers.running(now).map(name_of).collect())),
        containers: Mutex::new(containers),
        containers_changed: Notify::new(),
        ends_unsaved: AtomicBool::new(false),
        checkpoint_file,
        containers_file,
        reported_allocatable: Mutex::new(BTreeMap::new()),
        devices_changed: Notify::new(),
        panic_reason: Mutex::new(None),
        hold_lists: watch::Sender::new(false),
        held_lists: AtomicUsize::new(0),
        ignores_preferences: AtomicBool::new(false),
        hand_down: AsyncMutex::default(),
        container_killed: Notify::new(),
        stopping: CancellationToken::new(),
        tasks: TaskTracker::new(),
        config,
    })
}

/// What the checkpoint has, if there is one. With one that cannot be read, kubelet goes on with empty books.
async fn restored(system: &System, checkpoint: &StateFile, now: Timestamp) -> Option<Devices> {
    let saved = checkpoint.read::<Checkpoint>(system).await;
    match saved.and_then(|saved| saved.map(|saved| saved.restore(now)).transpose()) {
        Ok(Some(devices)) => {
            reached("cluster: a checkpoint was restored");
            Some(devices)
        }
        Ok(None) => None,
        Err(error) => {
            reached("cluster: a checkpoint could not be read");
            let path = checkpoint.path().display();
            tracing::warn!(%path, %error, "kubelet goes on without its checkpoint");
            Some(Devices::default())
        }
    }
}

/// UID of its pod and its name.
fn name_of(container: &ContainerStart) -> (String, String) {
    (container.pod_uid.clone(), container.container.clone())
}

/// Serves gRPC on `socket` until the kubelet stops.
fn serve(shared: &Arc<Shared>, socket: PathBuf, services: Routes) -> Result<(), SocketError> {
    let listener = shared.system.listen(&Address::Unix(socket.clone()));
    let listener = listener.map_err(|source| SocketError::Listen { path: socket, source })?;
    let routes = services.prepare().into_axum_router();
    let server = Server::new(shared.system.clone(), Protocol::Http2, routes, STOP_TIMEOUT);
    shared.spawn(server.run(listener, shared.stopping.clone()));
    Ok(())
}
