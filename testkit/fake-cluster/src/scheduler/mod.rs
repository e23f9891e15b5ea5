//! kube-scheduler 1.34's side of the extender protocol as a library for tests: watches pods and nodes, asks
//! the in-tree filters and the extenders, binds, and says what it did in kube-scheduler's own words. It knows
//! nothing of the resources it schedules but their names.

mod bind;
mod cache;
mod config;
mod cycle;
mod extender;
mod feed;
mod filters;
mod fit;
mod queue;
mod report;
mod run;
mod score;
mod verdict;
mod watch;
mod wire;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, mpsc, watch as latest};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::config::{ExtenderConfig, ManagedResource, SchedulerConfig};
use self::extender::Extender;
use self::report::Reports;
use crate::clock::Clock;

/// A running scheduler. Dropping it leaves it running; [`Scheduler::stop`] ends it. A restart is a new start.
pub struct Scheduler {
    shutdown: CancellationToken,
    tasks: TaskTracker,
}

/// What the scheduler's tasks share.
struct Shared {
    client: kube::Client,
    clock: Clock,
    config: SchedulerConfig,
    extenders: Vec<Extender>,
    ignored: BTreeSet<String>,
    state: Mutex<State>,
    /// Told after every change of the state that may give the scheduling loop work.
    changed: Notify,
    /// True once pods and nodes have been listed.
    synced: latest::Sender<bool>,
    reports: Reports,
    shutdown: CancellationToken,
    tasks: TaskTracker,
}

#[derive(Default)]
struct State {
    queue: queue::Queue,
    cache: cache::Cache,
}

impl Scheduler {
    /// Starts scheduling in the current tokio runtime: pods of `config.name` seen through `client`. Back-off
    /// and retries go by `clock`, time-outs of extenders by real time.
    pub fn start(client: kube::Client, clock: Clock, config: SchedulerConfig) -> Self {
        let shutdown = CancellationToken::new();
        let tasks = TaskTracker::new();
        let (reports, received) = mpsc::unbounded_channel();
        let writer = report::write(client.clone(), clock.clone(), config.name.clone(), received);
        let shared = Arc::new(Shared {
            extenders: config.extenders.iter().cloned().map(Extender::new).collect(),
            ignored: config.ignored_resources(),
            client,
            clock,
            config,
            state: Mutex::default(),
            changed: Notify::new(),
            synced: latest::Sender::new(false),
            reports,
            shutdown: shutdown.clone(),
            tasks: tasks.clone(),
        });
        shared.spawn(writer);
        shared.spawn(watch::run(shared.clone()));
        shared.spawn(run::run(shared.clone()));
        Self { shutdown, tasks }
    }

    /// Ends everything the scheduler does, open calls included, and returns when it has ended. Nothing is
    /// taken back: a bind that was under way may have happened.
    pub async fn stop(self) {
        self.shutdown.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Shared {
    /// Runs `task` until it ends or the scheduler stops.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let shutdown = self.shutdown.clone();
        self.tasks.spawn(async move {
            shutdown.run_until_cancelled_owned(task).await;
        });
    }

    /// Reads or changes the state; nothing may be awaited inside.
    fn with_state<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn report(&self, report: report::Report) {
        // The writer is gone only when the scheduler stops.
        let _ = self.reports.send(report);
    }
}
