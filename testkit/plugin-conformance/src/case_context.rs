//! What a case has to work with: pods on the one node, what their containers see, what kubelet says of them. Stopping and
//! starting parts of the node is in [`super::node_control`].

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use k8s_openapi::api::core::v1::{ContainerStatus, Node, Pod};
use kind_driver::pod_resources::Assignments;
use kind_driver::status::{containers, is_ready, phase};
use kube::api::{Api, DeleteParams, ListParams, LogParams, PostParams};
use serde_json::{Value, json};
use testkit_support::Release;
use tokio::time::Instant;

use super::NAMESPACE;
use super::plugin::Report;
use super::stage::Stage;

/// The container of a pod that has one.
pub(crate) const MAIN: &str = "main";
/// How long what must not change is looked at on kind. Kubernetes takes a minute.
pub(crate) const STEADY: Duration = Duration::from_secs(20);
/// The label of every pod of a case.
const LABEL: (&str, &str) = ("plugin-conformance", "case");

/// A case's surroundings.
pub(crate) struct CaseContext<'a> {
    pub(crate) stage: Stage<'a>,
    /// Whether to wait for kubelet's five minutes too.
    pub(crate) grace: bool,
    pub(crate) kubelet_stopped: AtomicBool,
    /// How many devices the node has.
    devices: AtomicU64,
    steps: Mutex<Vec<String>>,
}

impl<'a> CaseContext<'a> {
    pub(crate) fn new(stage: Stage<'a>, grace: bool) -> Self {
        Self {
            stage,
            grace,
            kubelet_stopped: AtomicBool::new(false),
            devices: AtomicU64::new(0),
            steps: Mutex::new(Vec::new()),
        }
    }

    /// How many devices the node has.
    pub(crate) fn devices(&self) -> u64 {
        self.devices.load(Ordering::Relaxed)
    }

    pub(crate) fn set_devices(&self, devices: u64) {
        self.devices.store(devices, Ordering::Relaxed);
    }

    pub(crate) fn into_steps(self) -> Vec<String> {
        self.steps.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what is done next.
    pub(crate) fn step(&self, step: impl Into<String>) {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).push(step.into());
    }

