//! The explainer in a large cluster: what is sent when, and how long it is. Time stands still but for what is waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use kube::Client;
use kube::client::Body;
use neuron_core::catalog::Catalog;
use neuron_core::ids::CoreSet;
use neuron_core::pod::{BoundPod, PodSpec};
use neuron_core::topology::Policy;
use runtime::System;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use super::{EventSizes, explain};
use crate::index::{
    Advertised, Change, Cluster, Index, ObservedLease, ObservedNode, ObservedPod, Owner, TopologyCache,
};
use crate::leadership::Leadership;

mod bound;

/// A cluster, and the events that were sent: after how many seconds, on which pod, and what they say.
struct World {
    leadership: Arc<Leadership>,
    cluster: Arc<Cluster>,
    sent: Arc<Mutex<Vec<(u64, String, String)>>>,
    /// What the API server answers to the next events in place of taking them.
    refusals: Arc<Mutex<Vec<u16>>>,
    sizes: Arc<EventSizes>,
}

/// Pods that kube-scheduler found no node for. Their UIDs are their names.
fn waiting(name: &str, devices: u32) -> ObservedPod {
    let limits = json!({"aws.amazon.com/neuron": devices.to_string()});
    let spec = json!({"containers": [{"name": "main", "resources": {"limits": limits}}]});
    let spec: PodSpec = serde_json::from_value(spec).unwrap();
    let pod = BoundPod::new("default", name, name, BTreeMap::new(), &spec, None);
    ObservedPod { node: None, unschedulable: true, device_model: None, owner: None, pod: Arc::new(pod) }
}

/// A pod that waits, made by a ReplicaSet of this UID.
fn owned(name: &str, devices: u32, owner: &str) -> ObservedPod {
    let kind = "ReplicaSet".to_owned();
    let owner = Owner { kind, name: format!("{owner}-5d"), uid: owner.to_owned() };
    ObservedPod { owner: Some(Box::new(owner)), ..waiting(name, devices) }
}

const SEVEN: &str = "Instance type inf2.24xlarge does not support requests for device: 7. Please request a different number of \
                     devices.";

impl World {
    /// So many nodes with six devices in a row, of which 1 and 3 are taken, and these pods.
    fn new(nodes: usize, pods: Vec<ObservedPod>) -> World {
        let catalog = Arc::new(Catalog::embedded().clone());
        let mut index = Index::new(TopologyCache::new(catalog, Policy::Documented));
        let names: Vec<String> = (0..nodes).map(|node| format!("n{node:04}")).collect();
        let node = |name: &String| ObservedNode {
            name: name.clone(),
            instance_type: Some("inf2.24xlarge".to_owned()),
            report: None,
            advertised: Advertised::default(),
        };
        index.change_nodes(Change::Listed(names.iter().map(node).collect()));
        index.change_pods(Change::Listed(pods));
        for name in &names {
            let taken = CoreSet::run(2, 2).union(CoreSet::run(6, 2));
            index.reserve("binds", name, taken, Arc::default());
        }
        let cluster = Arc::new(Cluster::new(index));
        // Whoever waits for the lists is told.
        cluster.write(|_| ());
        let leadership = Arc::new(Leadership::alone());
        World { cluster, leadership, sent: Arc::default(), refusals: Arc::default(), sizes: Arc::default() }
    }

    /// Explains for so many seconds; `then` is done at each event.
    async fn explain_for(&self, seconds: u64, then: impl Fn(&Cluster, &str) + Clone + Send + 'static) {
        let began = Instant::now();
        let (cluster, sent, refusals) = (self.cluster.clone(), self.sent.clone(), self.refusals.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (cluster, sent, then) = (cluster.clone(), sent.clone(), then.clone());
            let refusal = refusals.lock().unwrap().pop();
            async move {
                if let Some(status) = refusal {
                    let refused = axum::body::Body::from(json!({"code": status}).to_string());
                    return Ok(Response::builder().status(status).body(refused)?);
                }
                let body = request.into_body().collect().await?.to_bytes();
                let event: Event = serde_json::from_slice(&body)?;
                let pod = event.regarding.and_then(|pod| pod.name).unwrap_or_default();
                then(&cluster, &pod);
                sent.lock().unwrap().push((began.elapsed().as_secs(), pod, event.note.unwrap_or_default()));
                Ok::<_, tower::BoxError>(Response::new(axum::body::Body::from(body)))
            }
        });
        let client = Client::new(service, "default");
        let sizes = self.sizes.clone();
        let delay = Duration::from_secs(10);
        let (cluster, leadership) = (self.cluster.clone(), self.leadership.clone());
        let explaining = explain(System::real(), client, cluster, leadership, delay, sizes);
        // It has no end of its own.
        let _ = timeout(Duration::from_secs(seconds), explaining).await;
    }

    fn notes(&self) -> Vec<String> {
        self.sent.lock().unwrap().iter().map(|(_, _, note)| note.clone()).collect()
    }
}

