//! The fake kubelet against the behaviour of kubelet's device manager. Case names follow Kubernetes' own node
//! e2e tests where there is one (docs/reference/kubernetes.md §4, §6, §8).

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test should say where")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "what a test does beside the cluster is on the real system"
)]

mod admission;
mod api_server;
mod assignments;
mod checkpoint;
mod containers;
mod endings;
mod failures;
mod hand_down;
mod heartbeats;
mod observations;
mod test_node;
mod test_plugin;
mod two_plugins;
mod versions;
