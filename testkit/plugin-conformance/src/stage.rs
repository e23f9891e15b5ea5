//! Where cases are carried out: on a worker of a kind cluster, or on a node in this process. What a case asks of kubelet, of
//! containers or of the plugin's process comes through here. Called by `case_context` and `node_control`.

use std::time::Duration;

use jiff::Timestamp;
use kind_driver::WAIT;
use kind_driver::pod_resources::Assignments;
use serde_json::Value;
use testkit_support::Wait;

use super::case_context::STEADY;
use super::embedded::EmbeddedNode;
use super::faulty_plugin::{Fault, FaultyPlugin};
use super::instance::{ContainerOf, Instance, Signal};
use super::kind_stage::KindStage;
use super::plugin::{Description, Devices, Preparation, Report};

/// The node of the cases with what runs on it.
#[derive(Clone, Copy)]
pub(crate) enum Stage<'a> {
    /// A worker of kind.
    Kind(KindStage<'a>),
    /// A kubelet in this process, and the plugin as a process beside it.
    Embedded(&'a EmbeddedNode),
}

/// The same call on whichever it is.
macro_rules! on {
    ($self:ident, $stage:ident => $call:expr) => {
        match $self {
            Stage::Kind($stage) => $call,
            Stage::Embedded($stage) => $call,
        }
    };
}

impl<'a> Stage<'a> {
    /// What a case does that asks for kubelet's own part to be in its hands; none on kind, where it is a program of its own.
    pub(crate) fn embedded(self) -> Option<&'a EmbeddedNode> {
        match self {
            Stage::Kind(_) => None,
            Stage::Embedded(node) => Some(node),
        }
    }

    pub(crate) fn client(&self) -> kube::Client {
        on!(self, stage => stage.client())
    }

    /// The node's name.
    pub(crate) fn node(&self) -> &str {
        on!(self, stage => stage.node())
    }

    pub(crate) fn description(&self) -> &Description {
        on!(self, stage => stage.description())
    }

    /// How long the cases wait for what should come.
    pub(crate) fn wait(&self) -> Wait {
        match self {
            Stage::Kind(_) => WAIT,
            Stage::Embedded(node) => node.wait(),
        }
    }

    /// How long what must not change is looked at.
    pub(crate) fn steady(&self) -> Duration {
        match self {
            Stage::Kind(_) => STEADY,
            Stage::Embedded(node) => node.steady(),
        }
    }

    pub(crate) fn container(&self, ends_after: Option<Duration>) -> Value {
        on!(self, stage => stage.container(ends_after))
    }

    pub(crate) fn report(&self, log: &str) -> Option<Report> {
        on!(self, stage => stage.report(log))
    }

    /// Gives the node what the case needs, and lets the plugin run.
    pub(crate) async fn prepare(&self, devices: Devices) -> anyhow::Result<Preparation> {
        on!(self, stage => stage.prepare(devices).await)
    }

    /// Stops kubelet; containers go on.
    pub(crate) async fn stop_kubelet(&self) -> anyhow::Result<()> {
        on!(self, stage => stage.stop_kubelet().await)
    }

    /// Starts kubelet and waits until the node is ready. Since when.
    pub(crate) async fn start_kubelet(&self) -> anyhow::Result<Timestamp> {
        on!(self, stage => stage.start_kubelet().await)
    }

    /// Kills the container as by SIGKILL.
    pub(crate) async fn kill_container(&self, container: &ContainerOf<'_>) -> anyhow::Result<()> {
        on!(self, stage => stage.kill_container(container).await)
    }

    /// Whether the container is there still.
    pub(crate) async fn has_container(&self, container: &ContainerOf<'_>) -> anyhow::Result<bool> {
        on!(self, stage => stage.has_container(container).await)
    }

    /// Kills all containers of a node whose kubelet is away, but those of this plugin.
    pub(crate) async fn kill_containers(&self, except: Option<&Instance>) -> anyhow::Result<()> {
        on!(self, stage => stage.kill_containers(except).await)
    }

    /// Who has what of the resource, as kubelet's podresources says.
    pub(crate) async fn assignments(&self) -> anyhow::Result<Assignments> {
        on!(self, stage => stage.assignments().await)
    }

    /// Serves a plugin with a fault in the node.
    pub(crate) async fn faulty_plugin(&self, resource: String, fault: Fault) -> anyhow::Result<FaultyPlugin> {
        on!(self, stage => stage.faulty_plugin(resource, fault).await)
    }

    /// The plugins under test that are on the node.
    pub(crate) async fn plugins(&self) -> anyhow::Result<Vec<Instance>> {
        on!(self, stage => stage.plugins().await)
    }

    pub(crate) async fn signal_plugin(&self, plugin: &Instance, signal: Signal) -> anyhow::Result<()> {
        on!(self, stage => stage.signal_plugin(plugin, signal).await)
    }

    /// Ends the plugin so that another comes in its place, and waits until that runs. Since when it is not the old one.
    pub(crate) async fn replace_plugin(&self, before: &Instance) -> anyhow::Result<Option<Timestamp>> {
        on!(self, stage => stage.replace_plugin(before).await)
    }

    pub(crate) async fn stop_plugin(&self) -> anyhow::Result<()> {
        on!(self, stage => stage.stop_plugin().await)
    }

    pub(crate) async fn keep_plugin_away(&self) -> anyhow::Result<()> {
        on!(self, stage => stage.keep_plugin_away().await)
    }

    pub(crate) async fn start_plugin(&self) -> anyhow::Result<()> {
        on!(self, stage => stage.start_plugin().await)
    }

    pub(crate) async fn start_second_plugin(&self) -> anyhow::Result<()> {
        on!(self, stage => stage.start_second_plugin().await)
    }

    pub(crate) async fn remove_second_plugin(&self) -> anyhow::Result<()> {
        on!(self, stage => stage.remove_second_plugin().await)
    }

    pub(crate) async fn set_health(&self, device: u64, healthy: bool) -> anyhow::Result<()> {
        on!(self, stage => stage.set_health(device, healthy).await)
    }

    /// Lets so much time pass by kubelet's clock, where that is not the wall's.
    pub(crate) fn pass(&self, time: Duration) {
        if let Stage::Embedded(node) = self {
            node.pass(time);
        }
    }

    /// A case has failed: the plugin may be in any state. The error with what there is to see of it.
    pub(crate) async fn failed(&self, case: &str, error: anyhow::Error) -> anyhow::Error {
        on!(self, stage => stage.failed(case, error).await)
    }
}
