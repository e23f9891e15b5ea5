//! kube-scheduler's side of the extender protocol. It watches pods and nodes, asks the in-tree filters and the
//! extenders, binds, and writes events and conditions in kube-scheduler's own words. Of the resources it schedules it
//! knows only the names.
//!
//! `scheduling_loop` takes one pod after another from `queue`, lets `choose_node` decide and `bind` carry it out, or `preempt` make room;
//! `watch` keeps `queue` and `cache` in step with the API server.

mod bind;
mod cache;
mod choose_node;
mod cluster_event;
mod config;
mod extender;
mod known_objects;
mod nominations;
mod preempt;
mod priority;
mod queue;
mod report;
mod scheduling_loop;
mod shared;
mod watch;

use std::sync::{Arc, Mutex};

use runtime::System;
use tokio::sync::{Notify, mpsc, watch as latest};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::config::{ExtenderConfig, ExtenderServer, ManagedResource, SchedulerConfig};
use self::extender::client::Extender;
use self::shared::Shared;
use crate::api::ApiServer;
use crate::api_client::limited;

/// A running scheduler. Dropping it leaves it running; [`Scheduler::stop`] ends it. A restart is a new start.
pub struct Scheduler {
    shutdown: CancellationToken,
    tasks: TaskTracker,
}

impl Scheduler {
    /// Schedules pods of `config.name` on `system`. `client` is its way to the API server `api`. Back-off and retries go by
    /// the API server's clock, timeouts of extenders by tokio's time.
    pub fn start(system: &System, client: kube::Client, api: &ApiServer, config: SchedulerConfig) -> Self {
        let (client, clock) = (limited(client), api.clock().clone());
        let shutdown = CancellationToken::new();
        let tasks = TaskTracker::new();
        let (reports, received) = mpsc::unbounded_channel();
        let writer = report::write(client.clone(), clock.clone(), config.name.clone(), received);
        let shared = Arc::new(Shared {
            system: system.clone(),
            extenders: config.extenders.iter().map(|extender| Extender::new(system, extender)).collect(),
            ignored_resources: config.ignored_resources(),
            client,
            clock,
            behaviour: api.version().behaviour(),
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
        shared.spawn(scheduling_loop::run(shared.clone()));
        Self { shutdown, tasks }
    }

    /// Ends everything the scheduler does, open calls included, and returns when it has ended. Nothing is taken back: a
    /// bind that was under way may have happened.
    pub async fn stop(self) {
        self.shutdown.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}
