//! A cluster with a scheduler, and what a test creates and waits for there.

use fake_cluster::api::ApiServer;
use fake_cluster::clock::Clock;
use fake_cluster::scheduler::{ExtenderConfig, Scheduler, SchedulerConfig};
use fake_cluster::{System, Version};
use k8s_openapi::api::core::v1::{Node, Pod, PodCondition};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testkit_support::eventually;

pub(crate) const DEVICE: &str = "example.com/device";

/// A cluster and the scheduler `s`, started by [`Cluster::schedule`].
pub(crate) struct Cluster {
    pub(crate) clock: Clock,
    pub(crate) api: ApiServer,
    pub(crate) client: kube::Client,
}

impl Cluster {
    pub(crate) fn new() -> Self {
        Self::of_version(Version::default())
    }

    pub(crate) fn of_version(version: Version) -> Self {
        let api = ApiServer::default().with_version(version);
        Self { clock: api.clock().clone(), client: api.client(), api }
    }

    pub(crate) fn schedule(&self, extenders: Vec<ExtenderConfig>) -> Scheduler {
        let config = SchedulerConfig { name: "s".into(), extenders, seed: 1 };
        Scheduler::start(&System::real(), self.client.clone(), &self.api, config)
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// Creates a node with 8 cpu, 16 GiB, 110 pods and `devices` devices, and `spec` as given.
    pub(crate) async fn node(&self, name: &str, devices: u32, spec: Value) {
        let allocatable = json!({"cpu": "8", "memory": "16Gi", "pods": "110", DEVICE: devices.to_string()});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec,
            "status": {"allocatable": allocatable, "capacity": allocatable}});
        let node: Node = serde_json::from_value(node).unwrap();
        self.nodes().create(&PostParams::default(), &node).await.unwrap();
    }

    pub(crate) async fn nodes_named<const N: usize>(&self, names: [&str; N]) {
        for name in names {
            self.node(name, 4, json!({})).await;
        }
    }

    pub(crate) async fn patch_node(&self, name: &str, patch: Value) {
        self.nodes().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub(crate) async fn patch_node_status(&self, name: &str, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        self.nodes().patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Creates a pod for scheduler `s` that requests `devices` devices; the fields of `spec` replace those of its spec.
    pub(crate) async fn pod(&self, name: &str, devices: u32, spec: Value) {
        let amounts = if devices == 0 { json!({}) } else { json!({DEVICE: devices.to_string()}) };
        let resources = json!({"limits": amounts, "requests": amounts});
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"schedulerName": "s",
                "containers": [{"name": "main", "image": "i", "resources": resources}]}});
        pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let pod: Pod = serde_json::from_value(pod).unwrap();
        self.pods().create(&PostParams::default(), &pod).await.unwrap();
    }

    /// Creates a pod for scheduler `s` that requests nothing and has these annotations.
    pub(crate) async fn annotated_pod(&self, name: &str, annotations: Value) {
        let pod = json!({"metadata": {"name": name, "annotations": annotations},
            "spec": {"schedulerName": "s", "containers": [{"name": "main", "image": "i"}]}});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        self.pods().create(&PostParams::default(), &pod).await.unwrap();
    }

    pub(crate) async fn delete_pod(&self, name: &str) {
        self.pods().delete(name, &DeleteParams::default().grace_period(0)).await.unwrap();
    }

    /// The node of the pod once it is bound.
    pub(crate) async fn bound(&self, name: &str) -> String {
        let node = |pod: &Pod| pod.spec.as_ref()?.node_name.clone();
        self.pod_once(name, "bound", node).await
    }

    /// The pod's PodScheduled=False condition once it is there.
    pub(crate) async fn refused(&self, name: &str) -> PodCondition {
        let refused = |pod: &Pod| {
            let conditions = pod.status.clone()?.conditions?;
            let wanted = |c: &PodCondition| c.type_ == "PodScheduled" && c.status == "False";
            conditions.into_iter().find(wanted)
        };
        self.pod_once(name, "refused", refused).await
    }

    /// The first event of `reason` about the pod.
    pub(crate) async fn event(&self, pod: &str, reason: &str) -> Event {
        let events: Api<Event> = Api::namespaced(self.client.clone(), "default");
        let selector = ListParams::default().fields(&format!("regarding.name={pod},reason={reason}"));
        eventually(&format!("an event {reason} about {pod}"), async || {
            events.list(&selector).await.unwrap().items.into_iter().next()
        })
        .await
    }

    async fn pod_once<T>(&self, name: &str, what: &str, found: impl Fn(&Pod) -> Option<T>) -> T {
        eventually(&format!("pod {name} to be {what}"), async || found(&self.pods().get(name).await.unwrap()))
            .await
    }
}
