//! The extender as kube-scheduler and users see it: over HTTP, beside the in-memory API server.

#![allow(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute; their helpers fail in the same way"
)]

mod bind;
mod claim;
mod concurrent;
mod events;
mod faults;
mod filter;
mod holders;
mod http_client;
mod logs;
mod start;
mod support;
mod tls;
mod wire;
