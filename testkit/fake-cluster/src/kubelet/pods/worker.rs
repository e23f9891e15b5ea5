//! One admitted or rejected pod, from its first container to its removal. Spawned by `watch`, one task per pod.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use runtime::reached;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::admission::Rejection;
use super::container_start::container_start;
use super::lifecycle::{Plan, plan};
use super::pod_api::PodApi;
use super::status::{self, DeviceStatuses};
use super::table::{Followed, Shown, Stop, version_of};
use super::{ends, grace};
use crate::kubelet::device_manager::allocate::allocate_lost;
use crate::kubelet::shared::{Shared, locked};

/// When a container is started again that could not be given its devices (`backOffPeriod` of kubelet's pod workers).
const STARTED_AGAIN: Duration = Duration::from_secs(10);

/// Runs the pod until it is to `stop`, then deletes it from the API server. Ends at once when the kubelet stops.
pub(crate) async fn run(
    shared: Arc<Shared>,
    pod: Arc<Pod>,
    followed: Followed,
    rejection: Option<Rejection>,
    has_ended: bool,
) {
    let api = PodApi::new(shared.client.clone(), pod.clone());
    let Followed { stop, shown } = followed;
    let (uid, written) = (pod.uid().unwrap_or_default(), version_of(&pod));
    let ended_with = json!(pod.status);
    let mut worker = Worker { uid, shared: shared.clone(), pod, api, stop, shown, written };
    let life = async {
        match rejection {
            Some(rejection) => {
                ends::terminate(&shared, &worker.uid, grace::SHORTEST).await;
                let status = status::rejected(&rejection);
                worker.report(&status).await;
                worker.keep(status).await;
            }
            None if has_ended => worker.keep(ended_with).await,
            None => {
                let last = worker.live().await;
                worker.report(&last).await;
                worker.keep(last).await;
            }
        }
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
    api: PodApi,
    /// How the pod is to end, once it is.
    stop: watch::Receiver<Option<Stop>>,
    /// What the API server shows of it.
    shown: watch::Receiver<Shown>,
    /// The version that was written last.
    written: u64,
}

impl Worker {
    /// Runs containers until every one has ended for good or the pod is to stop. Its last status.
    async fn live(&mut self) -> Value {
        let mut reported = Value::Null;
        // Containers that could not be given their devices, and when they are started again.
        let mut lacking = BTreeMap::new();
        let shared = Arc::clone(&self.shared);
        loop {
            // One that is killed while this looks at everything is not missed.
            let mut killed = std::pin::pin!(shared.container_killed.notified());
            killed.as_mut().enable();
            let now = self.shared.clock.now();
            let runs = ends::runs(&self.shared, &self.uid);
            let mut plan = plan(&self.pod, &runs, now);
            self.wait_without_devices(&mut plan, &mut lacking, now);
            let is_to_stop = self.stop.borrow().is_some();
            if !is_to_stop && !plan.start.is_empty() {
                for container in &plan.start {
                    if !self.start(container).await {
                        let again = self.shared.clock.now().checked_add(STARTED_AGAIN);
                        lacking.insert(container.clone(), again.unwrap_or(Timestamp::MAX));
                    }
                }
                continue;
            }
            if plan.phase.is_terminal() || is_to_stop {
                break;
            }
            let devices = self.device_statuses();
            let status = status::admitted(&self.pod, &plan, &runs, &devices, now);
            if status != reported {
                self.report(&status).await;
                reported = status;
            }
            let wake = self.shared.clock.sleep_until(plan.wake.unwrap_or_default());
            let (mut stop, mut shown) = (self.stop.clone(), self.shown.clone());
            // Each of them leads to the same look at everything.
            tokio::select! {
                biased;
                () = until_stopped(&mut stop) => {}
                () = until_other(&mut shown, self.written, &reported) => reported = Value::Null,
                () = wake, if plan.wake.is_some() => {}
                () = self.devices_differ(&devices) => {}
                () = killed => {}
            }
        }
        let now = self.shared.clock.now();
        let before = plan(&self.pod, &ends::runs(&self.shared, &self.uid), now).phase;
        self.end_containers().await;
        // The devices are free before the status shows that the pod has ended, as in kubelet.
        let devices = self.device_statuses();
        locked(&self.shared.pods).set_ended(&self.uid);
        let now = self.shared.clock.now();
        let runs = ends::runs(&self.shared, &self.uid);
        let mut plan = plan(&self.pod, &runs, now);
        plan.backing_off.clear();
        if before.is_terminal() {
            plan.phase = before;
        }
        status::admitted(&self.pod, &plan, &runs, &devices, now)
    }

    /// Writes the last status again whenever something else was written after it, until the pod is to stop.
    async fn keep(&mut self, status: Value) {
        loop {
            let (mut stop, mut shown) = (self.stop.clone(), self.shown.clone());
            tokio::select! {
                biased;
                () = until_stopped(&mut stop) => return,
                () = until_other(&mut shown, self.written, &status) => self.report(&status).await,
            }
        }
    }

    /// Takes out of the plan what is not to be started yet.
    fn wait_without_devices(
        &self,
        plan: &mut Plan,
        lacking: &mut BTreeMap<String, Timestamp>,
        now: Timestamp,
    ) {
        lacking.retain(|_, again| *again > now);
        plan.start.retain(|container| !lacking.contains_key(container));
        plan.without_devices = lacking.keys().cloned().collect();
        plan.wake = plan.wake.into_iter().chain(lacking.values().copied()).min();
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
    async fn devices_differ(&self, reported: &DeviceStatuses) {
        let lists = locked(&self.shared.devices).health.lists();
        loop {
            // A list that comes while the statuses are compared is not missed.
            let mut listed = std::pin::pin!(lists.notified());
            listed.as_mut().enable();
            if self.device_statuses() != *reported {
                return;
            }
            listed.await;
        }
    }

    /// Starts one container; its devices were allocated at admission, also for a restart. Whether it did: a container that has lost
    /// them and gets none waits.
    async fn start(&self, name: &str) -> bool {
        let Some(spec) = &self.pod.spec else { return true };
        let mut containers = spec.init_containers.iter().flatten().chain(&spec.containers);
        let Some(container) = containers.find(|container| container.name == name) else { return true };
        // A pod that is to stop is given nothing, and what has come too late does not start.
        let is_to_stop = || self.stop.borrow().is_some();
        if is_to_stop() {
            return true;
        }
        let given = allocate_lost(&self.shared, &self.pod, container).await;
        if is_to_stop() {
            return true;
        }
        if let Err(error) = given {
            reached("cluster: a container got no devices at its start");
            tracing::debug!(pod = self.pod.name_any(), container = name, %error, "the container does not start");
            return false;
        }
        let start = container_start(&self.pod, container, &locked(&self.shared.devices).assignments);
        let run = self.shared.runtime.start(&start);
        self.shared.api.set_log(&start.pod_namespace, &start.pod_name, name, &run.log);
        locked(&self.shared.containers).started(start, self.shared.clock.now(), &run);
        self.shared.containers_changed.notify_one();
        self.shared.save_containers().await;
        true
    }

    /// Ends what still runs of the pod. Returns when it has ended; a shorter grace that is given meanwhile counts.
    async fn end_containers(&mut self) {
        loop {
            let stop = *self.stop.borrow_and_update();
            let grace = stop.map_or_else(|| grace::of_spec(&self.pod), |stop| stop.grace);
            let Some(last) = ends::terminate(&self.shared, &self.uid, grace).await else { return };
            // Either way it is looked what still runs.
            tokio::select! {
                biased;
                _ = self.stop.changed() => {}
                () = self.shared.clock.sleep_until(last) => {}
            }
        }
    }

    /// Writes the status, unless the pod is gone.
    async fn report(&mut self, status: &Value) {
        if !self.is_gone() {
            let written = self.api.report(status, self.shared.clock.now()).await;
            // Nothing is written any more of one that is gone.
            self.written = written.unwrap_or(u64::MAX);
        }
    }

    /// Waits until the pod's containers have ended, and deletes it for good.
    async fn remove(&mut self) {
        self.end_containers().await;
        locked(&self.shared.pods).set_ended(&self.uid);
        if !self.is_gone() {
            self.api.delete().await;
        }
        locked(&self.shared.containers).forget(&self.uid);
        self.shared.save_containers().await;
        locked(&self.shared.pods).forget(&self.uid);
    }

    fn is_gone(&self) -> bool {
        self.stop.borrow().is_some_and(|stop| stop.is_gone)
    }
}

/// Waits until the API server shows another phase than that of `status`, written after `version`: a request that its sender has given up
/// may be carried out late. kubelet sees that within ten seconds (`needsReconcile` of its status manager), this one at once.
async fn until_other(shown: &mut watch::Receiver<Shown>, version: u64, status: &Value) {
    let phase = status["phase"].as_str().unwrap_or_default();
    // The sender is gone only with the kubelet.
    if shown.wait_for(|shown| shown.is_other(version, phase)).await.is_err() {
        std::future::pending::<()>().await;
    }
    reached("cluster: a status was written again that another one had overwritten");
}

async fn until_stopped(stop: &mut watch::Receiver<Option<Stop>>) {
    // The sender is gone only with the kubelet.
    if stop.wait_for(Option::is_some).await.is_err() {
        std::future::pending::<()>().await;
    }
}
