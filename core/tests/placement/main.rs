//! Placement through its public API: the worked examples, the refusals, and what init containers hand down.

#![allow(clippy::unwrap_used, reason = "a failing test should say where")]

mod examples;
mod hand_down;
mod oracle;
mod outcomes;
mod support;
