//! The scheduler seen from outside: an API server, extenders, and what a user reads.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test should say where")]

mod binding;
mod cluster;
mod extenders;
mod fake_extender;
mod in_process;
mod retries;
mod texts;
