//! What a run needs of a cluster. Each kind of cluster implements [`Cluster`] once; nothing above this trait knows
//! which one runs.

pub mod wait;

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use fake_neuron::fault::FaultSpec;
use jiff::Timestamp;
use kube::Client;

use crate::outcome::SchedulerTexts;
use crate::scenario::{DeviceState, Moment, Part};

/// The image that scenario files name.
pub const WORKLOAD: &str = "neuron-workload";

/// The namespace that scenarios live in.
pub const NAMESPACE: &str = "default";

/// A cluster that runs one scenario at a time, with the suite installed and every node's hardware faked.
///
/// Nodes are given by their place in the scenario, 0 for n1. An error of a method names the part and the node, and what
/// could not be done with it. A run is one task: nothing here has to be `Send`.
pub trait Cluster {
    /// A client with an administrator's rights.
    fn client(&self) -> Client;

    /// The real names of the scenario's nodes, in scenario order.
    fn node_names(&self) -> &[String];

    /// The `schedulerName` of pods that the suite's extender is to place.
    fn scheduler_name(&self) -> &str;

    /// Texts by which a reason in a FailedScheduling event is known to be of nodes outside the scenario.
    fn outside_reasons(&self) -> &[&str];

    /// Whether its scheduler's own texts are those of the embedded cluster.
    fn scheduler_texts(&self) -> SchedulerTexts {
        SchedulerTexts::Compared
    }

    /// The image that takes the place of [`WORKLOAD`] here.
    fn workload_image(&self) -> &str {
        WORKLOAD
    }

    /// Lets a little time pass between two looks at a condition.
    fn pass_time(&self) -> impl Future<Output = ()>;

    /// The time by the clock of its kubelets.
    fn now(&self) -> Timestamp;

    /// How long the wait for one condition may take, at the processors' full pace.
    fn timeout(&self) -> Duration;

    /// Stops a part (on that node, if it is a part of nodes) and returns when it no longer runs; where it is the extender that leads, once
    /// another one does and calls reach that.
    fn stop(&self, part: Part, node: usize) -> impl Future<Output = anyhow::Result<()>>;

    /// Starts a part that was stopped and returns when it serves again.
    fn start(&self, part: Part, node: usize) -> impl Future<Output = anyhow::Result<()>>;

    /// Puts a device of a node's fake hardware in another state.
    fn set_device(
        &self,
        node: usize,
        device: u8,
        state: DeviceState,
    ) -> impl Future<Output = anyhow::Result<()>>;

    /// Makes exactly these faults be in force on a node's fake hardware, all of which begin at once and last.
    fn set_faults(&self, node: usize, faults: &[FaultSpec]) -> impl Future<Output = anyhow::Result<()>>;

    /// What a node's fake hardware has written to its kernel log.
    fn kernel_log(&self, node: usize) -> impl Future<Output = anyhow::Result<String>>;

    /// What each process of the plugin of a node, or of the extender, shows at `/metrics`, by the process' name.
    fn metrics(
        &self,
        part: Part,
        node: usize,
    ) -> impl Future<Output = anyhow::Result<BTreeMap<String, String>>>;

    /// Restarts a part and returns when it serves again. Extender and plugin are killed, so that they cannot tidy up; where it is the
    /// extender that leads, once another one does.
    fn restart(&self, part: Part, node: usize) -> impl Future<Output = anyhow::Result<()>>;

    /// Kills a part as a system does that runs out of memory: what keeps it running starts it again, which is not waited for.
    fn kill(&self, part: Part, node: usize) -> impl Future<Output = anyhow::Result<()>>;

    /// Returns when a part that was killed serves again.
    fn serves(&self, part: Part, node: usize) -> impl Future<Output = anyhow::Result<()>>;

    /// Takes a node down with everything on it, brings it back and returns when its devices are allocatable again; with
    /// `hardware_anew` the files of its hardware are gone first.
    fn reboot(&self, node: usize, hardware_anew: bool) -> impl Future<Output = anyhow::Result<()>>;

    /// Restarts a node's plugin twice: the first one dies after kubelet has taken its registration and before kubelet
    /// reads its first list.
    fn restart_unlisted(&self, node: usize) -> impl Future<Output = anyhow::Result<()>>;

    /// Lets this much of the cluster's time pass. Nobody is asked anything meanwhile.
    fn advance_clock(&self, time: Duration) -> impl Future<Output = ()>;

    /// Makes the scheduler's calls wait at this moment from now on; of Bindings those of these pods.
    fn hold(&self, at: Moment, pods: &[String]) -> impl Future<Output = anyhow::Result<()>>;

    /// Whether a call waits there now.
    fn is_held(&self, at: Moment) -> bool;

    /// Lets the held calls go on, and later ones pass.
    fn release(&self, at: Moment) -> impl Future<Output = anyhow::Result<()>>;

    /// Takes everything down.
    ///
    /// # Errors
    /// Something of the suite or the scenario stays behind.
    fn down(self) -> impl Future<Output = anyhow::Result<()>>;
}
