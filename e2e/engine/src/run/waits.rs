//! What a run waits for before its next step: conditions that users can see, too. Called by the other files of [`super`].

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::Api;
use neuron_core::names;
use tokio::time::Instant;

use super::{Run, UNCHANGED_FOR, collect};
use crate::cluster::wait::until;
use crate::cluster::{Cluster, NAMESPACE};
use crate::observe::{is_bound, is_refused, phase, report};
use crate::outcome::PodOutcome;
use crate::scenario::{DeviceState, Part};

impl<C: Cluster> Run<'_, C> {
    /// Waits until the pod runs, has ended or is refused; while parts are stopped, until as much is done as can be.
    pub(super) async fn settle(&self, name: &str) -> anyhow::Result<()> {
        if self.is_stopped(Part::Scheduler) || self.is_stopped(Part::Extender) {
            return Ok(());
        }
        let bound_is_enough =
            [Part::Kubelet, Part::Plugin, Part::Node].into_iter().any(|part| self.is_stopped(part));
        let may_be_refused = self.scenario.may_wait(name);
        let settled = |pod: &Pod| {
            let done = matches!(phase(pod), "Running" | "Succeeded" | "Failed");
            done || (may_be_refused && is_refused(pod)) || (bound_is_enough && is_bound(pod))
        };
        self.pod_until(name, "to run, end or be refused", settled).await?;
        let waits = self.pods().get_opt(name).await?.is_some_and(|pod| !is_bound(&pod) && is_refused(&pod));
        // Events are all that a waiting pod shows, and nothing but time tells that no further one is on its way.
        if waits { self.until_unchanged(name).await } else { Ok(()) }
    }

    /// Waits until what there is to say about a pod no longer changes.
    async fn until_unchanged(&self, name: &str) -> anyhow::Result<()> {
        let mut before = PodOutcome::default();
        let mut since = Instant::now();
        until(self.cluster, &format!("pod {name} to change no more"), async || {
            let now = collect::pod(self.cluster, self.scenario, &self.reports, name).await?;
            if now != before {
                (before, since) = (now, Instant::now());
            }
            Ok(since.elapsed() >= UNCHANGED_FOR)
        })
        .await
    }

    /// Waits until the pod is there and the condition holds of it.
    pub(super) async fn pod_until(
        &self,
        name: &str,
        what: &str,
        condition: impl Fn(&Pod) -> bool,
    ) -> anyhow::Result<()> {
        let pods = self.pods();
        until(self.cluster, &format!("pod {name} {what}"), async || {
            Ok(pods.get_opt(name).await?.is_some_and(|pod| condition(&pod)))
        })
        .await
    }

    /// Waits until the pod runs. One that has failed never will.
    pub(super) async fn runs(&self, name: &str) -> anyhow::Result<()> {
        self.pod_until(name, "to run", |pod| matches!(phase(pod), "Running" | "Failed")).await?;
        let pod = collect::pod(self.cluster, self.scenario, &self.reports, name).await?;
        let why = pod.failure.as_deref().unwrap_or("nobody says why");
        ensure!(pod.phase != "Failed", "pod {name} has failed and will never run: {why}");
        Ok(())
    }

    /// Waits until every container of the pod that runs has said what it got.
    pub(super) async fn printed(&self, name: &str) -> anyhow::Result<()> {
        until(self.cluster, &format!("the containers of pod {name} to say what they got"), async || {
            collect::has_printed(self.cluster, self.scenario, &self.reports, name).await
        })
        .await
    }

    /// Waits until the API server no longer has the pod.
    pub(super) async fn until_gone(&self, name: &str) -> anyhow::Result<()> {
        let pods = self.pods();
        until(self.cluster, &format!("pod {name} to be gone"), async || {
            Ok(pods.get_opt(name).await?.is_none())
        })
        .await
    }

    /// Waits until everything is read and corrected for which the node's kubelet is needed: what containers print, and records
    /// that say something else than kubelet chose.
    pub(super) async fn all_settled(&self, place: usize) -> anyhow::Result<()> {
        let plugin_runs = !self.stopped.contains(&(Part::Plugin, place));
        until(self.cluster, "every container to say what it got and every record to agree", async || {
            collect::all_settled(self.cluster, self.scenario, &self.reports, plugin_runs).await
        })
        .await
    }

    /// Waits until the node's report says what became of the device, and the node's allocatable follows: from then on the
    /// extender knows it, and kube-scheduler, whose own check may refuse a pod before the extender is asked.
    pub(super) async fn device_reported(
        &self,
        place: usize,
        device: u8,
        state: DeviceState,
    ) -> anyhow::Result<()> {
        let nodes: Api<Node> = Api::all(self.cluster.client());
        let name = &self.cluster.node_names()[place];
        let healthy = state == DeviceState::Healthy;
        until(self.cluster, &format!("node {name} to report device {device} as {state:?}"), async || {
            let Some(report) = report(&nodes.get(name).await?) else { return Ok(false) };
            let known = report.devices.iter().find(|known| known.id == device);
            Ok(known.is_some_and(|known| known.health.is_served() == healthy))
        })
        .await?;
        if self.is_stopped(Part::Kubelet) || !self.reports_follow() {
            return Ok(());
        }
        until(self.cluster, &format!("node {name} to offer its healthy devices and no others"), async || {
            let node = nodes.get(name).await?;
            let Some(report) = report(&node) else { return Ok(false) };
            let healthy = report.devices.iter().filter(|device| device.health.is_served()).count();
            let allocatable = node.status.and_then(|status| status.allocatable).unwrap_or_default();
            Ok(allocatable.get(names::NEURON).is_some_and(|offered| offered.0 == healthy.to_string()))
        })
        .await
    }

    /// Waits until the node's report names a running pod that holds devices: what the extender then makes of its
    /// record does not depend on when the report came.
    pub(super) async fn reported(&self, pod: &str) -> anyhow::Result<()> {
        let found = self.pods().get(pod).await.with_context(|| format!("reading pod {pod}"))?;
        let records = found.metadata.annotations.iter().flatten().any(|(key, _)| key == names::ALLOCATION);
        let holds = phase(&found) == "Running" && records && self.reports_follow();
        let Some(node) = found.spec.and_then(|spec| spec.node_name).filter(|_| holds) else {
            return Ok(());
        };
        let nodes: Api<Node> = Api::all(self.cluster.client());
        until(self.cluster, &format!("node {node} to report pod {pod}"), async || {
            let holders = report(&nodes.get(&node).await?).map(|report| report.holders).unwrap_or_default();
            Ok(holders.iter().any(|holder| Some(&holder.uid) == found.metadata.uid.as_ref()))
        })
        .await
    }

    /// Whether every node's report is kept up to date.
    fn reports_follow(&self) -> bool {
        !self.is_stopped(Part::Plugin) && !self.is_stopped(Part::Node)
    }

    /// Waits until the node's report no longer names the pod: from then on the scheduler is told to try again those
    /// that it refused because the extender had not heard of the deletion yet.
    pub(super) async fn no_longer_reported(&self, pod: &str, node: Option<&str>) -> anyhow::Result<()> {
        let Some(node) = node.filter(|_| self.reports_follow()) else {
            return Ok(());
        };
        let nodes: Api<Node> = Api::all(self.cluster.client());
        let pod = format!("{NAMESPACE}/{pod}");
        until(self.cluster, &format!("node {node} to report pod {pod} no longer"), async || {
            let report = report(&nodes.get(node).await?);
            Ok(!report.is_some_and(|report| report.holders.iter().any(|holder| holder.pod == pod)))
        })
        .await
    }
}
