//! The world of one bind: one node, one pod, and an API server in memory that goes wrong as a test says. Time stands still
//! but for what is waited for; the watch shows what a test says. Made by every test of bind.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use fake_cluster::api::ApiServer;
use fake_cluster::clock::Clock;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Api, Client, ResourceExt as _};
use neuron_core::catalog::Catalog;
use neuron_core::pod::{BoundPod, PodSpec};
use neuron_core::topology::Policy;
use runtime::System;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::index::{Advertised, Change, Cluster, Index, ObservedNode, ObservedPod, TopologyCache};
use crate::leadership::Leadership;
use crate::metrics::Metrics;
use crate::server::{Bodies, Shared, router};
use crate::verbs::bind::{BindError, BindTimeouts, Binder, Bound};
use crate::verbs::{Admitted, Filter, Prioritize};
use crate::wire::BindArgs;

pub(super) const TIMEOUTS: BindTimeouts =
    BindTimeouts { bind: Duration::from_secs(4), binding: Duration::from_secs(60) };
/// How long every read of a pod takes.
pub(super) const READ: Duration = Duration::from_millis(500);
pub(super) const NODE: &str = "n1";

/// What becomes of the next call that would bind a pod.
pub(super) enum Fault {
    /// It is carried out and never answered.
    NeverAnswered,
    /// It is carried out, and the connection breaks before the answer.
    AnswerLost,
    /// It is not carried out, and the connection breaks.
    CallLost,
    /// It is not carried out, and nobody says so.
    CallNeverSent,
    /// It is not carried out and answered with this status.
    Status(u16),
    /// Somebody else binds the pod to a node first, with these annotations.
    BoundBefore(&'static str, Value),
    /// It is carried out, and its query is kept here.
    Kept(Arc<Mutex<String>>),
    /// It panics.
    Panics,
    /// Somebody deletes the pod first, and perhaps makes it again.
    Deleted { and_made_again: bool },
}

pub(super) struct World {
    pub(super) pods: Api<Pod>,
    faults: Arc<Mutex<VecDeque<Fault>>>,
    /// Whether no pod can be read by its name; lists are answered.
    pub(super) reads_fail: Arc<Mutex<bool>>,
    pub(super) cluster: Arc<Cluster>,
    pub(super) client: Client,
    pub(super) binder: Binder,
    pub(super) admitted: Arc<Admitted>,
}

fn spec(devices: u32) -> Value {
    let limits = json!({"aws.amazon.com/neuron": devices.to_string()});
    json!({"containers": [{"name": "main", "image": "workload", "resources": {"limits": limits}}]})
}

fn pod(name: &str, devices: u32) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec(devices)})).unwrap()
}

pub(super) fn record(node: &str, device: u8) -> Value {
    let record = json!({"v": 1, "node": node, "lnc": 1, "containers": {"main": {"devices": [device]}}});
    json!({"neuron-scheduler/allocation": record.to_string()})
}

fn node(advertised: Advertised) -> ObservedNode {
    let instance_type = Some("inf2.24xlarge".to_owned());
    ObservedNode { name: NODE.to_owned(), instance_type, report: None, advertised }
}

pub(super) async fn bind_by_hand(pods: &Api<Pod>, name: &str, node: &str, annotations: Value) {
    let target = json!({"kind": "Node", "name": node});
    let binding = json!({"metadata": {"name": name, "annotations": annotations}, "target": target});
    let _: Value = pods.create_subresource("binding", name, &PostParams::default(), &binding).await.unwrap();
}

impl World {
    /// A cluster with one node, an inf2.24xlarge with six devices, and one pod that asks for one.
    pub(super) async fn new() -> (World, BindArgs) {
        let server = ApiServer::new(Clock::new());
        let pods: Api<Pod> = Api::default_namespaced(server.client());
        let cluster = Arc::new(Cluster::new(Index::new(TopologyCache::new(
            Arc::new(Catalog::embedded().clone()),
            Policy::Documented,
        ))));
        let node = node(Advertised { any: true, devices: true, cores: true });
        cluster.write(|index| index.change_nodes(Change::Listed(vec![node])));
        cluster.write(|index| index.change_pods(Change::Listed(Vec::new())));
        let faults = Arc::<Mutex<VecDeque<Fault>>>::default();
        let reads_fail = Arc::new(Mutex::new(false));
        let client = client(&server, pods.clone(), faults.clone(), reads_fail.clone());
        let admitted = Arc::new(Admitted::default());
        let binder =
            Binder::new(System::real(), cluster.clone(), client.clone(), TIMEOUTS, CancellationToken::new())
                .admitting(admitted.clone());
        let world = World { pods, faults, reads_fail, cluster, client, binder, admitted };
        let args = world.create("one", 1).await;
        (world, args)
    }

