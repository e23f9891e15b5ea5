//! The images as Docker runs them: `cargo xtask images` first. Without Docker, or where device nodes are needed and
//! may not be made, the tests say so and pass; NEURON_REQUIRE_DOCKER=1 makes that a failure.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failing test should say where")]

mod allocation;
mod docker;
mod programs;
