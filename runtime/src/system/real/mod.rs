//! This machine: tasks of the current tokio runtime, the kernel's clock, files and sockets.

mod files;
mod looks;
mod sockets;

use std::hash::{BuildHasher as _, RandomState};
use std::time::SystemTime;

use futures::future::BoxFuture;

use self::files::Disk;
use self::sockets::Kernel;
use super::files::Files;
use super::platform::Platform;
use super::sockets::Sockets;

/// The machine that this process runs on.
pub(super) struct Machine {
    disk: Disk,
    kernel: Kernel,
}

impl Machine {
    pub(super) fn new() -> Self {
        Self { disk: Disk::default(), kernel: Kernel }
    }
}

impl Platform for Machine {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        tokio::spawn(task);
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn random(&self) -> u64 {
        // Its keys come from the kernel, another pair each time.
        RandomState::new().hash_one(())
    }

    fn files(&self) -> &dyn Files {
        &self.disk
    }

    fn sockets(&self) -> &dyn Sockets {
        &self.kernel
    }
}
