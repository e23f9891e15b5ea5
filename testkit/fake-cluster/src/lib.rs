//! An in-memory API server, kube-scheduler's side of the extender protocol and kubelet's device manager, for tests.

mod amounts;
pub mod api;
pub mod clock;
pub mod kubelet;
mod quantity;
pub mod scheduler;
