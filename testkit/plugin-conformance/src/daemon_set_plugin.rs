//! A plugin that a DaemonSet runs on real or always equal hardware: all that the cases need but unhealthy devices.

use std::time::Duration;

use anyhow::Context as _;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kind_driver::{Cluster, DaemonSetSwitch};
use serde_json::Value;

use crate::plugin::{Description, Devices, Plugin, Preparation, Report};

/// Node label that keeps the plugin under test away.
const LABEL: &str = "plugin-conformance/plugin";

/// What reads a container's report.
type Read = dyn Fn(&str) -> Option<Report> + Send + Sync;

/// A plugin that a DaemonSet runs.
pub struct DaemonSetPlugin<'c> {
    cluster: &'c Cluster,
    description: Description,
    switch: DaemonSetSwitch,
    /// How many devices it advertises on each node.
    devices: u64,
    container: Box<dyn Fn(Option<Duration>) -> Value + Send + Sync>,
    report: Box<Read>,
}

impl<'c> DaemonSetPlugin<'c> {
    /// Applies the manifests, which have a DaemonSet of this name in the description's namespace, and describes the plugin:
    /// how many devices it has on each node, the container that reports its devices ([`Plugin::container`]), and how to
    /// read that ([`Plugin::report`]).
    ///
    /// # Errors
    /// kubectl does not take the manifests, or they have no such DaemonSet.
    pub async fn install(
        cluster: &'c Cluster,
        manifests: &str,
        daemon_set: &str,
        description: Description,
        devices: u64,
        container: impl Fn(Option<Duration>) -> Value + Send + Sync + 'static,
        report: impl Fn(&str) -> Option<Report> + Send + Sync + 'static,
    ) -> anyhow::Result<Self> {
        cluster.workers_have_joined().await?;
        cluster.kubectl(&["apply", "-f", "-"], manifests).await.context("installing the plugin")?;
        let switch = DaemonSetSwitch {
            namespace: description.namespace.clone(),
            daemon_set: daemon_set.to_owned(),
            pods: description.pods.clone(),
            label: LABEL.to_owned(),
        };
        switch.install(cluster).await?;
        let (container, report) = (Box::new(container), Box::new(report));
        Ok(Self { cluster, description, switch, devices, container, report })
    }
}

impl Plugin for DaemonSetPlugin<'_> {
    fn description(&self) -> &Description {
        &self.description
    }

    fn container(&self, ends_after: Option<Duration>) -> Value {
        (self.container)(ends_after)
    }

    fn report(&self, log: &str) -> Option<Report> {
        (self.report)(log)
    }

    fn prepare<'a>(&'a self, node: &'a str, devices: Devices) -> BoxFuture<'a, anyhow::Result<Preparation>> {
        async move {
            self.switch.switch_on(self.cluster, node).await?;
            Ok(preparation(self.devices, devices))
        }
        .boxed()
    }

    fn stop<'a>(&'a self, node: &'a str) -> BoxFuture<'a, anyhow::Result<()>> {
        self.switch.take_off(self.cluster, node).boxed()
    }

    fn keep_away<'a>(&'a self, node: &'a str) -> BoxFuture<'a, anyhow::Result<()>> {
        self.switch.switch_off(self.cluster, node).boxed()
    }

    fn start<'a>(&'a self, node: &'a str) -> BoxFuture<'a, anyhow::Result<()>> {
        self.switch.switch_on(self.cluster, node).boxed()
    }
}

/// Whether a node that always advertises so many devices serves a case.
pub(crate) fn preparation(has: u64, needed: Devices) -> Preparation {
    match needed {
        Devices::One if has != 1 => {
            Preparation::NotPossible(format!("the case needs a node with one device; this one has {has}"))
        }
        Devices::AtLeast(count) if has < count => {
            Preparation::NotPossible(format!("the case needs {count} devices; the node has {has}"))
        }
        Devices::One | Devices::AtLeast(_) => Preparation::Ready(has),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_that_needs_other_devices_than_there_are_is_not_applicable() {
        assert_eq!(preparation(1, Devices::One), Preparation::Ready(1));
        assert_eq!(preparation(4, Devices::AtLeast(4)), Preparation::Ready(4));
        let why = |has, needed| match preparation(has, needed) {
            Preparation::NotPossible(why) => why,
            Preparation::Ready(_) => panic!("{has} devices serve {needed:?}"),
        };
        assert_eq!(why(4, Devices::One), "the case needs a node with one device; this one has 4");
        assert_eq!(why(2, Devices::AtLeast(4)), "the case needs 4 devices; the node has 2");
    }
}