    /// The same once the extender has led for so many seconds: in its first minute it binds what asks for Neuron hardware.
    pub(super) async fn led_for(seconds: u64) -> (World, BindArgs) {
        let world = World::new().await;
        sleep(Duration::from_secs(seconds)).await;
        world
    }

    /// The extender's routes before this binder.
    pub(super) fn routes(&self) -> Router {
        let (cluster, metrics) = (self.cluster.clone(), Arc::<Metrics>::default());
        let filter = Filter::new(cluster.clone(), self.admitted.clone(), metrics.clone());
        let prioritize = Prioritize::new(cluster.clone(), metrics.clone());
        let (binder, leadership) = (self.binder.clone(), Arc::new(Leadership::alone()));
        let bodies = Bodies::default();
        router(Shared { cluster, filter, prioritize, binder, metrics, leadership, bodies }, false)
    }

    /// Creates a pod, and asks to bind it, as filter has admitted.
    pub(super) async fn create(&self, name: &str, devices: u32) -> BindArgs {
        let created = self.pods.create(&PostParams::default(), &pod(name, devices)).await.unwrap();
        let number = self.cluster.read(|index| index.view(NODE).unwrap().number);
        self.admitted.admit(&created.uid().unwrap(), &[number], |_| true);
        BindArgs {
            pod_name: name.to_owned(),
            pod_namespace: "default".to_owned(),
            pod_uid: created.uid().unwrap(),
            node: NODE.to_owned(),
        }
    }

    pub(super) fn fault(&self, fault: Fault) {
        self.faults.lock().unwrap().push_back(fault);
    }

    /// What comes of the bind, and after how many milliseconds.
    pub(super) async fn bind(&self, args: &BindArgs) -> (Result<Bound, BindError>, u128) {
        let BindArgs { pod_name, pod_namespace, pod_uid, node } = args;
        let args = BindArgs {
            pod_name: pod_name.clone(),
            pod_namespace: pod_namespace.clone(),
            pod_uid: pod_uid.clone(),
            node: node.clone(),
        };
        let began = Instant::now();
        (self.binder.bind(args).await, began.elapsed().as_millis())
    }

    /// Has the watch show the pod as it is, bound or not.
    pub(super) async fn show(&self, args: &BindArgs) {
        let live = self.pods.get(&args.pod_name).await.unwrap();
        let spec: PodSpec = serde_json::from_value(spec(1)).unwrap();
        let annotations = live.annotations().clone();
        let device_model = annotations.get("neuron-scheduler/device-model").cloned();
        let pod = BoundPod::new("default", &args.pod_name, &args.pod_uid, annotations, &spec, None);
        let observed = ObservedPod {
            node: live.spec.unwrap().node_name.map(Into::into),
            unschedulable: false,
            device_model,
            owner: None,
            pod: Arc::new(pod),
        };
        self.cluster.write(|index| index.change_pods(Change::Applied(observed)));
    }

    /// Has the node's report say that these devices are unhealthy.
    pub(super) fn break_devices(&self, broken: &[u8]) {
        let device = |id: u8| {
            let health = if broken.contains(&id) { "Unhealthy" } else { "Healthy" };
            let links: Vec<u8> =
                [id.checked_sub(1), (id < 5).then_some(id + 1)].into_iter().flatten().collect();
            json!({"id": id, "links": links, "health": health})
        };
        let devices: Vec<Value> = (0..6).map(device).collect();
        let report = json!({"v": 1, "instanceType": "inf2.24xlarge", "lnc": 1, "coresPerDevice": 2, "devices": devices, "holders": []});
        let advertised = Advertised { any: true, devices: true, cores: true };
        let node =
            ObservedNode { report: Some(ObservedNode::read_report(&report.to_string())), ..node(advertised) };
        self.cluster.write(|index| index.change_nodes(Change::Applied(node)));
    }

