//! Kubernetes clusters on [kind](https://kind.sigs.k8s.io) for tests of whatever runs on nodes: made, broken, looked into
//! and removed without a trace.
//!
//! ```no_run
//! use kind_driver::{Cluster, Options, Owner, unless_ended};
//!
//! # async fn test() -> anyhow::Result<()> {
//! let owner = Owner::new("my-tests");
//! unless_ended(async {
//!     let cluster = Cluster::up(owner, &Options { workers: 1, ..Options::new("demo") }).await?;
//!     cluster.kubectl(&["apply", "-f", "-"], "apiVersion: v1\nkind: Namespace\nmetadata: {name: demo}").await?;
//!     cluster.stop_kubelet(&cluster.workers()[0]).await?;
//!     // Dropped, by an error or a signal too, the cluster is gone.
//!     Ok(())
//! })
//! .await
//! # }
//! ```
//!
//! A [`Cluster`] is what tests work with. An [`Owner`] is the program whose clusters these are: folders on the host and in
//! nodes carry its name, by which a later run finds them. [`Pool`] is several clusters side by side, [`doctor`] says what
//! the machine lacks, [`images`] brings images into nodes, [`socket`] reaches sockets of a node from the host.
//!
//! The driver knows nothing of what is tested. It runs `docker`, `kind` and `kubectl` from the path, and reports its
//! progress on standard error.

mod cluster;
pub mod config;
pub mod doctor;
mod ending;
mod guard;
pub mod images;
pub mod network;
pub mod node_image;
mod options;
mod owner;
pub mod phases;
pub mod pod_resources;
mod pool;
pub mod program;
mod report;
pub mod socket;
pub mod status;

use std::time::Duration;

pub use cluster::evidence::{self, Evidence};
pub use cluster::node;
pub use cluster::{Cluster, ControlPlanePart, DaemonSetSwitch, PortForward};
pub use ending::{signalled, unless_ended, with_nothing_left};
pub use options::{Mount, Options};
pub use owner::{Owner, is_there};
pub use pool::Pool;
use testkit_support::Wait;

/// How long one part of a cluster may take to do what it is waited for.
pub const WAIT: Wait = Wait { timeout: Duration::from_secs(120), poll: Duration::from_millis(150) };
