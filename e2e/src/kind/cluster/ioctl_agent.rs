//! What a restart and an absence of the agent that answers ioctls (`deploy/fake-neuron-agent.yml`) do to pods: those with its profile are
//! told by an event, all others notice nothing. Called once in each run on kind, on the first cluster.

use anyhow::{Context as _, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kind_driver::status::containers;
use kind_driver::{DaemonSetSwitch, WAIT};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use neuron_e2e_engine::cluster::NAMESPACE;
use serde_json::json;

use super::KindCluster;
use super::install::{AGENT, SYSTEM};
use crate::kind::WORKLOAD;

/// Selector of the agent's pods.
const AGENT_PODS: &str = "name=fake-neuron-agent";
/// Node label that keeps the agent away while it says `off`.
pub(super) const AGENT_LABEL: &str = "neuron-e2e/ioctl-agent";
/// Label of this check's own pods.
const OURS: (&str, &str) = ("neuron-e2e/check", "ioctl-agent");

/// Takes the agent off nodes and brings it back.
pub(super) fn agent_switch() -> DaemonSetSwitch {
    DaemonSetSwitch {
        namespace: SYSTEM.to_owned(),
        daemon_set: AGENT.to_owned(),
        pods: AGENT_PODS.to_owned(),
        label: AGENT_LABEL.to_owned(),
    }
}

impl KindCluster {
    /// Kills the agent of a node while a pod with its profile runs there beside one without, then ends the next agent while another such pod
    /// runs, and keeps it away while a third is to start. A pod with the profile runs on another node, where there is one.
    ///
    /// # Errors
    /// A pod with the profile was not told, or did not start when the agent was back; another pod was touched. The pods stay then.
    pub(in crate::kind) async fn tells_pods_of_its_agent(&self) -> anyhow::Result<()> {
        let node = self.workers().last().context("the cluster has no worker")?;
        let pods: Api<Pod> = Api::namespaced(self.client(), NAMESPACE);
        let checked = self.agent_comes_and_goes(node, &pods).await;
        let back = agent_switch().switch_on(&self.driver, node).await;
        checked?;
        back?;
        let of_check = ListParams::default().labels(&format!("{}={}", OURS.0, OURS.1));
        pods.delete_collection(&DeleteParams::default().grace_period(0), &of_check).await?;
        Ok(())
    }

    async fn agent_comes_and_goes(&self, node: &str, pods: &Api<Pod>) -> anyhow::Result<()> {
        let create = async |name: &str, node: &str, is_answered| {
            let pod = pod(name, node, is_answered)?;
            pods.create(&PostParams::default(), &pod).await.with_context(|| format!("making pod {name}"))
        };
        let elsewhere = self.workers().first().filter(|other| *other != node);
        let mut untouched = vec![create("check-beside", node, false).await?];
        if let Some(other) = elsewhere {
            untouched.push(create("check-elsewhere", other, true).await?);
        }
        let answered = create("check-answered", node, true).await?;
        try_join_all(untouched.iter().chain([&answered]).map(|pod| self.runs(pods, pod))).await?;
        let containers = async || try_join_all(untouched.iter().map(|pod| containers_of(pods, pod))).await;
        let before = containers().await?;

        self.driver.kill_pods(SYSTEM, AGENT_PODS, Some(node)).await?;
        self.is_told(&answered, "its agent has ended", is_of_lost).await?;

        let left = create("check-left", node, true).await?;
        self.runs(pods, &left).await?;
        agent_switch().take_off(&self.driver, node).await?;
        self.is_told(&left, "its agent ends", is_of_lost).await?;
        let waits = create("check-waits", node, true).await?;
        let is_of_socket =
            |event: &Event| event.note.as_deref().is_some_and(|note| note.contains("agent.sock"));
        self.is_told(&waits, "nobody is at the socket", is_of_socket).await?;
        let now = pods.get(name_of(&waits)).await?;
        ensure!(!has_started(&now), "pod {} runs although no agent answers it", name_of(&waits));

        agent_switch().switch_on(&self.driver, node).await?;
        self.runs(pods, &waits).await?;
        let after = containers().await?;
        ensure!(after == before, "pods of no agent of {node} had containers {before:?} and have {after:?}");
        for pod in &untouched {
            let told = self.events_of(pod).await?.into_iter().find(is_of_lost);
            ensure!(
                told.is_none(),
                "pod {} is told of an agent that it does not have: {told:?}",
                name_of(pod)
            );
        }
        Ok(())
    }

    async fn runs(&self, pods: &Api<Pod>, pod: &Pod) -> anyhow::Result<()> {
        let name = name_of(pod);
        WAIT.until(&format!("pod {name} to run"), async || Ok(has_started(&pods.get(name).await?))).await
    }

    async fn is_told(&self, pod: &Pod, what: &str, is_meant: fn(&Event) -> bool) -> anyhow::Result<()> {
        WAIT.until(&format!("an event to tell pod {} that {what}", name_of(pod)), async || {
            Ok(self.events_of(pod).await?.iter().any(is_meant))
        })
        .await
    }

    async fn events_of(&self, pod: &Pod) -> anyhow::Result<Vec<Event>> {
        let events: Api<Event> = Api::namespaced(self.client(), NAMESPACE);
        let mut listed = events.list(&ListParams::default()).await?.items;
        listed.retain(|event| event.regarding.as_ref().is_some_and(|object| object.uid == pod.metadata.uid));
        Ok(listed)
    }
}

/// Whether the pod's container runs. Its phase is `Running` once kubelet has failed to start it for the second time.
fn has_started(pod: &Pod) -> bool {
    containers(pod).any(|container| container.state.as_ref().is_some_and(|state| state.running.is_some()))
}

/// Whether the event tells that nobody answers a container any more.
fn is_of_lost(event: &Event) -> bool {
    event.reason.as_deref() == Some("NeuronIoctlsLost")
}

fn name_of(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

/// A pod for this node, which no scheduler places.
fn pod(name: &str, node: &str, is_answered: bool) -> anyhow::Result<Pod> {
    let profile = if is_answered {
        json!({"type": "Localhost", "localhostProfile": "fake-neuron.json"})
    } else {
        json!({"type": "RuntimeDefault"})
    };
    let pod = json!({
        "metadata": {"name": name, "labels": {OURS.0: OURS.1}},
        "spec": {
            "nodeName": node,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", "image": WORKLOAD, "securityContext": {"seccompProfile": profile}}],
        },
    });
    Ok(serde_json::from_value(pod)?)
}

/// Each container's id, and how often it was restarted.
async fn containers_of(pods: &Api<Pod>, pod: &Pod) -> anyhow::Result<Vec<(Option<String>, i32)>> {
    let pod = pods.get(name_of(pod)).await?;
    Ok(containers(&pod).map(|container| (container.container_id.clone(), container.restart_count)).collect())
}
