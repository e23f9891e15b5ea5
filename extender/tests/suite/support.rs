//! One extender over an in-memory API server, with calls to that server that a test can delay, fail or lose.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fake_cluster::api::ApiServer;
use fake_cluster::clock::Clock;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Api, Client, ResourceExt};
use neuron_extender::{Config, serve};
use runtime::System;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testkit_support::{eventually, within};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::http_client::{call, http_client};
pub(crate) use crate::objects::{bound, node, pod};

/// What happens to the next call that would bind a pod.
pub(crate) enum Fault {
    /// It waits for a permit, then goes through.
    Held(Arc<Semaphore>),
    /// It is carried out, and the connection breaks before the answer.
    AnswerLost,
    /// It is not carried out, and the connection breaks.
    CallLost,
    /// It is never answered nor carried out.
    Silent,
    /// It is answered with this status by something in between.
    Status(u16),
    /// It is refused as for an unbound pod that a finalizer keeps although it is deleted: the API server in memory has no
    /// finalizers.
    BeingDeleted,
}

/// Faults of the calls to come, first come first served.
#[derive(Clone, Default)]
pub(crate) struct Faults {
    bindings: Arc<Mutex<VecDeque<Fault>>>,
    disconnected: Arc<AtomicBool>,
    lost_events: Arc<AtomicUsize>,
    writes: Arc<Mutex<Vec<String>>>,
}

impl Faults {
    pub(crate) fn push(&self, fault: Fault) {
        self.bindings.lock().unwrap().push_back(fault);
    }

    /// No list and no watch is answered after `true`; those that are open go on.
    pub(crate) fn disconnect_watches(&self, disconnected: bool) {
        self.disconnected.store(disconnected, Ordering::SeqCst);
    }

    /// The next so many events are not written.
    pub(crate) fn lose_events(&self, count: usize) {
        self.lost_events.store(count, Ordering::SeqCst);
    }

    /// Every call so far that is no read: its method and path.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.writes.lock().unwrap().clone()
    }

    /// The extender's client: the API server behind these faults.
    pub(crate) fn client(&self, api: &ApiServer) -> Client {
        let (router, faults) = (api.router(), self.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let router = router.clone();
            let is_binding = request.uri().path().ends_with("/binding");
            let fault = if is_binding { faults.bindings.lock().unwrap().pop_front() } else { None };
            let path = request.uri().path();
            if request.method() != Method::GET {
                faults.writes.lock().unwrap().push(format!("{} {path}", request.method()));
            }
            let is_list = path == "/api/v1/pods" || path == "/api/v1/nodes";
            let is_disconnected = is_list && faults.disconnected.load(Ordering::SeqCst);
            let one_less = |count: usize| count.checked_sub(1);
            let is_lost = path.ends_with("/events")
                && faults.lost_events.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok();
            async move {
                let broken = || Err(tower::BoxError::from("connection reset by peer"));
                match fault {
                    None if is_disconnected || is_lost => return broken(),
                    None => {}
                    Some(Fault::Held(gate)) => gate.acquire_owned().await?.forget(),
                    Some(Fault::AnswerLost) => {
                        router.oneshot(request).await?;
                        return broken();
                    }
                    Some(Fault::CallLost) => return broken(),
                    Some(Fault::Silent) => return std::future::pending().await,
                    Some(Fault::Status(code)) => return failure(code, "told so"),
                    Some(Fault::BeingDeleted) => {
                        let name = request.uri().path().split('/').nth_back(1).unwrap_or_default();
                        let why = format!("pod {name} is being deleted, cannot be assigned to a host");
                        return failure(
                            409,
                            &format!("Operation cannot be fulfilled on pods/binding \"{name}\": {why}"),
                        );
                    }
                }
                Ok(router.oneshot(request).await?)
            }
        });
        Client::new(service, "default")
    }
}

/// An answer of the API server that says why it did nothing.
fn failure(code: u16, message: &str) -> Result<Response<axum::body::Body>, tower::BoxError> {
    let body = json!({"kind": "Status", "status": "Failure", "message": message, "code": code});
    let response = Response::builder().status(StatusCode::from_u16(code)?);
    Ok(response.body(axum::body::Body::from(body.to_string()))?)
}

pub(crate) struct World {
    pub(crate) api: ApiServer,
    pub(crate) faults: Faults,
    pub(crate) client: Client,
    config: Config,
    /// The CA that the extender's certificate comes from, PEM.
    root: Option<String>,
    extender: Option<Extender>,
}

