//! Tasks and how they end, the same on every platform. Made by [`super::handle::System::spawn`].

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::future::{AbortHandle, BoxFuture, abortable};
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use tokio::sync::{oneshot, watch};

use super::handle::System;

/// A task that was started; waiting for it gives what it returned. It goes on when this is dropped.
#[derive(Debug)]
pub struct Task<T> {
    ended: oneshot::Receiver<Result<T, TaskEnded>>,
    abort: AbortHandle,
}

/// Why a task returned nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TaskEnded {
    /// It was told to end.
    #[error("the task was ended")]
    Aborted,
    /// It panicked.
    #[error("the task panicked: {0}")]
    Panicked(String),
}

/// Tells of the first panic among the tasks of a [`System`], whoever waits for them. Clones tell of the same.
#[derive(Clone, Debug, Default)]
pub struct Panics {
    first: Arc<watch::Sender<Option<String>>>,
}

impl Panics {
    /// The first panic, as soon as there is one.
    pub async fn first(&self) -> TaskEnded {
        let mut first = self.first.subscribe();
        let panicked = first.wait_for(Option::is_some).await;
        // The sender is this one's own.
        TaskEnded::Panicked(panicked.ok().and_then(|message| message.clone()).unwrap_or_default())
    }

    /// The first panic so far.
    pub fn so_far(&self) -> Option<TaskEnded> {
        self.first.borrow().clone().map(TaskEnded::Panicked)
    }

    fn tell(&self, message: &str) {
        self.first.send_if_modified(|first| {
            let is_first = first.is_none();
            if is_first {
                *first = Some(message.to_owned());
            }
            is_first
        });
    }
}

/// The task's handle, and what a platform has to run. A panic is told to `panics`, too.
pub(super) fn task<F>(future: F, panics: Option<Panics>) -> (Task<F::Output>, BoxFuture<'static, ()>)
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let (report, ended) = oneshot::channel();
    // Boxed first: a future may have many kilobytes, and would be copied into each that has it.
    let (body, abort) = abortable(AssertUnwindSafe(future.boxed()).catch_unwind());
    let body = async move {
        let result = match body.await {
            Ok(Ok(output)) => Ok(output),
            Ok(Err(panic)) => {
                let message = message(panic.as_ref());
                tracing::error!(reason = message, "a task panicked");
                if let Some(panics) = panics {
                    panics.tell(&message);
                }
                Err(TaskEnded::Panicked(message))
            }
            Err(_) => Err(TaskEnded::Aborted),
        };
        // Nobody has to wait for it.
        let _ = report.send(result);
    };
    (Task { ended, abort }, body.boxed())
}

/// The text of a panic; panics with something else than a text have none.
fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no text".to_owned())
}

impl<T> Task<T> {
    /// Ends it where it waits next.
    pub fn abort(&self) {
        self.abort.abort();
    }

    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        // The sender sends or is dropped when the task ends.
        !self.ended.is_empty() || self.ended.is_terminated()
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, TaskEnded>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // A platform that is gone has ended its tasks.
        Poll::Ready(ready!(self.ended.poll_unpin(context)).unwrap_or(Err(TaskEnded::Aborted)))
    }
}

/// Tasks that belong together. Dropping the set ends them.
#[derive(Debug)]
pub struct TaskSet<T> {
    system: System,
    tasks: FuturesUnordered<Task<T>>,
}

impl<T: Send + 'static> TaskSet<T> {
    /// No tasks yet.
    pub fn new(system: System) -> Self {
        Self { system, tasks: FuturesUnordered::new() }
    }

    /// Starts a task.
    pub fn spawn(&mut self, future: impl Future<Output = T> + Send + 'static) {
        self.tasks.push(self.system.spawn(future));
    }

    /// How the next one of them ended; none if there are none left.
    pub async fn join_next(&mut self) -> Option<Result<T, TaskEnded>> {
        self.tasks.next().await
    }
}

impl<T> Drop for TaskSet<T> {
    fn drop(&mut self) {
        self.tasks.iter().for_each(Task::abort);
    }
}

/// Starts the tasks of libraries that ask for an executor of hyper's kind.
#[derive(Clone, Debug)]
pub struct Executor {
    system: System,
}

impl Executor {
    pub(super) fn new(system: System) -> Self {
        Self { system }
    }
}

impl<F> hyper::rt::Executor<F> for Executor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        drop(self.system.spawn(future));
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test]
    async fn a_task_gives_what_it_returned_or_why_it_did_not() {
        let system = System::real();
        assert_eq!(system.spawn(async { 7 }).await, Ok(7));
        let panicked = system.spawn(async { panic!("it broke") }).await;
        assert_eq!(panicked, Err::<(), _>(TaskEnded::Panicked("it broke".to_owned())));
        let endless = system.spawn(pending::<()>());
        assert!(!endless.is_finished());
        endless.abort();
        assert_eq!(endless.await, Err(TaskEnded::Aborted));
    }

    #[tokio::test]
    async fn a_task_is_finished_before_and_after_anybody_has_waited_for_it() {
        let mut task = System::real().spawn(async {});
        while !task.is_finished() {
            tokio::task::yield_now().await;
        }
        assert_eq!((&mut task).await, Ok(()));
        assert!(task.is_finished());
    }

    #[tokio::test]
    async fn the_first_panic_of_a_task_that_nobody_waits_for_is_told_a_librarys_too() {
        let (system, panics) = System::real().telling_panics();
        assert_eq!(system.spawn(async { 7 }).await, Ok(7));
        system.spawn(pending::<()>()).abort();
        assert_eq!(panics.so_far(), None);
        hyper::rt::Executor::execute(&system.clone().executor(), async { panic!("a call broke") });
        assert_eq!(panics.first().await, TaskEnded::Panicked("a call broke".to_owned()));
        let again = system.spawn(async { panic!("it broke, too") }).await;
        assert_eq!(again, Err::<(), _>(TaskEnded::Panicked("it broke, too".to_owned())));
        assert_eq!(panics.so_far(), Some(TaskEnded::Panicked("a call broke".to_owned())));
    }

    #[tokio::test]
    async fn a_set_ends_its_tasks_when_it_is_dropped() {
        let (hold, held) = oneshot::channel::<()>();
        let mut tasks = TaskSet::new(System::real());
        tasks.spawn(async move {
            let _hold = hold;
            pending::<()>().await;
        });
        drop(tasks);
        held.await.unwrap_err();
    }
}
