//! What a case has to work with: pods on the one worker, what their containers see, what kubelet says of them.
//! Stopping and starting parts of the node is in [`super::parts`].

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use k8s_openapi::api::core::v1::{ContainerStatus, Node, Pod};
use kube::api::{Api, DeleteParams, LogParams, PostParams};
use neuron_core::names;
use neuron_workload::Report;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::pod_resources::{self, Held};
use crate::kind::nodes::is_ready;
use crate::kind::wait::{LOOK, found, until};
use crate::kind::{KindCluster, Scheduling, images};
use neuron_e2e_engine::cluster::NAMESPACE;
use neuron_e2e_engine::observe::phase;
use neuron_e2e_engine::run::apply::OURS;

/// The container of a pod that has one.
pub(super) const MAIN: &str = "main";
/// How long what must not change is looked at. Kubernetes takes a minute.
pub(super) const STEADY: Duration = Duration::from_secs(20);

/// A case's surroundings.
pub(super) struct Room<'a> {
    pub(super) cluster: &'a KindCluster,
    /// Whether to wait for kubelet's five minutes too.
    pub(super) grace: bool,
    pub(super) kubelet_stopped: AtomicBool,
    steps: Mutex<Vec<String>>,
}

impl<'a> Room<'a> {
    pub(super) fn new(cluster: &'a KindCluster, grace: bool) -> Self {
        Self { cluster, grace, kubelet_stopped: AtomicBool::new(false), steps: Mutex::new(Vec::new()) }
    }

    pub(super) fn into_steps(self) -> Vec<String> {
        self.steps.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says what is done next.
    pub(super) fn by(&self, step: impl Into<String>) {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).push(step.into());
    }