/// A running extender.
struct Extender {
    address: String,
    http: Client,
    stop: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

impl World {
    /// A cluster with these nodes, by name and instance type, and an extender that is ready.
    pub(crate) async fn with_nodes(nodes: &[(&str, &str)]) -> World {
        World::configured(Config::default(), nodes).await
    }

    /// The same with an extender that binds soon after it was started again: what the one before had under way may take so long.
    pub(crate) async fn that_restarts(nodes: &[(&str, &str)]) -> World {
        let config = Config { bind_deadline: Duration::from_secs(2), ..Config::default() };
        World::configured(config, nodes).await
    }

    pub(crate) async fn configured(config: Config, nodes: &[(&str, &str)]) -> World {
        World::secured(config, None, nodes).await
    }

    /// The same with an extender whose certificate comes from this CA, PEM.
    pub(crate) async fn secured(config: Config, root: Option<&str>, nodes: &[(&str, &str)]) -> World {
        let api = ApiServer::new(Clock::new());
        let client = api.client();
        let mut world = World {
            api,
            faults: Faults::default(),
            client,
            config,
            root: root.map(str::to_owned),
            extender: None,
        };
        for (name, instance_type) in nodes {
            world.node(node(name, instance_type)).await;
        }
        world.start().await;
        world
    }

    /// Starts an extender and waits until it is ready.
    pub(crate) async fn start(&mut self) {
        self.launch().await;
        eventually("the extender is ready", async || (self.get("/readyz").await.0 == 200).then_some(()))
            .await;
    }

    /// Starts an extender.
    pub(crate) async fn launch(&mut self) {
        self.launch_by(|serving| tokio::spawn(serving)).await;
    }

    /// Starts an extender in a runtime of its own, as the program has one: it ends with `serve`, and with it all that
    /// `serve` has not waited for.
    pub(crate) async fn launch_in_own_runtime(&mut self) {
        self.launch_by(|serving| {
            tokio::task::spawn_blocking(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                runtime.block_on(serving)
            })
        })
        .await;
    }

    async fn launch_by(
        &mut self,
        spawn: impl FnOnce(BoxFuture<'static, anyhow::Result<()>>) -> JoinHandle<anyhow::Result<()>>,
    ) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let scheme = if self.config.tls.is_some() { "https" } else { "http" };
        let address = format!("{scheme}://{}", listener.local_addr().unwrap());
        let http = http_client(&address, self.root.as_deref(), None);
        let stop = CancellationToken::new();
        let (config, client) = (self.config.clone(), self.faults.client(&self.api));
        let shutdown = stop.clone();
        let serving = async move {
            let listener = Box::new(TcpListener::from_std(listener)?);
            serve(System::real(), config, client, listener, shutdown).await
        }
        .boxed();
        self.extender = Some(Extender { address, http, stop, task: spawn(serving) });
    }

    /// Where the extender listens.
    pub(crate) fn address(&self) -> &str {
        &self.extender.as_ref().unwrap().address
    }

    /// Begins to end the extender, as SIGTERM does.
    pub(crate) fn shut_down(&self) {
        self.extender.as_ref().unwrap().stop.cancel();
    }

    /// Ends the extender and waits for its end.
    pub(crate) async fn stop(&mut self) {
        let Extender { stop, task, .. } = self.extender.take().unwrap();
        stop.cancel();
        within("the extender to end", task).await.unwrap().unwrap();
    }

