//! Answers another process' system calls. A [`Filter`] makes opens and ioctls of a process and its children wait for a supervisor,
//! which gets them from a [`Listener`] and answers each: a value, an error, a file, or that the kernel shall go on. Works for static
//! programs too, and needs no kernel module (Linux 5.14 or newer, x86-64 and aarch64).
//!
//! Called by fake-neuron's `ioctl`, which decides what the answers are. [`ask`] and [`reserve`] are the other end, for who wants to see
//! them.

mod arch;
mod call;
mod filter;
mod listener;
mod memory;
mod passing;
mod question;
mod spawn;

pub use call::{Call, StatForm};
pub use filter::{Filter, Stats, Watched};
pub use listener::{Event, Listener, Notification};
pub use memory::{may_read, read, read_path, write};
pub use passing::{receive, send};
pub use question::{Question, ask, reserve};
pub use spawn::spawn;