    /// Has the node advertise something else.
    pub(super) fn advertise(&self, advertised: Advertised) {
        self.cluster.write(|index| index.change_nodes(Change::Applied(node(advertised))));
    }

    /// Has a ResourceClaim give the pod its devices; the watch does not show it.
    pub(super) async fn claim(&self, name: &str) {
        let mapping =
            json!({"containerName": "main", "resourceName": "aws.amazon.com/neuron", "requestName": "r"});
        let claim = json!({"resourceClaimName": "c", "requestMappings": [mapping]});
        let patch = Patch::Merge(json!({"status": {"extendedResourceClaimStatus": claim}}));
        self.pods.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    pub(super) fn is_reserved(&self, args: &BindArgs) -> bool {
        self.cluster
            .read(|index| index.reservations_of(&args.pod_uid).is_some_and(|nodes| nodes.contains_key(NODE)))
    }

    pub(super) async fn node_of(&self, name: &str) -> Option<String> {
        self.pods.get(name).await.unwrap().spec.unwrap().node_name
    }
}

fn client(
    server: &ApiServer,
    pods: Api<Pod>,
    faults: Arc<Mutex<VecDeque<Fault>>>,
    reads_fail: Arc<Mutex<bool>>,
) -> Client {
    let router = server.router();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (router, pods) = (router.clone(), pods.clone());
        let is_read = request.method() == http::Method::GET;
        let fault = if is_read { None } else { faults.lock().unwrap().pop_front() };
        let is_of_one = is_read && request.uri().path().contains("/pods/");
        let fails = is_of_one && *reads_fail.lock().unwrap();
        async move {
            let broken = || Err(tower::BoxError::from("connection reset by peer"));
            if is_read {
                sleep(READ).await;
            }
            match fault {
                _ if fails => return broken(),
                None => {}
                Some(Fault::NeverAnswered) => {
                    router.oneshot(request).await?;
                    return std::future::pending().await;
                }
                Some(Fault::AnswerLost) => {
                    router.oneshot(request).await?;
                    return broken();
                }
                Some(Fault::CallLost) => return broken(),
                Some(Fault::CallNeverSent) => return std::future::pending().await,
                Some(Fault::Kept(query)) => {
                    request.uri().query().unwrap().clone_into(&mut query.lock().unwrap())
                }
                Some(Fault::Panics) => panic!("it broke"),
                Some(Fault::Status(code)) => {
                    let response = Response::builder().status(StatusCode::from_u16(code)?);
                    return Ok(response.body(axum::body::Body::from("told so"))?);
                }
                Some(Fault::BoundBefore(node, annotations)) => {
                    bind_by_hand(&pods, "one", node, annotations).await;
                }
                Some(Fault::Deleted { and_made_again }) => {
                    pods.delete("one", &DeleteParams::default().grace_period(0)).await?;
                    if and_made_again {
                        pods.create(&PostParams::default(), &pod("one", 1)).await?;
                    }
                }
            }
            Ok(router.oneshot(request).await?)
        }
    });
    Client::new(service, "default")
}

/// What `/bind` answers, in the form in which kube-scheduler reads it.
pub(super) async fn bind_over_http(routes: &Router, args: &BindArgs) -> String {
    let BindArgs { pod_name, pod_namespace, pod_uid, node } = args;
    let body = json!({"PodName": pod_name, "PodNamespace": pod_namespace, "PodUID": pod_uid, "Node": node})
        .to_string();
    answer(routes, Request::post("/bind").body(body.into()).unwrap()).await
}

/// The text of `/metrics`.
pub(super) async fn metrics(routes: &Router) -> String {
    answer(routes, Request::get("/metrics").body(axum::body::Body::empty()).unwrap()).await
}

async fn answer(routes: &Router, call: Request<axum::body::Body>) -> String {
    let answer = routes.clone().oneshot(call).await.unwrap();
    String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

pub(super) fn unknown(reason: &str) -> Result<Bound, BindError> {
    Err(BindError::OutcomeUnknown { reason: reason.to_owned() })
}