fn gone(cluster: &Cluster, pod: &str) {
    cluster.write(|index| index.change_pods(Change::Gone(pod.to_owned())));
}

/// 2,000 pods of a few shapes.
fn many() -> Vec<ObservedPod> {
    (0..2000).map(|pod| waiting(&format!("p{pod:04}"), [3, 4, 7][pod % 3])).collect()
}

#[tokio::test(start_paused = true)]
async fn an_explanation_is_sent_before_the_next_one_is_made() {
    let world = World::new(5000, many());
    // Had it been made before, it would be sent.
    let others_go = |cluster: &Cluster, told: &str| {
        for pod in 0..2000 {
            let pod = format!("p{pod:04}");
            if pod != told {
                gone(cluster, &pod);
            }
        }
    };
    world.explain_for(60, others_go).await;
    assert_eq!(world.notes().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_note_is_no_longer_than_it_may_be_and_says_how_many_nodes_it_leaves_out() {
    let world = World::new(5000, vec![waiting("three", 3), waiting("seven", 7)]);
    world.explain_for(60, |_, _| {}).await;
    let notes = world.notes();
    assert!(notes.iter().all(|note| note.len() <= 1024));
    let [seven, three] = &notes[..] else { panic!("{notes:?}") };
    assert!(seven.ends_with("Please request a different number of devices."), "{seven}");
    let said: Vec<&str> = three.split("; ").collect();
    let (last, nodes) = said.split_last().unwrap();
    assert_eq!(
        nodes[0],
        "n0000: no linked set of 3 free Neuron devices: 4 free, the largest linked set has 2"
    );
    assert_eq!(nodes.len(), 11);
    assert_eq!(*last, "and 4989 nodes more");
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_plugin_is_dead_neither_hides_what_others_say_nor_is_named() {
    let world = World::new(2, vec![waiting("three", 3), waiting("seven", 7)]);
    let empty = ObservedNode {
        name: "n9".to_owned(),
        instance_type: Some("inf2.24xlarge".to_owned()),
        report: None,
        advertised: Advertised::default(),
    };
    let renewed_yesterday = |node: &str| ObservedLease {
        node: node.to_owned(),
        renewed: "2025-01-01T00:00:00Z".to_owned(),
        lasts: Duration::from_secs(40),
    };
    let today = "2025-01-02T00:00:00Z".parse::<Timestamp>().unwrap().into();
    world.cluster.lease_gap.heard();
    world.cluster.write(|index| {
        index.change_nodes(Change::Applied(empty));
        let leases = vec![renewed_yesterday("n0001"), renewed_yesterday("n9")];
        index.change_leases(Change::Listed(leases), Instant::now(), today);
    });
    sleep(Duration::from_secs(1)).await;
    world.explain_for(60, |_, _| {}).await;
    let torn = "n0000: no linked set of 3 free Neuron devices: 4 free, the largest linked set has 2";
    assert_eq!(world.notes(), [SEVEN, torn]);
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_tells_and_then_everything_that_is_so() {
    let mut world = World::new(1, vec![waiting("one", 7)]);
    world.leadership = Arc::new(Leadership::elected());
    let becomes_leader = async {
        sleep(Duration::from_secs(30)).await;
        assert_eq!(world.notes(), [""; 0]);
        world.leadership.lead_for(Duration::from_secs(3600));
    };
    tokio::join!(world.explain_for(60, |_, _| {}), becomes_leader);
    assert_eq!(world.notes(), [SEVEN]);
}

/// Seed 91017.
#[tokio::test(start_paused = true)]
async fn a_deposed_leader_forgets_what_it_told_pods_that_are_gone() {
    let mut world = World::new(1, vec![waiting("one", 7), waiting("other", 7)]);
    world.leadership = Arc::new(Leadership::elected());
    world.leadership.lead_for(Duration::from_secs(30));
    let is_deposed = async {
        sleep(Duration::from_secs(60)).await;
        assert!(!world.leadership.leads());
        for (pod, left) in [("one", 1), ("other", 0)] {
            gone(&world.cluster, pod);
            sleep(Duration::from_secs(1)).await;
            assert_eq!(world.sizes.sent(), left, "{pod} is gone");
        }
    };
    tokio::join!(world.explain_for(120, |_, _| {}), is_deposed);
}

/// Seed 740273: what waits to be told once it has held for a while may be about a pod that goes meanwhile.
#[tokio::test(start_paused = true)]
async fn a_deposed_leader_forgets_what_it_was_yet_to_tell() {
    let holder = ObservedPod { node: Some("n0000".into()), unschedulable: false, ..waiting("holder", 2) };
    let mut world = World::new(1, vec![holder]);
    world.leadership = Arc::new(Leadership::elected());
    world.leadership.lead_for(Duration::from_secs(5));
    let is_deposed = async {
        sleep(Duration::from_secs(4)).await;
        assert_eq!(world.sizes.waiting(), 1, "nobody knows what the pod holds");
        sleep(Duration::from_secs(56)).await;
        assert!(!world.leadership.leads());
        gone(&world.cluster, "holder");
        sleep(Duration::from_secs(1)).await;
        assert_eq!(world.sizes.waiting(), 0);
    };
    tokio::join!(world.explain_for(120, |_, _| {}), is_deposed);
    assert_eq!(world.notes(), [""; 0]);
}

/// A run on kind, in which two of three pods had ended that were to end for another one.
#[tokio::test(start_paused = true)]
async fn a_pod_that_others_end_for_meanwhile_is_told_nothing() {
    let world = World::new(1, vec![waiting("one", 3), waiting("other", 7)]);
    let others_end = ObservedPod { unschedulable: false, ..waiting("one", 3) };
    // Both are still among those to look at.
    world.cluster.write(|index| index.change_pods(Change::Applied(others_end)));
    world.explain_for(60, |_, _| {}).await;
    assert_eq!(world.notes(), [SEVEN]);
    world.cluster.write(|index| index.change_pods(Change::Applied(waiting("one", 3))));
    world.explain_for(60, |_, _| {}).await;
    let [_, told] = &world.notes()[..] else { panic!("{:?}", world.notes()) };
    assert!(told.starts_with("n0000: no linked set of 3 free Neuron devices"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_an_owner_is_told_itself() {
    let world = World::new(1, vec![waiting("one", 7), waiting("other", 7)]);
    world.explain_for(60, |_, _| {}).await;
    assert_eq!(world.notes(), [SEVEN, SEVEN]);
}

#[tokio::test(start_paused = true)]
async fn a_replica_set_of_a_thousand_is_one_event_for_each_reason() {
    let mut pods: Vec<ObservedPod> = (0..1000).map(|pod| owned(&format!("web-{pod:04}"), 7, "web")).collect();
    pods.extend([owned("web-three", 3, "web"), owned("api-0", 7, "api")]);
    let mut elsewhere = owned("elsewhere", 7, "web");
    Arc::make_mut(&mut elsewhere.pod).full_name = "other/elsewhere".into();
    pods.push(elsewhere);
    let world = World::new(1, pods);
    world.explain_for(600, |_, _| {}).await;
    let once = " (told once for all pods of ReplicaSet web-5d that wait for the same reason)";
    let three = "n0000: no linked set of 3 free Neuron devices: 4 free, the largest linked set has 2";
    let sent: Vec<(String, String)> =
        world.sent.lock().unwrap().iter().map(|(_, pod, note)| (pod.clone(), note.clone())).collect();
    let expected = [
        ("api-0", SEVEN.to_owned()),
        ("elsewhere", SEVEN.to_owned()),
        ("web-0000", format!("{SEVEN}{once}")),
        ("web-three", format!("{three}{once}")),
    ];
    assert_eq!(sent, expected.map(|(pod, note)| (pod.to_owned(), note)));
}

#[tokio::test(start_paused = true)]
async fn another_pod_is_told_once_the_one_with_the_event_is_gone() {
    let pods = ["web-0", "web-1", "web-2"].map(|name| owned(name, 7, "web"));
    let world = World::new(1, pods.to_vec());
    world
        .explain_for(60, |cluster, told| {
            if told == "web-0" {
                gone(cluster, told);
            }
        })
        .await;
    let told: Vec<String> = world.sent.lock().unwrap().iter().map(|(_, pod, _)| pod.clone()).collect();
    assert_eq!(told, ["web-0", "web-1"]);
}

/// Who asks why a pod waits looks at one that does, and events are kept for an hour.
#[tokio::test(start_paused = true)]
async fn another_pod_is_told_once_the_one_with_the_event_is_bound() {
    let pods = ["web-0", "web-1", "web-2"].map(|name| owned(name, 3, "web"));
    let world = World::new(1, pods.to_vec());
    world
        .explain_for(60, |cluster, told| {
            if told == "web-0" {
                let bound = ObservedPod { node: Some("n0000".into()), ..owned(told, 3, "web") };
                cluster.write(|index| index.change_pods(Change::Applied(bound)));
            }
        })
        .await;
    let sent = world.sent.lock().unwrap();
    let unlinked = sent.iter().filter(|(_, _, note)| note.contains("no linked set"));
    let told: Vec<&str> = unlinked.map(|(_, pod, _)| &**pod).collect();
    assert_eq!(told, ["web-0", "web-1"], "{sent:#?}");
}

#[tokio::test(start_paused = true)]
async fn events_above_the_rate_are_sent_later_and_none_is_lost() {
    let pods = (0..200).map(|pod| waiting(&format!("p{pod:04}"), 7)).collect();
    let world = World::new(1, pods);
    world.explain_for(600, |_, _| {}).await;
    let sent = world.sent.lock().unwrap();
    let told: BTreeSet<&String> = sent.iter().map(|(_, pod, _)| pod).collect();
    assert_eq!((sent.len(), told.len()), (200, 200));
    let within = |seconds| sent.iter().filter(|(after, _, _)| *after < seconds).count();
    // Fifty at once, and ten a second from then on.
    assert!((50..=60).contains(&within(1)), "{}", within(1));
    assert!((90..=100).contains(&within(5)), "{}", within(5));
    assert_eq!(within(17), 200);
}

#[tokio::test(start_paused = true)]
async fn pods_of_one_owner_that_are_held_back_hold_back_no_other() {
    let mut pods: Vec<ObservedPod> = (0..60).map(|pod| waiting(&format!("p{pod:04}"), 7)).collect();
    pods.extend((0..1000).map(|pod| owned(&format!("web-{pod:04}"), 7, "web")));
    pods.push(waiting("z", 7));
    let world = World::new(1, pods);
    world.explain_for(600, |_, _| {}).await;
    let sent = world.sent.lock().unwrap();
    assert_eq!(sent.len(), 62);
    assert!(sent.iter().all(|(after, _, _)| *after < 3), "{:?}", sent.last());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_held_back_and_no_longer_waits_is_told_nothing() {
    let pods = (0..200).map(|pod| waiting(&format!("p{pod:04}"), 7)).collect();
    let world = World::new(1, pods);
    let last_goes = |cluster: &Cluster, told: &str| {
        if told == "p0049" {
            (50..200).for_each(|pod| gone(cluster, &format!("p{pod:04}")));
        }
    };
    world.explain_for(600, last_goes).await;
    assert_eq!(world.notes().len(), 50);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_this_extender_may_not_send_is_sent_once_it_may() {
    for status in [401, 403] {
        let world = World::new(1, vec![waiting("one", 7)]);
        world.refusals.lock().unwrap().extend([status; 2]);
        world.explain_for(60, |_, _| {}).await;
        assert_eq!(world.notes(), [SEVEN], "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn pods_of_one_owner_that_ask_for_something_else_are_told_of_that() {
    let pods = [("job-0", 3), ("job-1", 4), ("job-2", 4)];
    let world = World::new(1, pods.map(|(name, devices)| owned(name, devices, "job")).to_vec());
    world.explain_for(60, |_, _| {}).await;
    let told: Vec<String> = world.sent.lock().unwrap().iter().map(|(_, pod, _)| pod.clone()).collect();
    assert_eq!(told, ["job-0", "job-1"]);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_told_of_models_where_it_is_not_known_what_a_node_is() {
    let wants = ObservedPod { device_model: Some("Trainium2".to_owned()), ..waiting("one", 1) };
    let world = World::new(1, vec![wants]);
    let unreadable = ObservedNode {
        name: "new".to_owned(),
        instance_type: Some("trn2.48xlarge".to_owned()),
        report: Some(ObservedNode::read_report("{")),
        advertised: Advertised::default(),
    };
    world.cluster.write(|index| index.change_nodes(Change::Applied(unreadable)));
    world.explain_for(60, |_, _| {}).await;
    assert_eq!(world.notes(), [""; 0]);
    world.cluster.write(|index| index.change_nodes(Change::Gone("new".to_owned())));
    world.explain_for(60, |_, _| {}).await;
    assert_eq!(world.notes().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_the_api_server_does_not_want_is_not_sent_again() {
    let world = World::new(1, vec![waiting("one", 7)]);
    world.refusals.lock().unwrap().push(422);
    let again = async {
        sleep(Duration::from_secs(30)).await;
        world.cluster.write(Index::explain_all);
    };
    tokio::join!(world.explain_for(60, |_, _| {}), again);
    assert_eq!(world.notes(), [""; 0]);
}
