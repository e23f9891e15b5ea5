//! What tests of Kubernetes programs wait by: for conditions, never for time; by which release they expect what; and what of their metrics
//! a snapshot can have.
//!
//! A timeout is meant for processors that have nothing else to do. Where they are slower, or others use them, it lasts
//! longer by as much ([`pace`]), so that a busy machine fails no test that an idle one passes. A thread that simulates says so
//! once ([`pace::ignore_on_this_thread`]).
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! use std::sync::atomic::{AtomicBool, Ordering};
//! static READY: AtomicBool = AtomicBool::new(false);
//! tokio::spawn(async { READY.store(true, Ordering::Relaxed) });
//! testkit_support::eventually("the task to be ready", async || READY.load(Ordering::Relaxed).then_some(())).await;
//! # }
//! ```

pub mod metrics;
pub mod pace;
mod release;
mod temporary;
mod wait;

pub use release::{Release, ReleaseError};
pub use temporary::short_folder;
pub use wait::{Wait, eventually, within};
