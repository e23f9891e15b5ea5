//! The suite on kind: a real control plane and real kubelets, with the suite installed as its pods from `deploy/`. One
//! cluster serves many scenarios, each on a stage; [`session`] runs them. Clusters themselves are `kind_driver`'s.

pub mod cluster;
pub mod fuzz;
pub mod images;
pub mod needs;
pub mod session;
mod stage;
pub mod standing;
pub mod updates;

use kind_driver::Owner;

pub use cluster::KindCluster;
pub(crate) use cluster::install::SYSTEM;
pub(crate) use cluster::plugin::PLUGIN_PODS;
pub use cluster::scheduling::Scheduling;
pub use images::{ImageSource, WORKLOAD};

/// What every path of the suite's clusters carries.
pub const OWNER: Owner = Owner::new("neuron-e2e");

/// How a cluster with the suite is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// The cluster's name; an earlier one of that name is replaced, or used again with `keep`.
    pub name: String,
    /// Number of workers, 1 to 3 for scenarios.
    pub workers: usize,
    /// Leave the cluster running.
    pub keep: bool,
    /// Node image; the newest that is tested with if not given.
    pub node_image: Option<String>,
    /// Where the suite's images come from.
    pub images: ImageSource,
    /// Feature gates of Kubernetes that are on beside its own choice.
    pub feature_gates: Vec<String>,
}
