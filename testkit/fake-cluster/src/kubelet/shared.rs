//! What the tasks of one kubelet share. Made by `Kubelet::start`; no lock is held across an await.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use runtime::{System, reached};
use tokio::sync::{Mutex as AsyncMutex, Notify, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::config::KubeletConfig;
use super::container_runtime::ContainerRuntime;
use super::device_manager::checkpoint;
use super::device_manager::devices::Devices;
use super::device_manager::hand_down::HandDown;
use super::files::StateFile;
use super::free_choices::Chooser;
use super::pods::containers::Containers;
use super::pods::table::PodTable;
use crate::api::ApiServer;
use crate::clock::Clock;

/// One kubelet's state.
pub(crate) struct Shared {
    pub(crate) system: System,
    pub(crate) config: KubeletConfig,
    pub(crate) api: ApiServer,
    pub(crate) client: kube::Client,
    pub(crate) clock: Clock,
    /// When the kubelet started, by the cluster's clock. It is ready since then.
    pub(crate) started: Timestamp,
    pub(crate) runtime: Arc<dyn ContainerRuntime>,
    pub(crate) chooser: Mutex<Chooser>,
    pub(crate) devices: Mutex<Devices>,
    /// Whether there was a checkpoint when it started, though perhaps one that cannot be read.
    pub(crate) had_checkpoint: bool,
    pub(crate) pods: Mutex<PodTable>,
    pub(crate) containers: Mutex<Containers>,
    /// Notified when a container was started, is to end or has ended.
    pub(crate) containers_changed: Notify,
    /// Whether it is not on disk yet that the end of a container was told.
    pub(crate) ends_unsaved: AtomicBool,
    pub(crate) checkpoint_file: StateFile,
    pub(crate) containers_file: StateFile,
    /// The Node's allocatable as the API server has it.
    pub(crate) reported_allocatable: Mutex<BTreeMap<String, Quantity>>,
    /// Notified when the Node's extended resources may have changed.
    pub(crate) devices_changed: Notify,
    /// Why the kubelet has panicked, if it has.
    pub(crate) panic_reason: Mutex<Option<String>>,
    /// Whether kubelet waits before it reads the lists of plugins that register.
    pub(crate) hold_lists: watch::Sender<bool>,
    /// How many lists wait to be read.
    pub(crate) held_lists: AtomicUsize,
    /// Whether ids are given that the plugin does not prefer.
    pub(crate) ignores_preferences: AtomicBool,
    /// What init containers hand down; locked while one container is given its ids.
    pub(crate) hand_down: AsyncMutex<HandDown>,
    /// Tells the workers of pods that a container was killed.
    pub(crate) container_killed: Notify,
    pub(crate) stopping: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

impl Shared {
    /// Frees the ids of pods that have ended. Does nothing before the first list of pods has been handled.
    pub(crate) fn free_inactive(&self) {
        let active = {
            let pods = locked(&self.pods);
            if !pods.listed {
                return;
            }
            pods.active_uids()
        };
        let mut devices = locked(&self.devices);
        if devices.assignments.free_inactive(&active) {
            self.runtime.assigned(devices.assignments.all());
        }
    }

    /// Stops everything, as a panic of the kubelet would.
    pub(crate) fn panic(&self, reason: String) {
        reached("cluster: kubelet panicked");
        tracing::error!(node = self.config.node, reason, "kubelet panics");
        locked(&self.panic_reason).get_or_insert(reason);
        self.stopping.cancel();
    }

    /// Starts a task, which [`Kubelet::stop`](super::Kubelet::stop) waits for.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.system.spawn(self.tasks.track_future(task)));
    }

    /// Writes the assignments to disk. What is written is taken before it is this write's turn: a newer state can be overwritten
    /// by an older one, as kubelet's can (docs/reference/kubernetes.md §7).
    ///
    /// # Errors
    /// The file cannot be written, which is also logged.
    pub(crate) async fn save_checkpoint(self: &Arc<Self>) -> io::Result<()> {
        let shared = Arc::clone(self);
        let (told, written) = oneshot::channel();
        let write = async move {
            let state = checkpoint::json(&locked(&shared.devices));
            tokio::task::yield_now().await;
            let written = shared.checkpoint_file.write(&shared.system, || state).await;
            shared.log_failure(&shared.checkpoint_file, &written);
            let _ = told.send(written);
        };
        self.finish(write).await;
        // Not told by a kubelet that is killed amid the write.
        written.await.unwrap_or(Ok(()))
    }

    /// Writes to disk which containers the node has.
    pub(crate) async fn save_containers(self: &Arc<Self>) {
        let shared = Arc::clone(self);
        let write = async move {
            let state = || locked(&shared.containers).json();
            let written = shared.containers_file.write(&shared.system, state).await;
            shared.log_failure(&shared.containers_file, &written);
        };
        self.finish(write).await;
    }

    fn log_failure(&self, file: &StateFile, written: &io::Result<()>) {
        if let Err(error) = written {
            tracing::error!(node = self.config.node, path = %file.path().display(), %error, "cannot write the file");
        }
    }

    /// Carries out `work`, to its end even if the caller is dropped: a kubelet that stops has written what it did. Where
    /// files answer at once nothing happens in between.
    async fn finish(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut work = Box::pin(work);
        if futures::poll!(&mut work).is_pending() {
            let _ = self.system.spawn(self.tasks.track_future(work)).await;
        }
    }
}

/// The lock, also after a task that held it has panicked, so that a test fails by what it sees.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
