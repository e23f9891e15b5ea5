//! Binds against an API server in memory whose answers to the Binding a test can change.

mod outcomes;
mod reservations;
mod which_pod;
mod world;
