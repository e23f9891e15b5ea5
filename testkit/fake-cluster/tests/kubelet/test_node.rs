//! One node under test: an API server, a clock, a kubelet's folder and a runtime that does what `args` say.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fake_cluster::api::ApiServer;
use fake_cluster::clock::Clock;
use fake_cluster::kubelet::{
    Assignment, ContainerEnd, ContainerRun, ContainerRuntime, ContainerStart, FreeChoices, Kubelet,
    KubeletConfig, KubeletError,
};
use fake_cluster::{System, Version};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kubelet_api::podresources::v1::pod_resources_lister_client::PodResourcesListerClient;
use kubelet_api::unix;
use serde_json::{Value, json};
use testkit_support::eventually;
use tonic::transport::Channel;

pub(crate) const WIDGET: &str = "example.com/widget";
pub(crate) const GADGET: &str = "example.com/gadget";
pub(crate) const NODE: &str = "n1";

pub(crate) struct TestNode {
    pub(crate) api: ApiServer,
    pub(crate) clock: Clock,
    pub(crate) config: KubeletConfig,
    pub(crate) runtime: Arc<ScriptedRuntime>,
    _dir: tempfile::TempDir,
}

/// Runs for `args[0]` seconds and exits with `args[1]`; without args, or if that is no number, it runs until it is stopped.
/// It takes `args[2]` seconds to end after SIGTERM.
#[derive(Default)]
pub(crate) struct ScriptedRuntime {
    starts: Mutex<Vec<ContainerStart>>,
    ends: Mutex<Vec<ContainerStop>>,
    assigned: Mutex<Vec<Assignment>>,
}

/// A container that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContainerStop {
    pub(crate) container: ContainerStart,
    /// In seconds since the cluster's clock began.
    pub(crate) at: i64,
    pub(crate) exit_code: i32,
}

impl ContainerRuntime for ScriptedRuntime {
    fn start(&self, container: &ContainerStart) -> ContainerRun {
        self.starts.lock().unwrap().push(container.clone());
        let seconds = |place: usize| {
            container.args.get(place).and_then(|text| text.parse().ok()).map(Duration::from_secs)
        };
        let ends = seconds(0).map(|seconds| (seconds, container.args[1].parse().unwrap()));
        let termination = seconds(2).unwrap_or_default();
        ContainerRun { log: format!("hello from {}", container.container), ends, termination }
    }

    fn ended(&self, end: &ContainerEnd<'_>) {
        let at = end.at.duration_since(Clock::new().now()).as_secs();
        let container = end.container.clone();
        self.ends.lock().unwrap().push(ContainerStop { container, at, exit_code: end.exit_code });
    }

    fn assigned(&self, assignments: &[Assignment]) {
        *self.assigned.lock().unwrap() = assignments.to_vec();
    }
}

impl TestNode {
    pub(crate) fn new() -> Self {
        Self::with(FreeChoices::Seeded(1))
    }

    pub(crate) fn with(free_choices: FreeChoices) -> Self {
        Self::on(ApiServer::default(), free_choices)
    }

