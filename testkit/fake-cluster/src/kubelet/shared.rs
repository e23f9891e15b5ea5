//! What the tasks of one kubelet share. Made by `Kubelet::start`; every lock is held for a moment, never across await.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::checkpoint;
use super::choice::Chooser;
use super::config::KubeletConfig;
use super::containers::Containers;
use super::devices::Books;
use super::pods::PodTable;
use super::runtime::{ContainerRuntime, LogSink};
use crate::clock::Clock;

/// One kubelet's state.
pub(crate) struct Shared {
    pub(crate) config: KubeletConfig,
    pub(crate) client: kube::Client,
    pub(crate) clock: Clock,
    pub(crate) runtime: Arc<dyn ContainerRuntime>,
    pub(crate) logs: Arc<dyn LogSink>,
    pub(crate) chooser: Mutex<Chooser>,
    pub(crate) books: Mutex<Books>,
    pub(crate) pods: Mutex<PodTable>,
    pub(crate) containers: Mutex<Containers>,
    /// Allocatable as the API server has it.
    pub(crate) reported: Mutex<BTreeMap<String, Quantity>>,
    /// The extended resources may have changed.
    pub(crate) changed: Notify,
    pub(crate) fault: Mutex<Option<String>>,
    /// Whether lists of plugins that register wait to be read, and how many wait.
    pub(crate) lists_held: watch::Sender<bool>,
    pub(crate) lists_waiting: AtomicUsize,
    pub(crate) stopping: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

impl Shared {
    /// What pods that have ended hold is free. Does nothing before the first list of pods.
    pub(crate) fn free_inactive(&self) {
        let active = {
            let pods = locked(&self.pods);
            if !pods.listed {
                return;
            }
            pods.active_uids()
        };
        locked(&self.books).free_inactive(&active);
    }

    /// Stops everything, as a panic of the kubelet would.
    pub(crate) fn panic(&self, fault: String) {
        tracing::error!(node = self.config.node, fault, "kubelet panics");
        locked(&self.fault).get_or_insert(fault);
        self.stopping.cancel();
    }

    /// Writes who holds what. A full disk must not stop the pods.
    pub(crate) fn save_checkpoint(&self) {
        let path = self.config.checkpoint_file();
        if let Err(error) = checkpoint::save(&path, &locked(&self.books)) {
            tracing::error!(path = %path.display(), %error, "cannot write the checkpoint");
        }
    }

    /// Ends at `instant` of the cluster's clock.
    pub(crate) async fn sleep_until(&self, instant: Timestamp) {
        loop {
            let before = self.clock.now();
            if before >= instant {
                return;
            }
            let sleep = self.clock.sleep(instant.duration_since(before).try_into().unwrap_or_default());
            // Somebody may have advanced the clock between reading it and starting to sleep.
            if self.clock.now() == before {
                sleep.await;
            }
        }
    }

    /// Like [`Shared::sleep_until`]; without an instant it never ends.
    pub(crate) async fn sleep_until_some(&self, instant: Option<Timestamp>) {
        match instant {
            Some(instant) => self.sleep_until(instant).await,
            None => std::future::pending().await,
        }
    }
}

/// The lock, also after a task that held it has panicked: tests then fail by what they see, not by poison.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