    /// The object that stands for the node.
    pub(crate) async fn node_object(&self) -> anyhow::Result<Node> {
        let (nodes, name) = (Api::<Node>::all(self.stage.client()), self.stage.node());
        nodes.get(name).await.with_context(|| format!("reading node {name}"))
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.stage.client(), NAMESPACE)
    }

    /// Asks for the removal of every pod of the cases.
    pub(crate) async fn remove_pods(&self) -> anyhow::Result<()> {
        // One by one: the embedded API server has no other way.
        for pod in self.pods().list(&of_cases()).await.context("listing pods")?.items {
            let name = pod.metadata.name.unwrap_or_default();
            match self.pods().delete(&name, &DeleteParams::default()).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error).with_context(|| format!("removing pod {name}")),
            }
        }
        Ok(())
    }

    /// Waits until no pod of an earlier case is left.
    pub(crate) async fn no_pod_is_left(&self) -> anyhow::Result<()> {
        self.stage
            .wait()
            .until("the pods of the last case to be gone", async || {
                Ok(self.pods().list(&of_cases()).await?.items.is_empty())
            })
            .await
    }

    pub(crate) async fn pod(&self, name: &str) -> anyhow::Result<Pod> {
        self.pods().get(name).await.with_context(|| format!("reading pod {name}"))
    }

    /// A pod whose one container asks for this many devices, and runs until it is stopped.
    pub(crate) fn manifest(&self, name: &str, devices: u64) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"restartPolicy": "Always", "containers": [self.container(MAIN, devices, None)]},
        })
    }

    /// A container that asks for this many devices and reports them.
    pub(crate) fn container(&self, name: &str, devices: u64, ends_after: Option<Duration>) -> Value {
        let mut container = self.stage.container(ends_after);
        container["name"] = json!(name);
        container["imagePullPolicy"] = json!("IfNotPresent");
        container["resources"]["limits"][&self.stage.description().resource] = json!(devices.to_string());
        container
    }

    /// Creates a pod of the case.
    pub(crate) async fn create(&self, manifest: &Value) -> anyhow::Result<()> {
        let mut manifest = manifest.clone();
        manifest["metadata"]["labels"][LABEL.0] = json!(LABEL.1);
        manifest["spec"]["terminationGracePeriodSeconds"] = json!(1);
        if let Some(scheduler) = &self.stage.description().scheduler {
            manifest["spec"]["schedulerName"] = json!(scheduler);
        }
        let pod: Pod = serde_json::from_value(manifest)?;
        let name = pod.metadata.name.clone().unwrap_or_default();
        self.step(format!("creating pod {name}"));
        let created = self.pods().create(&PostParams::default(), &pod).await;
        created.with_context(|| format!("creating pod {name}"))?;
        Ok(())
    }

    /// Creates a pod that asks for this many devices and waits until it is ready.
    pub(crate) async fn run_pod(&self, name: &str, devices: u64) -> anyhow::Result<()> {
        self.create(&self.manifest(name, devices)).await?;
        self.pod_until(name, "to be ready", is_ready).await
    }

    pub(crate) async fn pod_until(
        &self,
        name: &str,
        what: &str,
        condition: impl Fn(&Pod) -> bool,
    ) -> anyhow::Result<()> {
        let wait = format!("pod {name} {what}");
        let longest = self.stage.wait();
        let found = longest.found(&wait, async || {
            let pod = self.pods().get_opt(name).await?;
            Ok(pod.filter(|pod| condition(pod) || phase(pod) == "Failed"))
        });
        let pod = found.await?;
        // A pod that has failed, as one that kubelet refused, becomes nothing else any more.
        if !condition(&pod) {
            let status = pod.status.unwrap_or_default();
            let (reason, message) = (status.reason.unwrap_or_default(), status.message.unwrap_or_default());
            bail!("pod {name} has failed, while waiting for it {what}: {reason}: {message}");
        }
        Ok(())
    }

    /// The release of the node's kubelet.
    pub(crate) async fn kubelet_release(&self) -> anyhow::Result<Release> {
        let info = self.node_object().await?.status.and_then(|status| status.node_info).unwrap_or_default();
        info.kubelet_version.parse().context("the node's kubelet")
    }

    /// Deletes a pod and waits until it is gone; with no grace from the API server alone, whatever kubelet does.
    pub(crate) async fn delete(&self, name: &str, params: DeleteParams) -> anyhow::Result<()> {
        self.step(format!("deleting pod {name}"));
        self.pods().delete(name, &params).await.with_context(|| format!("deleting pod {name}"))?;
        self.stage
            .wait()
            .until(&format!("pod {name} to be gone"), async || Ok(self.pods().get_opt(name).await?.is_none()))
            .await
    }

    /// What the container that runs now printed of what it has.
    pub(crate) async fn report(&self, pod: &str, container: &str) -> anyhow::Result<Report> {
        let params = LogParams { container: Some(container.to_owned()), ..LogParams::default() };
        self.stage
            .wait()
            .found(&format!("report of container {pod}/{container}"), async || {
                Ok(self.stage.report(&self.pods().logs(pod, &params).await?))
            })
            .await
    }

    /// The ids of the devices that the container sees.
    ///
    /// # Errors
    /// It sees none.
    pub(crate) async fn sees(&self, pod: &str, container: &str) -> anyhow::Result<Vec<String>> {
        let report = self.report(pod, container).await?;
        let ids = if self.stage.description().reports_ids {
            report.ids
        } else {
            self.assigned(pod, container).await?
        };
        ensure!(!ids.is_empty(), "{pod}/{container} requested a device but started successfully without");
        Ok(ids)
    }

    /// What the container saw, which has ended: kubelet lists no pod that has, so the ids are told where containers report them.
    ///
    /// # Errors
    /// It reports none where they do.
    pub(crate) async fn saw(&self, pod: &str, container: &str) -> anyhow::Result<String> {
        let report = self.report(pod, container).await?;
        if !self.stage.description().reports_ids {
            return Ok("its device".to_owned());
        }
        ensure!(!report.ids.is_empty(), "{pod}/{container} requested a device but ran without");
        Ok(report.ids.join(", "))
    }

    /// Checks that the container that runs now sees what it saw before.
    pub(crate) async fn still_sees(
        &self,
        pod: &str,
        container: &str,
        before: &Report,
        after: &str,
    ) -> anyhow::Result<()> {
        let again = self.report(pod, container).await?;
        ensure!(again == *before, "the container saw {}, and after {after} {}", before.text, again.text);
        Ok(())
    }

    /// Which containers have which devices, as kubelet says; one that has just started is given time.
    pub(crate) async fn assignments(&self) -> anyhow::Result<Assignments> {
        self.stage
            .wait()
            .found("list of kubelet's pod resources", async || Ok(Some(self.stage.assignments().await?)))
            .await
    }

    /// The ids that kubelet says the container has.
    pub(crate) async fn assigned(&self, pod: &str, container: &str) -> anyhow::Result<Vec<String>> {
        let all = self.assignments().await?;
        match all.get(&format!("{NAMESPACE}/{pod}")).and_then(|pod| pod.get(container)) {
            Some(ids) => Ok(ids.clone()),
            None => bail!("kubelet does not list {pod}/{container}; it lists {all:?}"),
        }
    }

    /// Checks that kubelet says the container has exactly these ids.
    pub(crate) async fn kubelet_says(
        &self,
        pod: &str,
        container: &str,
        ids: &[String],
    ) -> anyhow::Result<()> {
        self.step(format!("verifying the device assignment of {pod} using the podresources API"));
        let assigned = self.assigned(pod, container).await?;
        ensure!(
            assigned == ids,
            "kubelet says {pod}/{container} has {assigned:?}, the container sees {ids:?}"
        );
        Ok(())
    }

    /// The status of a container, init containers too.
    pub(crate) async fn status(&self, pod: &str, container: &str) -> anyhow::Result<ContainerStatus> {
        let object = self.pod(pod).await?;
        let status = containers(&object).find(|status| status.name == container).cloned();
        status.with_context(|| format!("kubelet says nothing of container {pod}/{container}"))
    }

    /// Checks that the pod is still the one it was, runs, and is ready.
    pub(crate) async fn still_runs(&self, before: &Pod) -> anyhow::Result<()> {
        let name = before.metadata.name.as_deref().unwrap_or_default();
        self.step(format!("checking the same instance of {name} is still running"));
        let same =
            |pod: &Pod| pod.metadata.uid == before.metadata.uid && phase(pod) == "Running" && is_ready(pod);
        self.pod_until(name, "to be the same that still runs", same).await
    }

    /// Checks for a while that the pod stays in this phase.
    pub(crate) async fn stays(&self, pod: &str, wanted: &str) -> anyhow::Result<()> {
        self.steadily(&format!("{pod} stays {wanted}"), || async {
            let found = self.pod(pod).await?;
            let (is, status) = (phase(&found), found.status.as_ref());
            let why = status.and_then(|status| status.message.as_deref()).unwrap_or("no message");
            ensure!(is == wanted, "pod {pod} became {is}: {why}");
            Ok(())
        })
        .await
    }

    /// Looks again and again for a while; the first error ends it.
    pub(crate) async fn steadily<F: Future<Output = anyhow::Result<()>>>(
        &self,
        what: &str,
        look: impl Fn() -> F,
    ) -> anyhow::Result<()> {
        let steady = self.stage.steady();
        self.step(format!("checking for {} s that {what}", steady.as_secs_f64()));
        let end = Instant::now() + steady;
        while Instant::now() < end {
            look().await?;
            tokio::time::sleep(self.stage.wait().poll).await;
        }
        Ok(())
    }

    /// Checks that one pod can have every device there is.
    pub(crate) async fn everything_is_free(&self) -> anyhow::Result<()> {
        self.step("checking that every device can be given out again");
        let devices = self.devices();
        self.run_pod("everything", devices).await?;
        let ids = self.sees("everything", MAIN).await?;
        ensure!(ids.len() as u64 == devices, "a pod that asks for {devices} devices sees {ids:?}");
        Ok(())
    }
}

/// Chooses the pods of cases.
fn of_cases() -> ListParams {
    ListParams::default().labels(&format!("{}={}", LABEL.0, LABEL.1))
}
