//! Binds against an API server in memory whose answers to the Binding a test can change. Time stands still but for what is
//! waited for; the watch shows what a test says.

use std::collections::VecDeque;
use std::sync::Mutex;

use fake_cluster::api::ApiServer;
use fake_cluster::clock::Clock;
use http::{Request, Response, StatusCode};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Api, ResourceExt as _};
use neuron_core::catalog::Catalog;
use neuron_core::pod::PodSpec;
use neuron_core::topology::Policy;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;
use crate::index::{Change, ObservedNode, ObservedPod, TopologyCache};

const TIMEOUTS: BindTimeouts =
    BindTimeouts { bind: Duration::from_secs(4), binding: Duration::from_secs(60) };
/// How long every read of a pod takes.
const READ: Duration = Duration::from_millis(500);
const NODE: &str = "n1";

/// What becomes of the next call that would bind a pod.
enum Fault {
    /// It is carried out and never answered.
    NeverAnswered,
    /// It is carried out, and the connection breaks before the answer.
    AnswerLost,
    /// It is not carried out, and the connection breaks.
    CallLost,
    /// It is not carried out and answered with this status.
    Status(u16),
    /// Somebody else binds the pod to a node first, with these annotations.
    BoundBefore(&'static str, Value),
    /// Somebody deletes the pod first, and perhaps makes it again.
    Deleted { and_made_again: bool },
}

struct World {
    pods: Api<Pod>,
    faults: Arc<Mutex<VecDeque<Fault>>>,
    reads_fail: Arc<Mutex<bool>>,
    cluster: Arc<Cluster>,
    binder: Binder,
}

fn spec(devices: u32) -> Value {
    let limits = json!({"aws.amazon.com/neuron": devices.to_string()});
    json!({"containers": [{"name": "main", "image": "workload", "resources": {"limits": limits}}]})
}

fn pod(name: &str, devices: u32) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec(devices)})).unwrap()
}

fn record(node: &str, device: u8) -> Value {
    let record = json!({"v": 1, "node": node, "lnc": 1, "containers": {"main": {"devices": [device]}}});
    json!({"neuron-scheduler/allocation": record.to_string()})
}

async fn bind_by_hand(pods: &Api<Pod>, name: &str, node: &str, annotations: Value) {
    let target = json!({"kind": "Node", "name": node});
    let binding = json!({"metadata": {"name": name, "annotations": annotations}, "target": target});
    let _: Value = pods.create_subresource("binding", name, &PostParams::default(), &binding).await.unwrap();
}

impl World {
    /// A cluster with one node, an inf2.24xlarge with six devices, and one pod that asks for one.
    async fn new() -> (World, BindArgs) {
        let server = ApiServer::new(Clock::new());
        let pods: Api<Pod> = Api::default_namespaced(server.client());
        let cluster = Arc::new(Cluster::new(Index::new(TopologyCache::new(
            Arc::new(Catalog::embedded().clone()),
            Policy::Documented,
        ))));
        let node = ObservedNode {
            name: NODE.to_owned(),
            instance_type: Some("inf2.24xlarge".to_owned()),
            report: None,
        };
        cluster.write(|index| index.change_nodes(Change::Listed(vec![node])));
        cluster.write(|index| index.change_pods(Change::Listed(Vec::new())));
        let faults = Arc::<Mutex<VecDeque<Fault>>>::default();
        let reads_fail = Arc::new(Mutex::new(false));
        let client = client(&server, pods.clone(), faults.clone(), reads_fail.clone());
        let binder = Binder::new(cluster.clone(), client, TIMEOUTS);
        let world = World { pods, faults, reads_fail, cluster, binder };
        let args = world.create("one", 1).await;
        (world, args)
    }

    /// Creates a pod, and asks to bind it.
    async fn create(&self, name: &str, devices: u32) -> BindArgs {
        let created = self.pods.create(&PostParams::default(), &pod(name, devices)).await.unwrap();
        BindArgs {
            pod_name: name.to_owned(),
            pod_namespace: "default".to_owned(),
            pod_uid: created.uid().unwrap(),
            node: NODE.to_owned(),
        }
    }

    fn fault(&self, fault: Fault) {
        self.faults.lock().unwrap().push_back(fault);
    }