    fn on(api: ApiServer, free_choices: FreeChoices) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = KubeletConfig {
            free_choices,
            labels: BTreeMap::from([("zone".to_owned(), "a".to_owned())]),
            ..KubeletConfig::new(NODE, dir.path())
        };
        Self { clock: api.clock().clone(), api, config, runtime: Arc::default(), _dir: dir }
    }

    /// A node of a cluster of this version.
    pub(crate) fn of(version: Version) -> Self {
        Self::on(ApiServer::default().with_version(version), FreeChoices::Seeded(1))
    }

    pub(crate) async fn kubelet(&self) -> Kubelet {
        self.try_kubelet().await.unwrap()
    }

    pub(crate) async fn try_kubelet(&self) -> Result<Kubelet, KubeletError> {
        self.try_kubelet_with(self.api.client()).await
    }

    /// A kubelet with a client of its own.
    pub(crate) async fn try_kubelet_with(&self, client: kube::Client) -> Result<Kubelet, KubeletError> {
        let system = System::real();
        Kubelet::start(&system, client, &self.api, self.config.clone(), self.runtime.clone()).await
    }

    pub(crate) fn plugins_dir(&self) -> PathBuf {
        self.config.plugins_dir()
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.api.client())
    }

    pub(crate) fn starts(&self, container: &str) -> Vec<ContainerStart> {
        let starts = self.runtime.starts.lock().unwrap();
        starts.iter().filter(|start| start.container == container).cloned().collect()
    }

    /// The containers that have ended, oldest first.
    pub(crate) fn ends(&self) -> Vec<ContainerStop> {
        self.runtime.ends.lock().unwrap().clone()
    }

    /// Time and exit code of the first container that ended, once there is one.
    pub(crate) async fn first_end(&self) -> (i64, i32) {
        eventually("a container to end", async || self.ends().first().map(|end| (end.at, end.exit_code)))
            .await
    }

    /// What kubelet said last of its assignments.
    pub(crate) fn assigned(&self) -> Vec<Assignment> {
        self.runtime.assigned.lock().unwrap().clone()
    }

    /// Creates a pod bound to the node.
    pub(crate) async fn bind(&self, name: &str, spec: Value) {
        let mut spec = spec;
        spec["nodeName"] = json!(NODE);
        let pod = json!({ "metadata": { "name": name }, "spec": spec });
        self.pods().create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.pods().delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Deletes the pod with so many seconds of grace; with 0 its object is gone at once.
    pub(crate) async fn delete_within(&self, name: &str, seconds: u32) {
        self.pods().delete(name, &DeleteParams::default().grace_period(seconds)).await.unwrap();
    }

    pub(crate) async fn is_gone(&self, name: &str) {
        eventually(&format!("{name} to be gone"), async || {
            self.pods().get_opt(name).await.unwrap().is_none().then_some(())
        })
        .await;
    }

    /// The pod once it has `phase`.
    pub(crate) async fn phase(&self, name: &str, phase: &str) -> Pod {
        eventually(&format!("{name} to be {phase}"), async || {
            let pod = self.pods().get(name).await.unwrap();
            (pod.status.as_ref()?.phase.as_deref() == Some(phase)).then_some(pod)
        })
        .await
    }

    /// Reason and message of a pod that failed.
    pub(crate) async fn rejection(&self, name: &str) -> (String, String) {
        let status = self.phase(name, "Failed").await.status.unwrap();
        (status.reason.unwrap_or_default(), status.message.unwrap_or_default())
    }

    /// Waits until the Node shows these counts of the widget.
    pub(crate) async fn shows(&self, allocatable: &str, capacity: &str) {
        self.shows_of(WIDGET, allocatable, capacity).await;
    }

    /// Waits until the Node shows these counts of `resource`.
    pub(crate) async fn shows_of(&self, resource: &str, allocatable: &str, capacity: &str) {
        let nodes: Api<Node> = Api::all(self.api.client());
        eventually(&format!("{resource}: {allocatable} allocatable of {capacity}"), async || {
            let status = nodes.get(NODE).await.unwrap().status?;
            let allocatable_now = status.allocatable?.remove(resource)?.0;
            let capacity_now = status.capacity?.remove(resource)?.0;
            (allocatable_now == allocatable && capacity_now == capacity).then_some(())
        })
        .await;
    }

    /// A client of the podresources socket.
    pub(crate) async fn lister(&self) -> PodResourcesListerClient<Channel> {
        PodResourcesListerClient::new(unix::connect(&self.config.podresources_socket()).await.unwrap())
    }
}

/// A pod that runs until it is stopped, with `count` widgets.
pub(crate) fn widgets(count: u32) -> Value {
    json!({ "containers": [container("main", count)] })
}

pub(crate) fn container(name: &str, count: u32) -> Value {
    let amounts = json!({ WIDGET: count.to_string() });
    json!({ "name": name, "image": "none", "resources": { "limits": amounts, "requests": amounts } })
}

/// Gives a container of the pod args: seconds and exit code.
pub(crate) fn ending(mut container: Value, seconds: u32, code: i32) -> Value {
    container["args"] = json!([seconds.to_string(), code.to_string()]);
    container
}

/// The ids that a container has, by its name.
pub(crate) fn ids_of(kubelet: &Kubelet, container: &str) -> BTreeSet<String> {
    kubelet
        .assignments()
        .into_iter()
        .filter(|given| given.container == container)
        .flat_map(|given| given.ids)
        .collect()
}
