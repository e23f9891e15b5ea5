//! How fast the processors are during a run: a task does the same small piece of work over and over. Begun and ended by
//! `pods`.
//!
//! Rates that are compared are then taken for as much work as the processors get done meanwhile. What a variant itself
//! takes of caches slows this task too, so the report shows each variant's pace beside.

use std::time::Duration;

use testkit_support::pace::piece_of_work;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};

/// How long the task rests between two pieces of work: so it takes some 2 % of a processor.
const REST: Duration = Duration::from_millis(10);

/// The task at work. Dropped, it stops soon.
#[derive(Debug)]
pub(super) struct Pace {
    stop: DropGuard,
    task: JoinHandle<Duration>,
}

impl Pace {
    /// Starts the task.
    pub(super) fn begin() -> Self {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            let (mut spent, mut pieces) = (Duration::ZERO, 0);
            loop {
                spent += piece_of_work();
                pieces += 1;
                tokio::select! {
                    () = stopped.cancelled() => return spent / pieces,
                    () = sleep(REST) => {}
                }
            }
        });
        Self { stop: stop.drop_guard(), task }
    }

    /// Stops the task: the processor time that a piece of work took on average. None if the task has broken.
    pub(super) async fn end(self) -> Option<Duration> {
        drop(self.stop);
        self.task.await.ok()
    }
}
