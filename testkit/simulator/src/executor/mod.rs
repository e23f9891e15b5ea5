//! Polls the tasks of all processes, one at a time, in an order that the seed chooses.
//!
//! All tasks that are ready at one instant are a batch, which is put in order by the seed before it is polled; tasks that
//! become ready meanwhile are the next batch. In which order they were woken decides nothing, since libraries draw that from
//! generators that nobody can seed.

mod tasks;

use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

use self::tasks::Tasks;
use crate::process::{MayBePolled, Shared, Spawned};
use crate::random::Rng;
use crate::ready::TaskWaker;
use crate::watchdog::{MOST_AT_ONE_INSTANT, Watchdog};

/// How tasks that are ready at one instant are put in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The one that was started first is polled first.
    ByAge,
    /// The seed chooses, and may leave a task for the next batch.
    Seeded,
}

/// One time in so many a task is left for the next batch.
const LEFT_FOR_LATER: u8 = 8;

/// The number of the main future among the tasks.
const MAIN: u64 = 0;

thread_local! {
    /// The part whose task is being polled, as its place in the table of parts.
    static CURRENT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The part whose task is being polled on this thread.
pub(crate) fn current_part() -> Option<usize> {
    CURRENT.get()
}

/// Drives everything: the future that the simulation's thread runs. It ends when the main future does.
pub(crate) struct Executor<F: Future> {
    shared: Arc<Shared>,
    watchdog: Arc<Watchdog>,
    edge: libc_edge::Simulated,
    main: Pin<Box<F>>,
    main_wakes: Arc<TaskWaker>,
    main_waker: Waker,
    tasks: Tasks,
    order: Order,
    draws: Rng,
    began: Instant,
    batch: Vec<u64>,
    idle: Idle,
    instant: AtOneInstant,
}

/// Counts polls between which no time passes.
#[derive(Default)]
struct AtOneInstant {
    elapsed: Duration,
    polls: u64,
}

/// Finds out that nothing will ever happen again: then time jumps from one of its own alarms to the next.
struct Idle {
    alarm: Pin<Box<Sleep>>,
    /// Whether a task was polled since the last alarm.
    polled: bool,
}

/// Time between two alarms. Nobody waits so long for the next event of a world that goes on.
const ALARM: Duration = Duration::from_secs(400 * 24 * 3600);

impl<F: Future> Executor<F> {
    /// Made within the paused runtime.
    pub(crate) fn new(
        shared: Arc<Shared>,
        watchdog: Arc<Watchdog>,
        edge: libc_edge::Simulated,
        main: F,
        order: Order,
    ) -> Self {
        let main_wakes = shared.changes.ready.waker(MAIN);
        Self {
            watchdog,
            edge,
            main: Box::pin(main),
            main_waker: Arc::clone(&main_wakes).into(),
            main_wakes,
            tasks: Tasks::default(),
            order,
            draws: shared.stream("executor"),
            began: Instant::now(),
            batch: Vec::new(),
            idle: Idle { alarm: Box::pin(sleep(ALARM)), polled: false },
            instant: AtOneInstant::default(),
            shared,
        }
    }

    /// Takes what is ready, in the order in which it is to be polled.
    fn take_batch(&mut self) {
        self.batch.clear();
        self.shared.changes.ready.take(&mut self.batch);
        self.batch.sort_unstable();
        if self.order == Order::Seeded && self.batch.len() > 1 {
            let (draws, ready) = (&mut self.draws, &self.shared.changes.ready);
            draws.shuffle(&mut self.batch);
            self.batch.retain(|task| {
                let is_left = draws.u8(..LEFT_FOR_LATER) == 0;
                if is_left {
                    ready.put_back(*task);
                }
                !is_left
            });
        }
    }

    /// Takes over what was started and ended by the tasks themselves.
    fn take_changes(&mut self) {
        for Spawned { id, process, future } in self.shared.changes.take_spawned() {
            self.tasks.insert(id, process, future, self.shared.changes.ready.waker(id));
        }
        for process in self.shared.changes.take_ended() {
            self.tasks.drop_all_of(&process);
        }
    }

    fn poll_task(&mut self, id: u64, elapsed: Duration) {
        let Some(process) = self.tasks.process(id).cloned() else { return };
        match process.poll_begins(id) {
            MayBePolled::Yes => {}
            MayBePolled::NotNow => return,
            MayBePolled::Never => return self.take_changes(),
        }
        CURRENT.set(Some(process.part()));
        self.edge.set_clocks(process.wall(), elapsed);
        self.watchdog.poll_begins(process.part());
        self.tasks.poll(id);
        self.watchdog.poll_ends();
        CURRENT.set(None);
    }

    fn poll_main(&mut self, elapsed: Duration) -> Poll<F::Output> {
        self.edge.set_clocks(self.shared.clock.wall(0), elapsed);
        self.main_wakes.poll_begins();
        self.main.as_mut().poll(&mut Context::from_waker(&self.main_waker))
    }

    fn poll_batches(&mut self) -> Poll<F::Output> {
        loop {
            let elapsed = self.began.elapsed();
            self.shared.clock.set_elapsed(elapsed);
            self.take_changes();
            self.take_batch();
            if self.watchdog.has_given_up() || self.batch.is_empty() && self.shared.changes.ready.is_empty() {
                return Poll::Pending;
            }
            self.idle.polled = true;
            let batch = std::mem::take(&mut self.batch);
            if self.instant.elapsed != elapsed {
                self.instant = AtOneInstant { elapsed, polls: 0 };
            }
            self.instant.polls += batch.len() as u64;
            if self.instant.polls > MOST_AT_ONE_INSTANT {
                self.watchdog.time_stands_still(self.instant.polls);
            }
            for id in &batch {
                if *id != MAIN {
                    self.poll_task(*id, elapsed);
                } else if let Poll::Ready(done) = self.poll_main(elapsed) {
                    return Poll::Ready(done);
                }
            }
            self.batch = batch;
        }
    }
}

impl<F: Future> Future for Executor<F> {
    /// None if nothing will ever happen again, or nobody waits for it any more.
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<F::Output>> {
        self.shared.changes.ready.polling(context.waker());
        let polled = self.poll_batches();
        self.shared.changes.ready.polled();
        if self.watchdog.has_given_up() {
            return Poll::Ready(None);
        }
        if polled.is_pending() && self.idle.alarm.as_mut().poll(context).is_ready() {
            if !std::mem::take(&mut self.idle.polled) {
                return Poll::Ready(None);
            }
            self.idle.alarm.as_mut().reset(Instant::now() + ALARM);
            // Polled once, so that it wakes.
            let _ = self.idle.alarm.as_mut().poll(context);
        }
        polled.map(Some)
    }
}