    /// The worker's name.
    pub(super) fn node_name(&self) -> anyhow::Result<&'a str> {
        self.cluster.workers.first().map(String::as_str).context("the cluster has no worker")
    }

    pub(super) async fn node(&self) -> anyhow::Result<Node> {
        self.cluster.node(self.node_name()?).await
    }

    pub(super) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.cluster.client.clone(), NAMESPACE)
    }

    pub(super) async fn pod(&self, name: &str) -> anyhow::Result<Pod> {
        self.pods().get(name).await.with_context(|| format!("reading pod {name}"))
    }

    /// Creates a pod, to be placed by our scheduler.
    pub(super) async fn create(&self, manifest: &Value) -> anyhow::Result<()> {
        let mut manifest = manifest.clone();
        manifest["metadata"]["labels"][OURS.0] = json!(OURS.1);
        manifest["spec"]["schedulerName"] = json!(Scheduling::MyScheduler.scheduler_name());
        manifest["spec"]["terminationGracePeriodSeconds"] = json!(1);
        let pod: Pod = serde_json::from_value(manifest)?;
        let name = pod.metadata.name.clone().unwrap_or_default();
        self.by(format!("creating pod {name}"));
        self.pods()
            .create(&PostParams::default(), &pod)
            .await
            .with_context(|| format!("creating pod {name}"))?;
        Ok(())
    }

    /// Creates a pod that asks for this many devices and waits until it is ready.
    pub(super) async fn run_pod(&self, name: &str, devices: usize) -> anyhow::Result<()> {
        self.create(&manifest(name, devices)).await?;
        self.pod_until(name, "to be ready", is_ready).await
    }

    pub(super) async fn pod_until(
        &self,
        name: &str,
        what: &str,
        condition: impl Fn(&Pod) -> bool,
    ) -> anyhow::Result<()> {
        until(&format!("pod {name} {what}"), || async {
            Ok(self.pods().get_opt(name).await?.is_some_and(|pod| condition(&pod)))
        })
        .await
    }

    /// Deletes a pod and waits until it is gone; with no grace from the API server alone, whatever kubelet does.
    pub(super) async fn delete(&self, name: &str, params: DeleteParams) -> anyhow::Result<()> {
        self.by(format!("deleting pod {name}"));
        self.pods().delete(name, &params).await.with_context(|| format!("deleting pod {name}"))?;
        until(&format!("pod {name} to be gone"), || async { Ok(self.pods().get_opt(name).await?.is_none()) })
            .await
    }

    /// What the container that runs now printed of what it got.
    pub(super) async fn report(&self, pod: &str, container: &str) -> anyhow::Result<Report> {
        let params = LogParams { container: Some(container.to_owned()), ..LogParams::default() };
        found(&format!("report of container {pod}/{container}"), || async {
            let log = self.pods().logs(pod, &params).await?;
            Ok(log.lines().find_map(|line| serde_json::from_str(line).ok()))
        })
        .await
    }

    /// The device ids that the container sees, by its device nodes. An error if it sees none.
    pub(super) async fn sees(&self, pod: &str, container: &str) -> anyhow::Result<Vec<String>> {
        let report = self.report(pod, container).await?;
        ensure!(
            !report.devices.is_empty(),
            "{pod}/{container} requested a device but started successfully without"
        );
        let mut ids: Vec<String> =
            report.devices.iter().map(|path| path.trim_start_matches("/dev/").to_owned()).collect();
        ids.sort();
        Ok(ids)
    }

    /// kubelet's books on `aws.amazon.com/neuron`; a kubelet that has just started is given time.
    pub(super) async fn books(&self) -> anyhow::Result<Held> {
        let node = self.node_name()?;
        found("list of kubelet's pod resources", || async {
            Ok(Some(pod_resources::list(node, names::NEURON).await?))
        })
        .await
    }

    /// Checks that kubelet says the container has exactly these ids.
    pub(super) async fn kubelet_says(
        &self,
        pod: &str,
        container: &str,
        ids: &[String],
    ) -> anyhow::Result<()> {
        self.by(format!("verifying the device assignment of {pod} using the podresources API"));
        let books = self.books().await?;
        let held = books.get(&format!("{NAMESPACE}/{pod}")).and_then(|pod| pod.get(container));
        match held {
            Some(held) if held == ids => Ok(()),
            Some(held) => bail!("kubelet says {pod}/{container} has {held:?}, the container sees {ids:?}"),
            None => bail!("kubelet does not list {pod}/{container}; it lists {books:?}"),
        }
    }

    /// The status of a container, init containers too.
    pub(super) async fn status(&self, pod: &str, container: &str) -> anyhow::Result<ContainerStatus> {
        let status = self.pod(pod).await?.status.unwrap_or_default();
        let mut all = status
            .init_container_statuses
            .into_iter()
            .flatten()
            .chain(status.container_statuses.into_iter().flatten());
        all.find(|status| status.name == container)
            .with_context(|| format!("kubelet says nothing of container {pod}/{container}"))
    }

    /// Checks that the pod is still the one it was, runs, and is ready.
    pub(super) async fn still_runs(&self, before: &Pod) -> anyhow::Result<()> {
        let name = before.metadata.name.as_deref().unwrap_or_default();
        self.by(format!("checking the same instance of {name} is still running"));
        let same =
            |pod: &Pod| pod.metadata.uid == before.metadata.uid && phase(pod) == "Running" && is_ready(pod);
        self.pod_until(name, "to be the same that still runs", same).await
    }

    /// Checks for [`STEADY`] that the pod stays in this phase.
    pub(super) async fn stays(&self, pod: &str, wanted: &str) -> anyhow::Result<()> {
        self.steadily(&format!("{pod} stays {wanted}"), || async {
            let found = self.pod(pod).await?;
            let (is, status) = (phase(&found), found.status.as_ref());
            let why = status.and_then(|status| status.message.as_deref()).unwrap_or("no message");
            ensure!(is == wanted, "pod {pod} became {is}: {why}");
            Ok(())
        })
        .await
    }

    /// Looks again and again for [`STEADY`]; the first error ends it.
    pub(super) async fn steadily<F: Future<Output = anyhow::Result<()>>>(
        &self,
        what: &str,
        look: impl Fn() -> F,
    ) -> anyhow::Result<()> {
        self.by(format!("checking for {} s that {what}", STEADY.as_secs()));
        let end = Instant::now() + STEADY;
        while Instant::now() < end {
            look().await?;
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Checks that one pod can have every device there is.
    pub(super) async fn everything_is_free(&self, devices: usize) -> anyhow::Result<()> {
        self.by("checking that every device can be given out again");
        self.run_pod("everything", devices).await?;
        let ids = self.sees("everything", MAIN).await?;
        ensure!(ids.len() == devices, "a pod that asks for {devices} devices sees {ids:?}");
        Ok(())
    }
}

/// A pod whose one container asks for this many devices, and runs until it is stopped.
pub(super) fn manifest(name: &str, devices: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"restartPolicy": "Always", "containers": [container(MAIN, devices, &[])]},
    })
}

/// A container that asks for this many devices.
pub(super) fn container(name: &str, devices: usize, args: &[&str]) -> Value {
    json!({
        "name": name,
        "image": images::WORKLOAD,
        "imagePullPolicy": "IfNotPresent",
        "args": args,
        "resources": {"limits": {names::NEURON: devices.to_string()}},
    })
}
