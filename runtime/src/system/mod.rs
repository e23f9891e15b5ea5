//! The operating system as a program sees it: tasks, the wall clock, randomness, files and sockets.
//!
//! Programs get a [`System`] where they start and hand it on; nothing in them asks the operating system by another way, but
//! for tokio's own time, which a paused runtime replaces. [`System::real`] is this machine. A simulation brings a
//! [`Platform`] of its own, and what runs on it is the code that ships.

mod files;
mod handle;
mod platform;
#[allow(clippy::disallowed_methods, reason = "this is the machine that the others ask for")]
mod real;
mod sockets;
mod tasks;

pub use self::files::{DeviceNumber, FileKind, FileStatus, Files, FolderWatch, LockFile};
pub use self::handle::{FILE_TIMEOUT, System};
pub use self::platform::Platform;
pub use self::sockets::{Address, Connection, Io, Listener, Sockets};
pub use self::tasks::{Executor, Panics, Task, TaskEnded, TaskSet};
