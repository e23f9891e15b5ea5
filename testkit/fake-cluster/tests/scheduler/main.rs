//! The scheduler seen from outside: an API server, extenders, and what a user reads.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test should say where")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "what a test does beside the cluster is on the real system"
)]

mod binding;
mod cluster;
mod extenders;
mod fake_extender;
mod in_process;
mod preemption;
mod retries;
mod texts;
