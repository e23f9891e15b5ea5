//! A cluster of one simulated machine with a plugin and an extender. Kubelet and scheduler are processes on it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::routing::post;
use axum::{Json, Router};
use fake_cluster::kubelet::{FreeChoices, KubeletConfig, RecordingRuntime};
use fake_cluster::scheduler::{ExtenderConfig, SchedulerConfig};
use fake_cluster::system::Address;
use fake_cluster::{ApiServer, Clock, Kubelet, Scheduler};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use runtime::{Protocol, Server};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::machine::{Machine, Process};
use crate::plugin::Plugin;

pub(crate) const WIDGET: &str = "example.com/widget";
const EXTENDER: &str = "10.0.0.1:12345";

/// The cluster.
pub(crate) struct Cluster {
    pub(crate) api: ApiServer,
    pub(crate) containers: Arc<RecordingRuntime>,
    pub(crate) plugin: Plugin,
    machine: Arc<Machine>,
    seed: u64,
    writes: Arc<Mutex<Vec<String>>>,
    _process: Arc<Process>,
}

/// A kubelet or a scheduler. It is never told to stop, only killed.
pub(crate) struct Part<T> {
    process: Arc<Process>,
    part: T,
}

impl<T> Part<T> {
    pub(crate) fn kill(self) {
        self.process.kill();
        // Only now: a handle that is dropped tells its tasks to stop.
        drop(self.part);
    }
}

impl Cluster {
    pub(crate) fn new(seed: u64) -> Self {
        let (api, machine) = (ApiServer::new(Clock::of_runtime()), Machine::new(seed));
        let writes: Arc<Mutex<Vec<String>>> = Arc::default();
        let (log, clock) = (writes.clone(), api.clock().clone());
        api.observe(Box::new(move |write| {
            let after = write.after.map(|after| after.to_string());
            let line = format!("{} {} {}/{} {after:?}", clock.now(), write.kind, write.namespace, write.name);
            log.lock().unwrap().push(line);
        }));
        let process = machine.process();
        let system = process.system();
        let listener = system.listen(&Address::Tcp(EXTENDER.parse().unwrap())).unwrap();
        let filter = |Json(asked): Json<Value>| async move { Json(json!({"NodeNames": asked["NodeNames"]})) };
        let routes = Router::new().route("/filter", post(filter));
        let server = Server::new(system.clone(), Protocol::Http1, routes, Duration::ZERO);
        drop(system.spawn(server.run(listener, CancellationToken::new())));
        let plugin = Plugin::start(&system, config(seed).plugins_dir());
        Self { api, containers: Arc::default(), plugin, machine, seed, writes, _process: process }
    }

    pub(crate) async fn kubelet(&self) -> Part<Kubelet> {
        let process = self.machine.process();
        let (system, client) = (process.system(), self.api.client());
        let kubelet =
            Kubelet::start(&system, client, &self.api, config(self.seed), self.containers.clone()).await;
        let kubelet = Part { process, part: kubelet.unwrap() };
        self.until("the plugin to register", async || self.plugin.streams() == 1).await;
        kubelet
    }

    pub(crate) fn scheduler(&self) -> Part<Scheduler> {
        let process = self.machine.process();
        let extender = ExtenderConfig::new(format!("http://{EXTENDER}")).with_filter("filter");
        let config = SchedulerConfig::new("default-scheduler").with_seed(self.seed).with_extender(extender);
        let scheduler = Scheduler::start(&process.system(), self.api.client(), &self.api, config);
        Part { process, part: scheduler }
    }

    fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.api.client())
    }

    /// Creates a pod with one widget, unless there is one of the name.
    pub(crate) async fn pod(&self, name: &str) {
        let main = json!({"name": "main", "image": "none", "resources": {"limits": {WIDGET: "1"}}});
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [main]}});
        let created = self.pods().create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await;
        match created {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.pods().delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub(crate) async fn node_of(&self, name: &str) -> Option<String> {
        self.pods().get(name).await.unwrap().spec.unwrap().node_name
    }

    /// Waits until the pod runs.
    pub(crate) async fn runs(&self, name: &str) {
        let running = async || {
            let status = self.pods().get(name).await.unwrap().status;
            status.and_then(|status| status.phase).as_deref() == Some("Running")
        };
        self.until(&format!("{name} to run"), running).await;
    }

    /// Waits, for a simulated hour at most.
    pub(crate) async fn until(&self, what: &str, condition: impl AsyncFn() -> bool) {
        for _ in 0..3600 {
            if condition().await {
                return;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        panic!("waited an hour for {what}");
    }

    /// Every write so far, with its time and the object after it.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.writes.lock().unwrap().clone()
    }
}

fn config(seed: u64) -> KubeletConfig {
    KubeletConfig {
        free_choices: FreeChoices::Seeded(seed),
        status_period: Duration::from_secs(10),
        heartbeats: true,
        ..KubeletConfig::new("n1", "/var/lib/kubelet")
    }
}
