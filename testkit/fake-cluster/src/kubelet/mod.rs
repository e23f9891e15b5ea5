//! A kubelet for tests: the device manager of kubelet 1.34 as docs/reference/kubernetes.md describes it, on real
//! sockets, with pods from the API server and containers from a [`ContainerRuntime`]. It knows nothing about any device.
//!
//! Start it with [`Kubelet::start`], talk to it through the API server and its sockets, and stop and start it at
//! will: containers and holdings live in its folder, as on a real node.

mod admission;
mod allocate;
mod checkpoint;
mod choice;
mod config;
mod containers;
mod devices;
mod endpoint;
mod files;
mod lifecycle;
mod pod_status;
mod pod_worker;
mod podresources;
mod pods;
mod registration;
mod reuse;
mod runtime;
mod shared;
mod status;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kubelet_api::deviceplugin::v1beta1::registration_server::RegistrationServer;
use kubelet_api::podresources::v1::pod_resources_lister_server::PodResourcesListerServer;
use kubelet_api::unix;
use tokio::sync::{Notify, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::Server;
use tonic::transport::server::Router;

pub use config::{Choice, KubeletConfig, KubeletError};
pub use devices::{Holding, STOP_GRACE};
pub use runtime::{ContainerRun, ContainerRuntime, ContainerStart, DeviceMount, LogSink};

use crate::clock::Clock;
use shared::{Shared, locked};

/// How long a stopping kubelet waits for calls that are open on its sockets.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// A running kubelet. Dropping it stops it as well, without waiting.
pub struct Kubelet {
    shared: Arc<Shared>,
}

impl Kubelet {
    /// Starts the kubelet of one node. Returns when the pods that were bound before are admitted or rejected and
    /// `kubelet.sock` is there for plugins to register.
    ///
    /// # Errors
    /// A socket path is too long, the folder cannot be used, or the API server refuses the Node.
    pub async fn start(
        client: kube::Client,
        clock: Clock,
        config: KubeletConfig,
        runtime: Arc<dyn ContainerRuntime>,
        logs: Arc<dyn LogSink>,
    ) -> Result<Kubelet, KubeletError> {
        let node = config.node.clone();
        let socket_error = |source| KubeletError::Socket { node: node.clone(), source };
        unix::check_path(&config.registration_socket()).map_err(socket_error)?;
        unix::check_path(&config.podresources_socket()).map_err(socket_error)?;
        let shared = Arc::new(open(client, clock, config, runtime, logs)?);
        let kubelet = Kubelet { shared: Arc::clone(&shared) };

        let resources = PodResourcesListerServer::new(podresources::Lister(Arc::clone(&shared)));
        serve(&shared, &shared.config.podresources_socket(), Server::builder().add_service(resources))
            .map_err(socket_error)?;
        status::register(&shared)
            .await
            .map_err(|source| KubeletError::Node { node: node.clone(), source: Box::new(source) })?;
        shared.tasks.spawn(status::run(Arc::clone(&shared)));

        let (done, listed) = oneshot::channel();
        shared.tasks.spawn(pods::run(Arc::clone(&shared), done));
        listed.await.map_err(|_| KubeletError::Pods { node: node.clone() })?;

        let registration = RegistrationServer::new(registration::Registrar(Arc::clone(&shared)));
        serve(&shared, &shared.config.registration_socket(), Server::builder().add_service(registration))
            .map_err(socket_error)?;
        Ok(kubelet)
    }

    /// Stops the kubelet. Containers keep running; `kubelet.sock` stays behind, as after a crash.
    pub async fn stop(self) {
        self.shared.stopping.cancel();
        self.shared.tasks.close();
        if tokio::time::timeout(STOP_LIMIT, self.shared.tasks.wait()).await.is_err() {
            tracing::warn!(node = self.shared.config.node, "kubelet stopped with calls still open");
        }
    }

    /// Who holds which ids, as the checkpoint has it: pods that ended stay until the next admission frees them.
    pub fn holdings(&self) -> Vec<Holding> {
        locked(&self.shared.books).holdings().to_vec()
    }

    /// Why the kubelet has died, if it did what makes a real one panic.
    pub fn fault(&self) -> Option<String> {
        locked(&self.shared.fault).clone()
    }

    /// With `true` kubelet takes registrations but waits before it reads a plugin's list, until called with `false`.
    pub fn hold_lists(&self, held: bool) {
        self.shared.lists_held.send_replace(held);
    }

    /// How many registered plugins have a list that kubelet waits to read.
    pub fn lists_held(&self) -> usize {
        self.shared.lists_waiting.load(Ordering::SeqCst)
    }

    /// The settings it was started with; give them to the next start.
    pub fn config(&self) -> &KubeletConfig {
        &self.shared.config
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.shared.stopping.cancel();
    }
}

/// Reads what the kubelet before left behind and clears the plugins' folder.
fn open(
    client: kube::Client,
    clock: Clock,
    config: KubeletConfig,
    runtime: Arc<dyn ContainerRuntime>,
    logs: Arc<dyn LogSink>,
) -> Result<Shared, KubeletError> {
    let folder_error = |path: &Path| {
        let (node, path) = (config.node.clone(), path.to_owned());
        move |source| KubeletError::Folder { node, path, source }
    };
    for socket in [config.registration_socket(), config.podresources_socket()] {
        if let Some(folder) = socket.parent() {
            std::fs::create_dir_all(folder).map_err(folder_error(folder))?;
            registration::remove_sockets(folder).map_err(folder_error(folder))?;
        }
    }
    let now = clock.now();
    let path = config.checkpoint_file();
    let books = checkpoint::load(&path, now).map_err(folder_error(&path))?;
    let path = config.containers_file();
    let containers = containers::Containers::open(path.clone()).map_err(folder_error(&path))?;
    Ok(Shared {
        chooser: Mutex::new(choice::Chooser::new(&config)),
        books: Mutex::new(books),
        pods: Mutex::new(pods::PodTable::new(containers.running(now))),
        containers: Mutex::new(containers),
        reported: Mutex::new(BTreeMap::new()),
        changed: Notify::new(),
        fault: Mutex::new(None),
        lists_held: watch::Sender::new(false),
        lists_waiting: AtomicUsize::new(0),
        stopping: CancellationToken::new(),
        tasks: TaskTracker::new(),
        config,
        client,
        clock,
        runtime,
        logs,
    })
}

/// Serves `router` on `socket` until the kubelet stops.
fn serve(shared: &Arc<Shared>, socket: &Path, router: Router) -> Result<(), unix::SocketError> {
    let incoming = unix::incoming(unix::listen(socket)?);
    let stopping = shared.stopping.clone();
    let path = socket.to_owned();
    shared.tasks.spawn(async move {
        let served = router.serve_with_incoming_shutdown(incoming, stopping.cancelled_owned()).await;
        if let Err(error) = served {
            tracing::error!(socket = %path.display(), %error, "kubelet's socket failed");
        }
    });
    Ok(())
}
