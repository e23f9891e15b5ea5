//! A worker of a kind cluster as the cases' stage, with any [`Plugin`] on it. Called by `stage`.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kind_driver::pod_resources::{self, Assignments};
use kind_driver::status::{containers, is_ready, phase};
use kind_driver::{Cluster, Evidence, WAIT};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::Value;

use super::NAMESPACE;
use super::faulty_plugin::{Fault, FaultyPlugin};
use super::instance::{ContainerOf, Instance, Signal};
use super::plugin::{Description, Devices, Plugin, Preparation, Report};
use super::second_plugin::{self, second_of};

/// A worker of kind with the plugin under test.
#[derive(Clone, Copy)]
pub(crate) struct KindStage<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) plugin: &'a dyn Plugin,
    /// The worker's name.
    pub(crate) node: &'a str,
}

impl KindStage<'_> {
    pub(crate) fn client(&self) -> kube::Client {
        self.cluster.client()
    }

    pub(crate) fn node(&self) -> &str {
        self.node
    }

    pub(crate) fn description(&self) -> &Description {
        self.plugin.description()
    }

    pub(crate) fn container(&self, ends_after: Option<Duration>) -> Value {
        self.plugin.container(ends_after)
    }

    pub(crate) fn report(&self, log: &str) -> Option<Report> {
        self.plugin.report(log)
    }

    pub(crate) async fn prepare(&self, devices: Devices) -> anyhow::Result<Preparation> {
        self.plugin.prepare(self.node, devices).await
    }

    pub(crate) async fn stop_kubelet(&self) -> anyhow::Result<()> {
        self.cluster.stop_kubelet(self.node).await
    }

    pub(crate) async fn start_kubelet(&self) -> anyhow::Result<Timestamp> {
        self.cluster.start_kubelet(self.node).await
    }

    pub(crate) async fn kill_container(&self, container: &ContainerOf<'_>) -> anyhow::Result<()> {
        let id = container.id.context("the container has no id")?;
        self.cluster.signal_container(self.node, id, "SIGKILL").await
    }

    pub(crate) async fn has_container(&self, container: &ContainerOf<'_>) -> anyhow::Result<bool> {
        self.cluster.has_container(self.node, container.id.unwrap_or_default()).await
    }

    pub(crate) async fn kill_containers(&self, except: Option<&Instance>) -> anyhow::Result<()> {
        self.cluster.kill_containers(self.node, except.and_then(|plugin| plugin.pod.as_ref())).await
    }

    pub(crate) async fn assignments(&self) -> anyhow::Result<Assignments> {
        pod_resources::list(self.node, &self.description().resource).await
    }

    pub(crate) async fn faulty_plugin(&self, resource: String, fault: Fault) -> anyhow::Result<FaultyPlugin> {
        FaultyPlugin::of(self.cluster, self.node, resource, fault).await
    }

    pub(crate) async fn plugins(&self) -> anyhow::Result<Vec<Instance>> {
        let plugin = self.description();
        let pods = self.cluster.pods_on(self.node, &plugin.namespace, &plugin.pods).await?;
        let instance = |pod: Pod| Instance {
            id: pod.metadata.uid.clone().unwrap_or_default(),
            is_ready: is_ready(&pod),
            restarts: containers(&pod).map(|status| status.restart_count).sum(),
            pod: Some(pod),
        };
        Ok(pods.into_iter().map(instance).collect())
    }

    pub(crate) async fn signal_plugin(&self, plugin: &Instance, signal: Signal) -> anyhow::Result<()> {
        let ids = plugin.pod.iter().flat_map(containers).filter_map(|status| status.container_id.as_deref());
        let ids: Vec<&str> = ids.collect();
        ensure!(!ids.is_empty(), "the plugin's container has no id");
        for id in ids {
            self.cluster.signal_container(self.node, id, &format!("SIG{}", signal.name())).await?;
        }
        Ok(())
    }

    pub(crate) async fn replace_plugin(&self, before: &Instance) -> anyhow::Result<Option<Timestamp>> {
        let began = Timestamp::now();
        let name = before.pod.as_ref().and_then(|pod| pod.metadata.name.clone()).unwrap_or_default();
        let deleted = self.plugin_pods().delete(&name, &DeleteParams::default().grace_period(0)).await;
        deleted.context("deleting the plugin")?;
        WAIT.until("another plugin to be ready", async || {
            Ok(self.plugins().await?.iter().any(|now| now.is_ready && now.id != before.id))
        })
        .await?;
        Ok(Some(began))
    }

    pub(crate) async fn stop_plugin(&self) -> anyhow::Result<()> {
        self.plugin.stop(self.node).await
    }

    pub(crate) async fn keep_plugin_away(&self) -> anyhow::Result<()> {
        self.plugin.keep_away(self.node).await
    }

    pub(crate) async fn start_plugin(&self) -> anyhow::Result<()> {
        self.plugin.start(self.node).await
    }

    /// Starts a second pod of the plugin on the node and waits until it runs. It need not be ready: a plugin may wait for
    /// the other's end.
    pub(crate) async fn start_second_plugin(&self) -> anyhow::Result<()> {
        let plugins = self.plugins().await?;
        let first = plugins.iter().find(|plugin| plugin.is_ready).and_then(|plugin| plugin.pod.as_ref());
        let second = first.and_then(second_of).context("no pod of the device plugin is ready")?;
        let created = self.plugin_pods().create(&PostParams::default(), &second).await;
        created.context("creating the second plugin")?;
        WAIT.until("the second plugin to run", async || {
            let pod = self.plugin_pods().get_opt(second_plugin::NAME).await?;
            Ok(pod.is_some_and(|pod| phase(&pod) == "Running"))
        })
        .await
    }

    /// Removes the second plugin, if there is one, and waits until it is gone.
    pub(crate) async fn remove_second_plugin(&self) -> anyhow::Result<()> {
        let label = second_plugin::LABEL;
        let these = ListParams::default().labels(&format!("{}={}", label.0, label.1));
        let removed = self.plugin_pods().delete_collection(&DeleteParams::default(), &these).await;
        removed.context("removing the second plugin")?;
        WAIT.until("the second plugin to be gone", async || {
            Ok(self.plugin_pods().list_metadata(&these).await?.items.is_empty())
        })
        .await
    }

    pub(crate) async fn set_health(&self, device: u64, healthy: bool) -> anyhow::Result<()> {
        self.plugin.set_health(self.node, device, healthy).await
    }

    pub(crate) async fn failed(&self, case: &str, error: anyhow::Error) -> anyhow::Error {
        let description = self.description();
        let also = description.with_each_device.iter().map(|also| also.resource.as_str());
        let resources: Vec<&str> = std::iter::once(description.resource.as_str()).chain(also).collect();
        let namespaces = [NAMESPACE, &description.namespace];
        let what = Evidence { namespaces: &namespaces, objects: &[], resources: &resources };
        let error = self.cluster.with_evidence(case, what, error).await;
        self.plugin.failed_on(self.node).await;
        error
    }

    fn plugin_pods(&self) -> Api<Pod> {
        Api::namespaced(self.cluster.client(), &self.description().namespace)
    }
}
