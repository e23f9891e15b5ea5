//! One admitted or rejected pod, from its first container to its removal. Spawned by `watch`, one task per pod.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::admission::Rejection;
use super::containers::Run;
use super::lifecycle::plan;
use super::status::{self, DeviceStatuses};
use crate::clock::rfc3339;
use crate::kubelet::container_runtime::{ContainerStart, DeviceMount};
use crate::kubelet::shared::{Shared, locked};

/// How long to wait before a refused write to the API server is tried again, by tokio's time.
const RETRY: Duration = Duration::from_millis(100);

/// Runs the pod until `stop`, then deletes it from the API server. Ends at once when the kubelet stops.
pub(crate) async fn run(
    shared: Arc<Shared>,
    pod: Arc<Pod>,
    stop: CancellationToken,
    rejection: Option<Rejection>,
    has_ended: bool,
) {
    let worker = Worker { uid: pod.uid().unwrap_or_default(), shared: Arc::clone(&shared), pod };
    let life = async {
        match rejection {
            Some(rejection) => {
                worker.stop_containers(shared.clock.now()).await;
                worker.report(&status::rejected(&rejection)).await;
            }
            None if has_ended => {}
            None => worker.live(&stop).await,
        }
        stop.cancelled().await;
        worker.remove().await;
    };
    // A kubelet that stops does nothing more.
    tokio::select! {
        biased;
        () = shared.stopping.cancelled() => {}
        () = life => {}
    }
}

struct Worker {
    shared: Arc<Shared>,
    pod: Arc<Pod>,
    uid: String,
}

