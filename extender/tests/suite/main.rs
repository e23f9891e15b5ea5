//! The extender as kube-scheduler and users see it: over HTTP, beside the in-memory API server.

mod bind;
mod concurrent;
mod events;
mod faults;
mod filter;
mod holders;
mod start;
mod support;
mod wire;
