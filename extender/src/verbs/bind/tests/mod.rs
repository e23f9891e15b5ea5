//! Binds against an API server in memory whose answers to the Binding a test can change.

#![allow(clippy::disallowed_methods, reason = "tests run on the machine as it is")]

mod leadership;
mod outcomes;
mod reservations;
mod searches;
mod which_pod;
mod world;
