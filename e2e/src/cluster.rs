//! What the runner needs of a cluster. Each kind of cluster fulfils [`Cluster`] once; nothing above this trait knows
//! which one runs.

use std::future::Future;
use std::time::Duration;

use kube::Client;

use crate::scenario::{DeviceState, Part, Verb};

/// The image that scenario files name.
pub const WORKLOAD: &str = "neuron-workload";

/// A cluster that runs one scenario at a time, with the suite installed and every node's hardware faked.
///
/// Nodes are given by their place in the scenario, 0 for n1.
pub trait Cluster: Send + Sync {
    /// A client with an administrator's rights.
    fn client(&self) -> Client;

    /// The real names of the scenario's nodes, in scenario order.
    fn node_names(&self) -> &[String];

    /// The scheduler that pods must name to be placed by us.
    fn scheduler_name(&self) -> &str;

    /// Parts of scheduling reasons that only nodes outside the scenario give.
    fn outside_reasons(&self) -> &[&str];

    /// The image that the scenarios' `neuron-workload` stands for here.
    fn workload_image(&self) -> &str {
        WORKLOAD
    }

    /// Lets a little time pass while the runner waits for a condition.
    fn pass_time(&self) -> impl Future<Output = ()> + Send;

    /// How long a wait of the runner may take in all before it is a failure.
    fn patience(&self) -> Duration;

    /// Stops a part (on that node, if it is a part of nodes) and returns when it no longer runs.
    fn stop(&self, part: Part, node: usize) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Starts a part that was stopped and returns when it serves again.
    fn start(&self, part: Part, node: usize) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Puts a device of a node's fake hardware in another state.
    fn set_device(
        &self,
        node: usize,
        device: u8,
        state: DeviceState,
    ) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// From now on the scheduler's calls of this verb wait before they reach the extender.
    fn hold(&self, verb: Verb) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Whether a call of this verb waits now.
    fn is_held(&self, verb: Verb) -> bool;

    /// Lets the held calls go on, and later ones pass.
    fn release(&self, verb: Verb) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Takes everything down; nothing of ours stays behind.
    fn down(self) -> impl Future<Output = anyhow::Result<()>> + Send;
}