    pub(crate) async fn node(&self, node: Value) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes.create(&PostParams::default(), &from(node)).await.unwrap();
    }

    pub(crate) async fn annotate_node(&self, node: &str, key: &str, value: &str) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let patch = json!({"metadata": {"annotations": {key: value}}});
        nodes.patch(node, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    /// Creates a pod.
    pub(crate) async fn create(&self, pod: Value) -> Pod {
        self.pods().create(&PostParams::default(), &from(pod)).await.unwrap()
    }

    /// Creates a pod with one container that asks for this.
    pub(crate) async fn pod(&self, name: &str, resource: &str, count: u32) -> Pod {
        self.create(pod(name, resource, count)).await
    }

    /// Every object of the kinds that the extender reads or writes, as JSON.
    pub(crate) async fn everything(&self) -> Vec<Value> {
        let mut everything = Vec::new();
        for path in ["/api/v1/pods", "/api/v1/nodes", "/apis/events.k8s.io/v1/events"] {
            let list: Value =
                self.client.request(Request::get(path).body(Vec::new()).unwrap()).await.unwrap();
            everything.push(list["items"].clone());
        }
        everything
    }

    pub(crate) async fn read(&self, name: &str) -> Pod {
        self.pods().get(name).await.unwrap()
    }

    /// The node that a pod is bound to, and its core or device ids.
    pub(crate) async fn placed(&self, name: &str) -> (Option<String>, Option<String>) {
        let pod = self.read(name).await;
        let ids = ["NEURON_CORES", "NEURON_DEVS"];
        let ids = ids.iter().find_map(|key| pod.annotations().get(*key).cloned());
        (pod.spec.unwrap().node_name, ids)
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.pods().delete(name, &DeleteParams::default().grace_period(0)).await.unwrap();
    }

    /// Binds a pod as another scheduler would.
    pub(crate) async fn bind_by_hand(&self, name: &str, node: &str, annotations: Value) {
        let binding = json!({
            "metadata": {"name": name, "annotations": annotations}, "target": {"kind": "Node", "name": node},
        });
        let params = PostParams::default();
        let _: Value = self.pods().create_subresource("binding", name, &params, &binding).await.unwrap();
    }

    /// Has a ResourceClaim give the pod's container these resources, as kube-scheduler writes it; the pod as it is then.
    pub(crate) async fn claim(&self, name: &str, resources: &[&str]) -> Pod {
        let mapping = |resource: &&str| {
            let resource = format!("aws.amazon.com/{resource}");
            json!({"containerName": "main", "resourceName": resource, "requestName": "container-0-request-0"})
        };
        let mappings: Vec<Value> = resources.iter().map(mapping).collect();
        let claim =
            json!({"resourceClaimName": format!("{name}-extended-resources-x"), "requestMappings": mappings});
        let patch = Patch::Merge(json!({"status": {"extendedResourceClaimStatus": claim}}));
        self.pods().patch_status(name, &PatchParams::default(), &patch).await.unwrap()
    }

    pub(crate) async fn phase(&self, name: &str, phase: &str) {
        let patch = Patch::Merge(json!({"status": {"phase": phase}}));
        self.pods().patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// The notes of the events of this reason, sorted.
    pub(crate) async fn notes(&self, reason: &str) -> Vec<String> {
        let events: Api<Event> = Api::default_namespaced(self.client.clone());
        let events = events.list(&Default::default()).await.unwrap();
        let events = events.into_iter().filter(|event| event.reason.as_deref() == Some(reason));
        let mut notes: Vec<String> = events.filter_map(|event| event.note).collect();
        notes.sort();
        notes
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        self.call(Method::GET, path, String::new()).await
    }

    /// Posts a body and returns the answer's text; every answer must have status 200.
    pub(crate) async fn post(&self, path: &str, body: impl ToString) -> String {
        let (status, text) = self.call(Method::POST, path, body.to_string()).await;
        assert_eq!(status, 200, "{text}");
        text
    }

    pub(crate) async fn call(&self, method: Method, path: &str, body: impl Into<Vec<u8>>) -> (u16, String) {
        call(self.extender.as_ref().unwrap().http.clone(), method, path, body).await
    }

    /// What `/filter` says about these nodes, asked by name.
    pub(crate) async fn filter(&self, pod: &Pod, nodes: &[&str]) -> Value {
        let args = json!({"Pod": pod, "Nodes": null, "NodeNames": nodes});
        serde_json::from_str(&self.post("/filter", args).await).unwrap()
    }

    /// Whether the pod fits the node now.
    pub(crate) async fn fits(&self, pod: &Pod, node: &str) -> bool {
        self.filter(pod, &[node]).await["NodeNames"] == json!([node])
    }

    /// What `/bind` says; empty when the pod was bound.
    pub(crate) async fn bind(&self, pod: &Pod, node: &str) -> String {
        self.bind_later(pod, node).await.unwrap()
    }

    /// Binds the pod, again where an extender that has just been started does not place pods yet.
    pub(crate) async fn bind_after_start(&self, pod: &Pod, node: &str) -> String {
        eventually("the extender places pods", async || {
            let answer = self.bind(pod, node).await;
            (!answer.contains("has just started")).then_some(answer)
        })
        .await
    }

    /// The same as [`Self::bind`] beside the test.
    pub(crate) fn bind_later(&self, pod: &Pod, node: &str) -> JoinHandle<String> {
        let args = json!({
            "PodName": pod.name_any(), "PodNamespace": "default", "PodUID": pod.uid().unwrap(), "Node": node,
        });
        let http = self.extender.as_ref().unwrap().http.clone();
        tokio::spawn(async move {
            let (status, text) = call(http, Method::POST, "/bind", args.to_string()).await;
            assert_eq!(status, 200, "{text}");
            let answer: Value = serde_json::from_str(&text).unwrap();
            answer["Error"].as_str().unwrap().to_owned()
        })
    }
}

fn from<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}
