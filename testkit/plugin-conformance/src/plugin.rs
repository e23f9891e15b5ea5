//! The device plugin under test, as the cases know it. Written by whoever tests one.

use std::time::Duration;

use anyhow::bail;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value;

/// What there is to know of a plugin.
#[derive(Clone, Debug)]
pub struct Description {
    /// Namespace of its pods.
    pub namespace: String,
    /// Label selector of its pods, such as `name=my-plugin`. Something, such as a DaemonSet, makes those anew that are
    /// deleted.
    pub pods: String,
    /// The resource that the cases' pods ask for: one is one device.
    pub resource: String,
    /// What else the plugin advertises, with each device.
    pub with_each_device: Vec<WithEachDevice>,
    /// The scheduler that the cases' pods name; the default scheduler if not given.
    pub scheduler: Option<String>,
    /// How its devices come into containers.
    pub injection: Injection,
    /// Whether [`Plugin::set_health`] works. Cases that need it are not applicable without.
    pub sets_health: bool,
    /// Whether its containers say which ids they have ([`Report::ids`]). Where they cannot, kubelet's podresources is believed.
    pub reports_ids: bool,
    /// How long a node may be without devices while one of two of these plugins takes over from the other; zero where both
    /// advertise side by side. None where a node must not have two: the cases with two are not applicable then.
    pub takes_over_within: Option<Duration>,
}

/// A second resource that stands for the same hardware.
#[derive(Clone, Debug)]
pub struct WithEachDevice {
    /// The extended resource, such as `example.com/core`.
    pub resource: String,
    /// What one is called in sentences, in the plural.
    pub noun: String,
    /// How many of it a device has.
    pub count: u64,
}

/// How devices come into containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Injection {
    /// Device nodes, mounts or variables in the plugin's answer.
    DeviceNodes,
    /// CDI devices, which containerd knows from 1.7 on.
    Cdi,
}

/// How many devices a case needs on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Devices {
    /// One and no other.
    One,
    /// So many or more.
    AtLeast(u64),
}

/// A node on its way into a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// It has so many devices, and the plugin is on its way to advertise them.
    Ready(u64),
    /// It cannot have what the case needs, and why.
    NotPossible(String),
}

/// What a container says of its devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The ids of its devices as kubelet knows them, sorted.
    pub ids: Vec<String>,
    /// Everything it says, to be compared before and after a restart.
    pub text: String,
}

/// A plugin that can be handled. [`crate::DaemonSetPlugin`] is one for every plugin that a DaemonSet runs.
pub trait Plugin: Send + Sync {
    /// What there is to know of it.
    fn description(&self) -> &Description;

    /// The fields `image`, and `command` or `args`, of a container that prints what it has and then runs until it is
    /// stopped, or ends well after some time.
    fn container(&self, ends_after: Option<Duration>) -> Value;

    /// What such a container has printed; none while that is not all.
    fn report(&self, log: &str) -> Option<Report>;

    /// Gives the node the devices that a case needs and lets the plugin run on it. No pod has devices meanwhile.
    fn prepare<'a>(&'a self, node: &'a str, devices: Devices) -> BoxFuture<'a, anyhow::Result<Preparation>>;

    /// Takes the plugin off the node and waits until it has ended.
    fn stop<'a>(&'a self, node: &'a str) -> BoxFuture<'a, anyhow::Result<()>>;

    /// Has the API server delete the plugin's pod on a node whose kubelet is away, so that kubelet does not start it.
    fn keep_away<'a>(&'a self, node: &'a str) -> BoxFuture<'a, anyhow::Result<()>>;

    /// Lets the plugin run on the node, and need not wait for it.
    fn start<'a>(&'a self, node: &'a str) -> BoxFuture<'a, anyhow::Result<()>>;

    /// Makes a device of the node, by its place among them, unhealthy or healthy again.
    fn set_health<'a>(
        &'a self,
        node: &'a str,
        device: u64,
        _healthy: bool,
    ) -> BoxFuture<'a, anyhow::Result<()>> {
        async move { bail!("nothing is known that makes device {device} of {node} unhealthy") }.boxed()
    }

    /// A case has failed on this node: its devices may be in any state.
    fn failed_on<'a>(&'a self, _node: &'a str) -> BoxFuture<'a, ()> {
        async {}.boxed()
    }
}
