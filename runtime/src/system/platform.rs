//! What a [`super::System`] stands on.

use std::time::SystemTime;

use futures::future::BoxFuture;

use super::files::Files;
use super::sockets::Sockets;

/// What a [`super::System`] stands on: this machine, or a simulated one.
pub trait Platform: Send + Sync + 'static {
    /// Runs the task until it ends, whether or not anybody waits for it.
    fn spawn(&self, task: BoxFuture<'static, ()>);

    /// The wall clock, which may jump and may differ from other machines'. Waits go by tokio's time.
    fn now(&self) -> SystemTime;

    /// A random number that nobody can foresee.
    fn random(&self) -> u64;

    /// The machine's files.
    fn files(&self) -> &dyn Files;

    /// The machine's sockets.
    fn sockets(&self) -> &dyn Sockets;
}
