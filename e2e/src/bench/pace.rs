//! How fast the processors are during a run: a task does the same small piece of work over and over. Begun and ended by
//! `pods`.
//!
//! On shared hardware the same work takes up to twice the processor time from one run to the next, for neighbours that
//! use the same caches and the other half of each core are nowhere counted as time. Rates that are compared are then
//! taken for as much work as the processors get done meanwhile. What a variant itself takes of caches slows this task
//! too, so the report shows each variant's pace beside.

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};

/// How long the task rests between two pieces of work: so it takes some 2 % of a processor.
const REST: Duration = Duration::from_millis(10);
/// How many objects are read in a piece of work, which then is a fifth of a millisecond or so.
const OBJECTS: usize = 100;

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
            let text = text();
            let (mut spent, mut pieces) = (Duration::ZERO, 0);
            loop {
                let before = processor_time();
                // What everything here does for most of its time: read text, find memory for it and give it back.
                black_box(serde_json::from_str::<Value>(black_box(&text)).ok());
                spent += processor_time().saturating_sub(before);
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

/// That this thread has used so far.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// Something like a list of objects.
fn text() -> String {
    let object = |at: usize| {
        let name = format!("node-{at}");
        json!({"metadata": {"name": name, "labels": {"a": "b", "c": "d"}}, "spec": {"ids": [1, 2, 3, at]}})
    };
    Value::Array((0..OBJECTS).map(object).collect()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_piece_of_work_takes_time() {
        let pace = Pace::begin().end().await;
        assert!(pace.is_some_and(|pace| !pace.is_zero() && pace < Duration::from_secs(1)), "{pace:?}");
    }
}