impl Worker {
    /// Runs containers until every one has ended for good or `stop`.
    async fn live(&self, stop: &CancellationToken) {
        let mut reported = Value::Null;
        let mut lists = locked(&self.shared.devices).health.lists();
        loop {
            let now = self.shared.clock.now();
            let runs = locked(&self.shared.containers).runs(&self.uid);
            let plan = plan(&self.pod, &runs, now);
            if !stop.is_cancelled() && !plan.start.is_empty() {
                for container in &plan.start {
                    self.start(container).await;
                }
                continue;
            }
            if plan.phase.is_terminal() || stop.is_cancelled() {
                break;
            }
            let devices = self.device_statuses();
            let status = status::admitted(&self.pod, &plan, &runs, &devices, now);
            if status != reported {
                self.report(&status).await;
                reported = status;
            }
            // Each of them leads to the same look at everything.
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.shared.clock.sleep_until(plan.wake.unwrap_or_default()), if plan.wake.is_some() => {}
                () = self.devices_differ(&mut lists, &devices) => {}
            }
        }
        // The devices are free before the status shows that the pod has ended, as in kubelet.
        let now = self.shared.clock.now();
        let before = plan(&self.pod, &locked(&self.shared.containers).runs(&self.uid), now).phase;
        self.stop_containers(now).await;
        let devices = self.device_statuses();
        locked(&self.shared.pods).set_ended(&self.uid);
        let runs = locked(&self.shared.containers).runs(&self.uid);
        let mut plan = plan(&self.pod, &runs, now);
        plan.backing_off.clear();
        if before.is_terminal() {
            plan.phase = before;
        }
        self.report(&status::admitted(&self.pod, &plan, &runs, &devices, now)).await;
    }

    /// What the status says of the pod's devices now.
    fn device_statuses(&self) -> DeviceStatuses {
        if !self.shared.api.version().behaviour().resource_health {
            return DeviceStatuses::new();
        }
        let devices = locked(&self.shared.devices);
        let containers = self.pod.spec.iter().flat_map(|spec| &spec.containers);
        let status = containers
            .map(|container| (container.name.clone(), devices.resource_status(&self.uid, &container.name)));
        status.filter(|(_, status)| !status.is_empty()).collect()
    }

    /// Returns once a plugin's list has changed what the status says.
    async fn devices_differ(&self, lists: &mut watch::Receiver<()>, reported: &DeviceStatuses) {
        // The sender is as long-lived as the kubelet.
        while lists.changed().await.is_ok() {
            if self.device_statuses() != *reported {
                return;
            }
        }
        std::future::pending().await
    }

    /// Starts one container; its devices were allocated at admission, also for a restart.
    async fn start(&self, name: &str) {
        let Some(spec) = &self.pod.spec else { return };
        let mut containers = spec.init_containers.iter().flatten().chain(&spec.containers);
        let Some(container) = containers.find(|container| container.name == name) else { return };
        let run = self.shared.runtime.start(&self.container_start(container));
        let now = self.shared.clock.now();
        let (ends, exit_code) = match run.ends {
            Some((span, code)) => (now.checked_add(span).ok(), code),
            None => (None, 0),
        };
        let namespace = self.pod.namespace().unwrap_or_default();
        self.shared.api.set_log(&namespace, &self.pod.name_any(), name, &run.log);
        {
            let mut containers = locked(&self.shared.containers);
            let restarts = containers.runs(&self.uid).get(name).map_or(0, |before| before.restarts + 1);
            containers.started(&self.uid, name, Run { started: now, ends, exit_code, restarts });
        }
        self.shared.save_containers().await;
    }

    /// Stops what still runs of the pod.
    async fn stop_containers(&self, now: Timestamp) {
        locked(&self.shared.containers).stop(&self.uid, now);
        self.shared.save_containers().await;
    }

    /// Merges the plugins' answers (`deviceRunContainerOptions`: the first resource that sets a key wins). The spec's
    /// variables are last in kubelet's list (`GenerateRunContainerOptions` appends `makeEnvironmentVariables` to the
    /// plugins' variables), and containerd takes the last.
    fn container_start(&self, container: &Container) -> ContainerStart {
        let mut env = BTreeMap::new();
        let mut devices: Vec<DeviceMount> = Vec::new();
        let mut annotations = BTreeMap::new();
        for assigned in locked(&self.shared.devices).assignments.of_container(&self.uid, &container.name) {
            for (name, value) in &assigned.answer.env {
                env.entry(name.clone()).or_insert_with(|| value.clone());
            }
            for (name, value) in &assigned.answer.annotations {
                annotations.entry(name.clone()).or_insert_with(|| value.clone());
            }
            for device in &assigned.answer.devices {
                if devices.iter().all(|other| other.container_path != device.container_path) {
                    devices.push(device.clone());
                }
            }
        }
        let spec_env = container.env.iter().flatten();
        env.extend(spec_env.map(|var| (var.name.clone(), var.value.clone().unwrap_or_default())));
        ContainerStart {
            pod_namespace: self.pod.namespace().unwrap_or_default(),
            pod_name: self.pod.name_any(),
            pod_uid: self.uid.clone(),
            container: container.name.clone(),
            args: container.args.clone().unwrap_or_default(),
            env,
            devices,
            annotations,
        }
    }

    /// Writes the status, repeated until it is written or the pod is gone or replaced.
    async fn report(&self, status: &Value) {
        let started = self.pod.status.as_ref().and_then(|status| status.start_time.as_ref());
        let started = started.map_or_else(|| self.shared.clock.now(), |time| time.0);
        let mut status = status.clone();
        status["startTime"] = json!(rfc3339(started));
        // The UID makes the write fail for a new pod of the same name.
        let patch = json!({ "metadata": { "uid": self.uid }, "status": status });
        let (api, patch, params) = (self.api(), Patch::Strategic(&patch), PatchParams::default());
        self.persist(|| api.patch_status(self.name(), &params, &patch)).await;
    }

    /// Stops the containers and deletes the pod for good.
    async fn remove(&self) {
        self.stop_containers(self.shared.clock.now()).await;
        locked(&self.shared.pods).set_ended(&self.uid);
        let preconditions = Some(Preconditions { uid: Some(self.uid.clone()), resource_version: None });
        let now = DeleteParams { grace_period_seconds: Some(0), preconditions, ..DeleteParams::default() };
        let api = self.api();
        self.persist(|| async { api.delete(self.name(), &now).await.map(drop) }).await;
        locked(&self.shared.containers).retain(|uid| uid != self.uid);
        self.shared.save_containers().await;
        locked(&self.shared.pods).forget(&self.uid);
    }

    /// Repeats `write` until it succeeds or the pod is gone or replaced.
    async fn persist<T, F>(&self, mut write: impl FnMut() -> F)
    where
        F: Future<Output = kube::Result<T>>,
    {
        loop {
            match write().await {
                Ok(_) => return,
                Err(kube::Error::Api(answer)) if [404, 409, 422].contains(&answer.code) => {
                    tracing::debug!(
                        pod = self.name(),
                        reason = answer.message,
                        "the pod is gone or replaced"
                    );
                    return;
                }
                Err(error) => tracing::warn!(pod = self.name(), %error, "cannot write to the API server"),
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    fn api(&self) -> Api<Pod> {
        Api::namespaced(self.shared.client.clone(), &self.pod.namespace().unwrap_or_default())
    }

    fn name(&self) -> &str {
        self.pod.metadata.name.as_deref().unwrap_or_default()
    }
}
