//! A cluster with a scheduler, and extenders that are small HTTP servers on loopback.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use fake_cluster::api::ApiServer;
use fake_cluster::clock::Clock;
use fake_cluster::scheduler::{ExtenderConfig, ManagedResource, Scheduler, SchedulerConfig};
use futures::StreamExt;
use http::StatusCode;
use k8s_openapi::api::core::v1::{Node, Pod, PodCondition};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

pub(crate) const DEVICE: &str = "example.com/device";
const LIMIT: Duration = Duration::from_secs(10);

/// What an extender of a test answers.
pub(crate) enum Answer {
    Json(Value),
    Status(u16),
    Never,
}

/// An extender that answers as the test says and remembers what it was asked.
#[derive(Clone)]
pub(crate) struct FakeExtender {
    pub(crate) url: String,
    calls: Arc<Mutex<Vec<(String, String)>>>,
}

impl FakeExtender {
    pub(crate) async fn start(answer: impl Fn(&str, &Value) -> Answer + Send + Sync + 'static) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let calls: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
        let (answer, log) = (Arc::new(answer), calls.clone());
        let handler = move |Path(verb): Path<String>, body: Bytes| {
            let (answer, log) = (answer.clone(), log.clone());
            async move {
                log.lock().unwrap().push((verb.clone(), String::from_utf8(body.to_vec()).unwrap()));
                match answer(&verb, &serde_json::from_slice(&body).unwrap()) {
                    Answer::Json(json) => axum::Json(json).into_response(),
                    Answer::Status(code) => StatusCode::from_u16(code).unwrap().into_response(),
                    Answer::Never => std::future::pending::<Response>().await,
                }
            }
        };
        let router = Router::new().route("/{verb}", axum::routing::post(handler));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, calls }
    }

    /// Bodies of the calls of one verb, as they came.
    pub(crate) fn bodies(&self, verb: &str) -> Vec<String> {
        let calls = self.calls.lock().unwrap();
        calls.iter().filter(|(called, _)| called == verb).map(|(_, body)| body.clone()).collect()
    }

    /// A filter-only extender that is asked about every pod.
    pub(crate) fn filter(&self) -> ExtenderConfig {
        ExtenderConfig { filter_verb: Some("filter".into()), ..ExtenderConfig::new(&self.url) }
    }

    /// Filters and prioritizes every pod.
    pub(crate) fn prioritize(&self, weight: i64) -> ExtenderConfig {
        ExtenderConfig { prioritize_verb: Some("prioritize".into()), weight, ..self.filter() }
    }

    /// Filters and binds the pods that ask for `DEVICE`.
    pub(crate) fn binder(&self) -> ExtenderConfig {
        let managed = ManagedResource { name: DEVICE.into(), ignored_by_scheduler: false };
        ExtenderConfig { bind_verb: Some("bind".into()), managed_resources: vec![managed], ..self.filter() }
    }
}

/// A filter answer that passes the nodes of the request for which `why` gives no reason.
pub(crate) fn passing(body: &Value, why: impl Fn(&str) -> Option<&'static str>) -> Answer {
    let names = body["NodeNames"].as_array().unwrap().iter().map(|name| name.as_str().unwrap());
    let (mut passed, mut failed) = (Vec::new(), serde_json::Map::new());
    for name in names {
        match why(name) {
            None => passed.push(name),
            Some(reason) => drop(failed.insert(name.into(), reason.into())),
        }
    }
    Answer::Json(json!({"Nodes": null, "NodeNames": passed, "FailedNodes": failed,
        "FailedAndUnresolvableNodes": null, "Error": ""}))
}

/// A cluster and the scheduler `s`, started by [`Cluster::schedule`].
pub(crate) struct Cluster {
    pub(crate) clock: Clock,
    pub(crate) api: ApiServer,
    pub(crate) client: kube::Client,
}

impl Cluster {
    pub(crate) fn new() -> Self {
        let clock = Clock::new();
        let api = ApiServer::new(clock.clone());
        let client = api.client();
        Self { clock, api, client }
    }

    pub(crate) fn schedule(&self, extenders: Vec<ExtenderConfig>) -> Scheduler {
        let config = SchedulerConfig { name: "s".into(), extenders, seed: 1 };
        Scheduler::start(self.client.clone(), self.clock.clone(), config)
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// A node with 8 cpu, 16 GiB, room for 110 pods and `devices` devices, and `spec` as given.
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

    /// A pod for scheduler `s` that asks for `devices` devices; `spec` is laid over its spec.
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

    pub(crate) async fn delete_pod(&self, name: &str) {
        self.pods().delete(name, &DeleteParams::default().grace_period(0)).await.unwrap();
    }

    /// The node of the pod once it is bound.
    pub(crate) async fn bound(&self, name: &str) -> String {
        let node = |pod: &Pod| pod.spec.as_ref()?.node_name.clone();
        self.watch_pod(name, "is bound", node).await
    }

    /// The pod's PodScheduled=False condition once it is there.
    pub(crate) async fn refused(&self, name: &str) -> PodCondition {
        let refused = |pod: &Pod| {
            let conditions = pod.status.clone()?.conditions?;
            let wanted = |c: &PodCondition| c.type_ == "PodScheduled" && c.status == "False";
            conditions.into_iter().find(wanted)
        };
        self.watch_pod(name, "is refused", refused).await
    }

    /// The first event of `reason` about the pod.
    pub(crate) async fn event(&self, pod: &str, reason: &str) -> Event {
        let events: Api<Event> = Api::namespaced(self.client.clone(), "default");
        let about = |event: &Event| {
            let named = event.regarding.as_ref().and_then(|pod| pod.name.as_deref()) == Some(pod);
            (named && event.reason.as_deref() == Some(reason)).then(|| event.clone())
        };
        first(events, &format!("event {reason} about {pod}"), about).await
    }

    async fn watch_pod<T>(&self, name: &str, what: &str, found: impl Fn(&Pod) -> Option<T>) -> T {
        let named = |pod: &Pod| (pod.name_any() == name).then(|| found(pod)).flatten();
        first(self.pods(), &format!("pod {name} {what}"), named).await
    }
}

/// The first object, present or future, in which `found` finds something.
async fn first<K, T>(api: Api<K>, what: &str, found: impl Fn(&K) -> Option<T>) -> T
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    let mut objects = watcher(api, watcher::Config::default()).default_backoff().applied_objects().boxed();
    let search = async {
        loop {
            if let Some(Ok(object)) = objects.next().await
                && let Some(it) = found(&object)
            {
                return it;
            }
        }
    };
    tokio::time::timeout(LIMIT, search).await.unwrap_or_else(|_| panic!("waited in vain: {what}"))
}
