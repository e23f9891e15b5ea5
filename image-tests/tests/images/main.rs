//! The images as Docker runs them; run `cargo xtask images` first. Without Docker, or where a test needs device nodes that may
//! not be made, it prints `skipped: why` and passes; NEURON_REQUIRE_DOCKER=1 makes that a failure.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failing test should say where")]

mod allocation;
mod docker;
mod planted;
mod programs;
