//! What the scheduler's tasks share. Made by `Scheduler::start`; the lock is never held across an await.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use runtime::System;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::cache::Cache;
use super::config::SchedulerConfig;
use super::extender::client::Extender;
use super::nominations::Nominations;
use super::queue::Queue;
use super::report::{Message, Report, Reports};
use crate::clock::Clock;
use crate::version::Behaviour;

/// One scheduler's state.
pub(crate) struct Shared {
    pub(crate) system: System,
    pub(crate) client: kube::Client,
    pub(crate) clock: Clock,
    pub(crate) behaviour: Behaviour,
    pub(crate) config: SchedulerConfig,
    pub(crate) extenders: Vec<Extender>,
    /// Resources that NodeResourcesFit leaves to extenders.
    pub(crate) ignored_resources: BTreeSet<String>,
    pub(crate) state: Mutex<State>,
    /// Notified after every change of the state that may give the scheduling loop work.
    pub(crate) changed: Notify,
    /// True once pods and nodes have been listed.
    pub(crate) synced: watch::Sender<bool>,
    pub(crate) reports: Reports,
    pub(crate) shutdown: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

/// The pods that wait, the pods that are placed, and those that nodes are kept for.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) queue: Queue,
    pub(crate) cache: Cache,
    pub(crate) nominations: Nominations,
}

impl Shared {
    /// Runs `task` until it ends or the scheduler stops.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let life = self.shutdown.clone().run_until_cancelled_owned(task);
        drop(self.system.spawn(self.tasks.track_future(life)));
    }

    /// Reads or changes the state; nothing may be awaited inside.
    pub(crate) fn with_state<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Leaves a report for the task that writes them.
    pub(crate) fn report(&self, report: Report) {
        self.send(Message::Write(report));
    }

    /// Says that a pod is gone, after what was reported of it.
    pub(crate) fn forget_reports(&self, pod_uid: String) {
        self.send(Message::Gone(pod_uid));
    }

    fn send(&self, message: Message) {
        // The receiver is gone only when the scheduler stops.
        let _ = self.reports.send(message);
    }
}