    /// What comes of the bind, and after how many milliseconds.
    async fn bind(&self, args: &BindArgs) -> (Result<Bound, BindError>, u128) {
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

    /// As it is shown by a watch, bound or not.
    async fn show(&self, args: &BindArgs) {
        let live = self.pods.get(&args.pod_name).await.unwrap();
        let spec: PodSpec = serde_json::from_value(spec(1)).unwrap();
        let annotations = live.annotations().clone();
        let pod = BoundPod::new("default", &args.pod_name, &args.pod_uid, annotations, &spec, None);
        let observed = ObservedPod { node: live.spec.unwrap().node_name, unschedulable: false, pod };
        self.cluster.write(|index| index.change_pods(Change::Applied(observed)));
    }

    fn is_reserved(&self, args: &BindArgs) -> bool {
        self.cluster.read(|index| index.has_reservation(&args.pod_uid, NODE))
    }

    async fn node_of(&self, name: &str) -> Option<String> {
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
        let fails = is_read && *reads_fail.lock().unwrap();
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

fn unknown(reason: &str) -> Result<Bound, BindError> {
    Err(BindError::OutcomeUnknown { reason: reason.to_owned() })
}

#[tokio::test(start_paused = true)]
async fn the_last_quarter_of_the_time_is_for_a_look_at_the_pod() {
    let (world, args) = World::new().await;
    world.show(&args).await;
    world.fault(Fault::NeverAnswered);
    let (bound, took) = world.bind(&args).await;
    assert!(matches!(bound, Ok(Bound::WithRecord(_))), "{bound:?}");
    assert_eq!(took, 3500, "3 s for the Binding, and a read");

    let other = world.create("other", 1).await;
    world.show(&other).await;
    *world.reads_fail.lock().unwrap() = true;
    world.fault(Fault::NeverAnswered);
    let (bound, took) = world.bind(&other).await;
    assert_eq!((bound, took), (unknown("the API server did not answer in time"), 3500));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_no_watch_has_shown_yet_is_read() {
    let (world, args) = World::new().await;
    let (bound, took) = world.bind(&args).await;
    assert!(matches!(bound, Ok(Bound::WithRecord(_))), "{bound:?}");
    assert_eq!(took, 500);
    world.show(&args).await;
    assert_eq!(world.bind(&args).await, (Ok(Bound::Already), 0), "the watch has shown it");

    let lost = world.create("lost", 1).await;
    *world.reads_fail.lock().unwrap() = true;
    let (bound, _) = world.bind(&lost).await;
    assert!(matches!(&bound, Err(BindError::NotRead(reason)) if reason.contains("reset")), "{bound:?}");
}

#[tokio::test(start_paused = true)]
async fn only_the_pod_of_that_name_and_uid_is_bound() {
    let (world, args) = World::new().await;
    world.show(&args).await;
    // The watch shows this UID under another name: the API server is asked, and knows no such pod.
    let renamed = BindArgs { pod_name: "two".to_owned(), ..world.create("three", 1).await };
    let renamed = BindArgs { pod_uid: args.pod_uid.clone(), ..renamed };
    assert_eq!(world.bind(&renamed).await, (Err(BindError::Gone), 500));
    let moved = BindArgs { pod_namespace: "other".to_owned(), pod_name: "one".to_owned(), ..renamed };
    assert_eq!(world.bind(&moved).await, (Err(BindError::Gone), 500));
    let before = BindArgs { pod_uid: "before".to_owned(), pod_namespace: "default".to_owned(), ..moved };
    let replaced = BindError::Replaced { requested: "before".to_owned(), found: args.pod_uid.clone() };
    assert_eq!(world.bind(&before).await, (Err(replaced), 500));
    assert_eq!(world.node_of("one").await, None);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_was_made_again_meanwhile_is_not_bound() {
    for and_made_again in [false, true] {
        let (world, args) = World::new().await;
        world.show(&args).await;
        world.fault(Fault::Deleted { and_made_again });
        let (bound, _) = world.bind(&args).await;
        match (and_made_again, bound) {
            (false, Err(BindError::BindingRefused(reason))) => assert_eq!(reason, "pods \"one\" not found"),
            (true, Err(BindError::Replaced { requested, found })) => {
                assert_eq!(requested, args.pod_uid);
                assert_eq!(Some(found), world.pods.get("one").await.unwrap().uid());
            }
            (_, bound) => panic!("{and_made_again}: {bound:?}"),
        }
        assert!(!world.is_reserved(&args));
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_goes_while_its_bindings_answer_is_lost_is_gone() {
    let (world, args) = World::new().await;
    world.show(&args).await;
    world.pods.delete("one", &DeleteParams::default().grace_period(0)).await.unwrap();
    world.fault(Fault::CallLost);
    assert_eq!(world.bind(&args).await.0, Err(BindError::Gone));
    assert!(!world.is_reserved(&args));
}

#[tokio::test(start_paused = true)]
async fn a_binding_of_our_own_is_a_success_though_its_answer_is_lost() {
    let (world, args) = World::new().await;
    world.show(&args).await;
    world.fault(Fault::AnswerLost);
    // Whether the record counts need not be asked: the node may have gone meanwhile.
    let gone = async {
        tokio::task::yield_now().await;
        world.cluster.write(|index| index.change_nodes(Change::Gone(NODE.to_owned())));
    };
    let ((bound, took), ()) = tokio::join!(world.bind(&args), gone);
    assert!(matches!(bound, Ok(Bound::WithRecord(_))), "{bound:?}");
    assert_eq!(took, 500);
    assert_eq!(world.node_of("one").await.as_deref(), Some(NODE));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_somebody_else_bound_meanwhile_is_told_by_its_record() {
    let elsewhere = BindError::BoundElsewhere { node: "n2".to_owned() };
    for (node, annotations, wanted) in [
        (NODE, record(NODE, 3), None),
        (NODE, json!({}), Some(BindError::BoundWithoutRecord)),
        (NODE, record("n2", 0), Some(BindError::BoundWithoutRecord)),
        ("n2", record("n2", 0), Some(elsewhere.clone())),
        // To the letter what this bind would have written.
        ("n2", record(NODE, 0), Some(elsewhere)),
    ] {
        let (world, args) = World::new().await;
        world.show(&args).await;
        let case = format!("{node} {annotations}");
        world.fault(Fault::BoundBefore(node, annotations));
        assert_eq!(world.bind(&args).await.0.err(), wanted, "{case}");
        assert_eq!(world.is_reserved(&args), wanted.is_none(), "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_tells_whether_the_binding_may_still_be_carried_out() {
    for (code, may_be_carried_out) in [
        (400, false),
        (403, false),
        (404, false),
        (408, true),
        (409, false),
        (429, false),
        (500, true),
        (504, true),
    ] {
        let (world, args) = World::new().await;
        world.show(&args).await;
        world.fault(Fault::Status(code));
        let wanted = match may_be_carried_out {
            true => unknown("told so"),
            false => Err(BindError::BindingRefused("told so".to_owned())),
        };
        assert_eq!(world.bind(&args).await.0, wanted, "{code}");
        assert_eq!(world.is_reserved(&args), may_be_carried_out, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_repeated_bind_sends_the_same_record_again() {
    let (world, args) = World::new().await;
    world.show(&args).await;
    world.fault(Fault::CallLost);
    let (bound, _) = world.bind(&args).await;
    assert!(matches!(bound, Err(BindError::OutcomeUnknown { .. })), "{bound:?}");
    let reserved =
        world.cluster.read(|index| index.reservations_of(&args.pod_uid).unwrap()[NODE].annotations.clone());
    // Another pod gets another device in between.
    let other = world.create("other", 1).await;
    assert!(world.bind(&other).await.0.is_ok());
    assert_eq!(world.bind(&args).await.0, Ok(Bound::WithRecord(reserved.clone())));
    let annotations = world.pods.get("one").await.unwrap().annotations().clone();
    assert_eq!(annotations, *reserved);
    assert_eq!(annotations["NEURON_DEVS"], "0");
    let other = world.pods.get("other").await.unwrap().annotations().clone();
    assert_eq!(other["NEURON_DEVS"], "1");
}

#[tokio::test(start_paused = true)]
async fn a_reservation_of_unknown_outcome_ends_when_its_pod_is_not_bound_here() {
    let (world, args) = World::new().await;
    world.show(&args).await;
    world.fault(Fault::CallLost);
    assert!(matches!(world.bind(&args).await.0, Err(BindError::OutcomeUnknown { .. })));
    sleep(TIMEOUTS.binding).await;
    assert!(world.is_reserved(&args), "it is read first");
    // While the pod cannot be read nothing is released.
    *world.reads_fail.lock().unwrap() = true;
    sleep(READ * 2).await;
    assert!(world.is_reserved(&args));
    *world.reads_fail.lock().unwrap() = false;
    sleep(TIMEOUTS.binding + READ).await;
    assert!(!world.is_reserved(&args));
}

#[tokio::test(start_paused = true)]
async fn a_reservation_lasts_while_its_pod_is_bound_here_and_lives() {
    let (world, args) = World::new().await;
    assert!(world.bind(&args).await.0.is_ok());
    sleep(TIMEOUTS.binding * 3).await;
    assert!(world.is_reserved(&args), "no watch has shown it");
    let ended = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    world.pods.patch_status("one", &PatchParams::default(), &ended).await.unwrap();
    sleep(TIMEOUTS.binding * 2).await;
    assert!(!world.is_reserved(&args));
}

#[tokio::test(start_paused = true)]
async fn a_reservation_ends_when_another_pod_of_its_name_or_another_node_has_it() {
    let (world, args) = World::new().await;
    assert!(world.bind(&args).await.0.is_ok());
    world.pods.delete("one", &DeleteParams::default().grace_period(0)).await.unwrap();
    world.create("one", 1).await;
    bind_by_hand(&world.pods, "one", NODE, json!({})).await;
    sleep(TIMEOUTS.binding * 2).await;
    assert!(!world.is_reserved(&args), "another pod of its name is bound here");

    let (world, args) = World::new().await;
    world.show(&args).await;
    world.fault(Fault::CallLost);
    assert!(matches!(world.bind(&args).await.0, Err(BindError::OutcomeUnknown { .. })));
    bind_by_hand(&world.pods, "one", "n2", json!({})).await;
    sleep(TIMEOUTS.binding * 2).await;
    assert!(!world.is_reserved(&args), "it is bound to another node");
}

#[tokio::test(start_paused = true)]
async fn the_end_waits_for_binds_under_way() {
    let (world, args) = World::new().await;
    let binder = world.binder.clone();
    let bind = tokio::spawn(async move { binder.bind(args).await });
    tokio::task::yield_now().await;
    bind.abort();
    world.binder.finish().await;
    assert_eq!(world.node_of("one").await.as_deref(), Some(NODE));
}
