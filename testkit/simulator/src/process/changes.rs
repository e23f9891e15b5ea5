//! What processes have started and ended since the executor looked last.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;

use super::state::ProcessState;
use crate::ready::Ready;

/// A task that was started and is not known to the executor yet.
pub(crate) struct Spawned {
    pub(crate) id: u64,
    pub(crate) process: Arc<ProcessState>,
    pub(crate) future: BoxFuture<'static, ()>,
}

/// What the executor has yet to take over. Processes add to it.
#[derive(Default)]
pub(crate) struct Changes {
    /// The tasks that are ready to be polled.
    pub(crate) ready: Ready,
    tasks: AtomicU64,
    spawned: Mutex<Vec<Spawned>>,
    ended: Mutex<Vec<Arc<ProcessState>>>,
}

impl Changes {
    /// A process starts a task.
    pub(super) fn spawn(&self, process: Arc<ProcessState>, future: BoxFuture<'static, ()>) {
        // 0 is the main future.
        let id = self.tasks.fetch_add(1, Ordering::Relaxed) + 1;
        locked(&self.spawned).push(Spawned { id, process, future });
        self.ready.look();
    }

    /// A process has ended.
    pub(super) fn end(&self, process: Arc<ProcessState>) {
        locked(&self.ended).push(process);
        self.ready.look();
    }

    pub(crate) fn take_spawned(&self) -> Vec<Spawned> {
        std::mem::take(&mut locked(&self.spawned))
    }

    pub(crate) fn take_ended(&self) -> Vec<Arc<ProcessState>> {
        std::mem::take(&mut locked(&self.ended))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
