//! The tasks that have not ended, with whom they belong to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures::future::BoxFuture;

use crate::process::ProcessState;
use crate::ready::TaskWaker;

/// The tasks, by number.
#[derive(Default)]
pub(super) struct Tasks(BTreeMap<u64, Task>);

struct Task {
    process: Arc<ProcessState>,
    future: BoxFuture<'static, ()>,
    wakes: Arc<TaskWaker>,
    waker: Waker,
}

impl Tasks {
    pub(super) fn insert(
        &mut self,
        id: u64,
        process: Arc<ProcessState>,
        future: BoxFuture<'static, ()>,
        wakes: Arc<TaskWaker>,
    ) {
        let waker = Arc::clone(&wakes).into();
        self.0.insert(id, Task { process, future, wakes, waker });
    }

    /// Whose task it is; none if it has ended.
    pub(super) fn process(&self, id: u64) -> Option<&Arc<ProcessState>> {
        self.0.get(&id).map(|task| &task.process)
    }

    /// Polls the task. One that ends is dropped at once.
    pub(super) fn poll(&mut self, id: u64) {
        let Some(task) = self.0.get_mut(&id) else { return };
        task.wakes.poll_begins();
        let polled = task.future.as_mut().poll(&mut Context::from_waker(&task.waker));
        if let Poll::Ready(()) = polled {
            self.0.remove(&id);
        }
    }

    /// Drops every task of the process, the one that was started last first, as nothing of it may run again.
    pub(super) fn drop_all_of(&mut self, process: &Arc<ProcessState>) {
        let whose = |task: &Task| Arc::ptr_eq(&task.process, process);
        let ids: Vec<u64> = self.0.iter().filter(|(_, task)| whose(task)).map(|(id, _)| *id).collect();
        for id in ids.into_iter().rev() {
            self.0.remove(&id);
        }
    }
}
