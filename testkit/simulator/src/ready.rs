//! Which tasks are ready to be polled. Wakers add to them, the executor takes them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

/// The tasks that are ready. Clones are the same ones.
#[derive(Clone, Default)]
pub(crate) struct Ready(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    tasks: Vec<u64>,
    /// Wakes the executor.
    executor: Option<Waker>,
    /// The executor is being polled and looks again by itself.
    polling: bool,
}

/// Wakes one task.
pub(crate) struct TaskWaker {
    id: u64,
    /// Whether it is among the ready ones already.
    queued: AtomicBool,
    ready: Ready,
}

impl Ready {
    /// The executor is being polled from now on.
    pub(crate) fn polling(&self, executor: &Waker) {
        let mut state = self.lock();
        state.polling = true;
        if state.executor.as_ref().is_none_or(|known| !known.will_wake(executor)) {
            state.executor = Some(executor.clone());
        }
    }

    /// The executor waits from now on.
    pub(crate) fn polled(&self) {
        self.lock().polling = false;
    }

    /// Has the executor look, as something was started or ended that it does not know yet.
    pub(crate) fn look(&self) {
        self.lock().wake_executor();
    }

    /// Adds a task that was taken and not polled.
    pub(crate) fn put_back(&self, task: u64) {
        self.lock().tasks.push(task);
    }

    /// Whether nothing is ready.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().tasks.is_empty()
    }

    /// Moves what is ready to `batch`, each task once.
    pub(crate) fn take(&self, batch: &mut Vec<u64>) {
        batch.append(&mut self.lock().tasks);
    }

    /// The waker of a task that is ready from the start.
    pub(crate) fn waker(&self, id: u64) -> Arc<TaskWaker> {
        self.put_back(id);
        Arc::new(TaskWaker { id, queued: AtomicBool::new(true), ready: self.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn wake_executor(&self) {
        if !self.polling
            && let Some(executor) = &self.executor
        {
            executor.wake_by_ref();
        }
    }
}

impl TaskWaker {
    /// The task is about to be polled: what wakes it from now on counts.
    pub(crate) fn poll_begins(&self) {
        self.queued.store(false, Ordering::Relaxed);
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            let mut state = self.ready.lock();
            state.tasks.push(self.id);
            state.wake_executor();
        }
    }
}
