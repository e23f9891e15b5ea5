//! A refusal between two watches, and one for what is not known yet. Time stands still but for what is waited for.

use std::collections::BTreeMap;
use std::time::Duration;

use neuron_core::catalog::Catalog;
use neuron_core::ids::CoreSet;
use neuron_core::pod::{BoundPod, PodSpec};
use neuron_core::topology::Policy;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::*;
use crate::index::{Advertised, Change, ObservedNode, ObservedPod, TopologyCache};

/// A pod that asks for so many devices.
fn spec(devices: usize) -> Value {
    let limits = json!({"aws.amazon.com/neuron": devices.to_string()});
    json!({"containers": [{"name": "main", "resources": {"limits": limits}}]})
}

/// The node n1.
fn node(instance_type: &str) -> ObservedNode {
    let instance_type = Some(instance_type.to_owned());
    let advertised = Advertised { any: true, devices: true, cores: true };
    ObservedNode { name: "n1".to_owned(), instance_type, report: None, advertised }
}

/// A pod on n1 with a record of these devices; without any it has no record, and nobody knows which one it holds.
fn holder(name: &str, devices: &[u8]) -> ObservedPod {
    let record = json!({"v": 1, "node": "n1", "lnc": 1, "containers": {"main": {"devices": devices}}});
    let recorded = [("neuron-scheduler/allocation".to_owned(), record.to_string())];
    let annotations = BTreeMap::from_iter(recorded.into_iter().filter(|_| !devices.is_empty()));
    let spec: PodSpec = serde_json::from_value(spec(devices.len().max(1))).unwrap();
    let pod = BoundPod::new("default", name, name, annotations, &spec, None);
    ObservedPod {
        node: Some("n1".into()),
        unschedulable: false,
        device_model: None,
        owner: None,
        pod: Arc::new(pod),
    }
}

/// A cluster of n1 and these pods.
pub(super) fn cluster_of(instance_type: &str, holders: Vec<ObservedPod>) -> Arc<Cluster> {
    let topologies = TopologyCache::new(Arc::new(Catalog::embedded().clone()), Policy::Documented);
    let cluster = Arc::new(Cluster::new(Index::new(topologies)));
    cluster.write(|index| index.change_nodes(Change::Listed(vec![node(instance_type)])));
    cluster.write(|index| index.change_pods(Change::Listed(holders)));
    cluster
}

/// An inf2.xlarge whose only device a pod holds.
fn cluster() -> Arc<Cluster> {
    cluster_of("inf2.xlarge", vec![holder("held", &[0])])
}

/// What the filter answers for a pod that asks for so many devices.
pub(super) async fn ask(filter: &Filter, devices: usize, names: &[&str]) -> Value {
    let metadata = json!({"name": "asks", "namespace": "default", "uid": "asks"});
    let body = json!({"Pod": {"metadata": metadata, "spec": spec(devices)}, "NodeNames": names}).to_string();
    serde_json::to_value(filter.filter(serde_json::from_str(&body).unwrap()).await).unwrap()
}

pub(super) fn filter(cluster: &Arc<Cluster>) -> Filter {
    Filter::new(Arc::clone(cluster), Arc::default(), Arc::default())
}

/// Has a node of six devices come, with its number.
fn comes(cluster: &Cluster, name: &str) -> NodeNumber {
    let node = ObservedNode { name: name.to_owned(), ..node("inf2.24xlarge") };
    cluster.write(|index| index.change_nodes(Change::Applied(node)));
    cluster.read(|index| index.view(name).unwrap().number)
}

/// Why nothing is known of a node on which a Binding is unclear.
const UNCLEAR: &str = "devices of node n1 are reserved for a pod of which it is not known yet whether it was bound; that is mostly known within \
                       a minute";

/// Why nothing is known of a node on which the pod `stray` is.
const STRAY: &str = "it is not known yet which devices pod default/stray holds; the node takes no new Neuron pod until its device plugin \
                     reports it";

/// What it answers for a pod that asks for one device.
async fn answer(cluster: &Arc<Cluster>) -> Value {
    ask(&filter(cluster), 1, &["n1"]).await
}

#[tokio::test(start_paused = true)]
async fn it_waits_for_what_the_next_watch_tells() {
    let cluster = cluster();
    assert_eq!(answer(&cluster).await["NodeNames"], json!([]), "no watch has ended");
    cluster.pod_gap.open();
    let told = async {
        sleep(Duration::from_millis(300)).await;
        cluster.write(|index| index.change_pods(Change::Gone("held".to_owned())));
        cluster.pod_gap.close();
    };
    let (answer, ()) = tokio::join!(answer(&cluster), told);
    assert_eq!((&answer["NodeNames"], &answer["Error"]), (&json!(["n1"]), &json!("")), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn it_is_an_error_where_no_watch_tells_anything_for_a_second() {
    let (cluster, began) = (cluster(), Instant::now());
    cluster.node_gap.open();
    let answer = answer(&cluster).await;
    assert_eq!(began.elapsed(), Duration::from_secs(1));
    let why = "the watch of pods and nodes is being taken up again, so what is free is not known; kube-scheduler tries again by itself";
    assert_eq!(answer["Error"], why, "{answer}");
}

#[tokio::test(start_paused = true)]
async fn calls_wait_for_a_second_after_the_end_of_a_watch_and_not_a_second_each() {
    let (cluster, began) = (cluster(), Instant::now());
    cluster.pod_gap.open();
    for _ in 0..5 {
        assert_ne!(answer(&cluster).await["Error"], "");
    }
    assert_eq!(began.elapsed(), Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_fits_is_given_at_once() {
    let (cluster, began) = (cluster(), Instant::now());
    cluster.write(|index| index.change_pods(Change::Gone("held".to_owned())));
    cluster.pod_gap.open();
    assert_eq!(answer(&cluster).await["NodeNames"], json!(["n1"]));
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn after_half_a_minute_a_pod_is_refused_for_a_holder_that_stays_unknown() {
    let cluster = cluster_of("inf2.xlarge", vec![holder("stray", &[])]);
    let filter = filter(&cluster);
    let ask = async || ask(&filter, 1, &["n1"]).await;
    for seconds in [0, 15, 15] {
        sleep(Duration::from_secs(seconds)).await;
        assert_eq!(ask().await["Error"], format!("n1: {STRAY}"));
    }
    sleep(Duration::from_secs(1)).await;
    let answer = ask().await;
    assert_eq!((&answer["FailedNodes"], &answer["Error"]), (&json!({"n1": STRAY}), &json!("")), "{answer}");
    // Once it is known whether the node takes the pod, another half minute may pass.
    cluster.write(|index| index.change_pods(Change::Gone("stray".to_owned())));
    assert_eq!(ask().await["NodeNames"], json!(["n1"]));
}

#[tokio::test(start_paused = true)]
async fn what_is_known_not_to_be_linked_is_a_refusal_beside_an_unknown_holder() {
    let holders = vec![holder("a", &[1]), holder("b", &[3]), holder("c", &[5]), holder("stray", &[])];
    let cluster = cluster_of("inf2.24xlarge", holders);
    let filter = filter(&cluster);
    let torn = "no linked set of 3 free Neuron devices: 3 free, the largest linked set has 1";
    let answer = ask(&filter, 3, &["n1"]).await;
    assert_eq!((&answer["FailedNodes"], &answer["Error"]), (&json!({"n1": torn}), &json!("")), "{answer}");
    let never = ask(&filter, 7, &["n1"]).await;
    assert_eq!((&never["FailedNodes"], &never["Error"]), (&json!({}), &json!("")), "{never}");
    assert!(never["FailedAndUnresolvableNodes"]["n1"].is_string(), "{never}");
    // One may be free, or the one that the stray holds.
    assert_eq!(ask(&filter, 1, &["n1"]).await["Error"], format!("n1: {STRAY}"));
    cluster.write(|index| index.change_pods(Change::Gone("stray".to_owned())));
    assert_eq!(ask(&filter, 1, &["n1"]).await["NodeNames"], json!(["n1"]));
}

#[tokio::test(start_paused = true)]
async fn after_half_a_minute_a_pod_is_refused_for_a_node_that_stays_unknown() {
    let cluster = cluster();
    let filter = filter(&cluster);
    let ask = async |name: &str| ask(&filter, 1, &[name, "elsewhere"]).await;
    let (full, unknown) = (
        "not enough free: Neuron devices asked 1, free 0 of 1",
        "the Neuron scheduler knows no node of this name",
    );
    for seconds in [0, 15, 15] {
        sleep(Duration::from_secs(seconds)).await;
        let answer = ask("n1").await;
        assert_eq!(answer["Error"], format!("elsewhere: {unknown}"), "what is known is not in doubt");
        assert_eq!(answer["FailedNodes"], json!({}));
    }
    sleep(Duration::from_secs(1)).await;
    let answer = ask("n1").await;
    assert_eq!(answer["FailedNodes"], json!({"n1": full, "elsewhere": unknown}));
    assert_eq!((&answer["NodeNames"], &answer["Error"]), (&json!([]), &json!("")));
    // It comes at last.
    let elsewhere = ObservedNode { name: "elsewhere".to_owned(), ..node("inf2.xlarge") };
    cluster.write(|index| index.change_nodes(Change::Applied(elsewhere)));
    assert_eq!(ask("n1").await["NodeNames"], json!(["elsewhere"]));
    // And is gone again: another half minute may pass.
    cluster.write(|index| index.change_nodes(Change::Gone("elsewhere".to_owned())));
    assert_eq!(ask("n1").await["Error"], format!("elsewhere: {unknown}"));
}

#[tokio::test(start_paused = true)]
async fn what_only_an_unclear_reservation_keeps_out_is_an_error() {
    let cluster = cluster_of("inf2.24xlarge", Vec::new());
    let filter = filter(&cluster);
    let id = cluster.write(|index| index.reserve("other", "n1", CoreSet::run(0, 2), Arc::default()));
    let all = async || {
        let answer = ask(&filter, 6, &["n1"]).await;
        (answer["FailedNodes"].clone(), answer["Error"].clone())
    };
    let taken = "not enough free: Neuron devices asked 6, free 5 of 6";
    assert_eq!(all().await, (json!({"n1": taken}), json!("")), "its Binding is under way");
    cluster.write(|index| index.mark_unclear("other", "n1", id));
    for seconds in [0, 29, 29] {
        sleep(Duration::from_secs(seconds)).await;
        assert_eq!(all().await, (json!({}), json!(UNCLEAR)));
    }
    assert_eq!(ask(&filter, 5, &["n1"]).await["NodeNames"], json!(["n1"]));
    assert_eq!(ask(&filter, 7, &["n1"]).await["Error"], "", "there never are so many");
    // Beside it another Binding is under way: that one's end is seen.
    let other = cluster.write(|index| index.reserve("third", "n1", CoreSet::run(2, 2), Arc::default()));
    let taken = "not enough free: Neuron devices asked 6, free 4 of 6";
    assert_eq!(all().await, (json!({"n1": taken}), json!("")));
    cluster.write(|index| index.release("third", "n1", other));
    cluster.write(|index| index.release("other", "n1", id));
    assert_eq!(ask(&filter, 6, &["n1"]).await["NodeNames"], json!(["n1"]));
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_refused_for_a_binding_that_is_unclear_for_more_than_three_minutes() {
    let cluster = cluster_of("inf2.24xlarge", Vec::new());
    let filter = filter(&cluster);
    let ask = async || ask(&filter, 6, &["n1"]).await;
    let id = cluster.write(|index| index.reserve("other", "n1", CoreSet::run(0, 2), Arc::default()));
    // Each bind of the pod fails, as where an admission webhook is down.
    let fails = || cluster.write(|index| index.mark_unclear("other", "n1", id));
    for seconds in [0, 90, 90] {
        sleep(Duration::from_secs(seconds)).await;
        fails();
        assert_eq!(ask().await["Error"], UNCLEAR);
    }
    sleep(Duration::from_secs(1)).await;
    fails();
    let (taken, answer) = ("not enough free: Neuron devices asked 6, free 5 of 6", ask().await);
    assert_eq!((&answer["FailedNodes"], &answer["Error"]), (&json!({"n1": taken}), &json!("")), "{answer}");
    cluster.write(|index| index.release("other", "n1", id));
    assert_eq!(ask().await["NodeNames"], json!(["n1"]));
}

#[tokio::test(start_paused = true)]
async fn what_is_reserved_for_the_pod_is_not_given_beside_an_unknown_holder() {
    let cluster = cluster_of("inf2.24xlarge", Vec::new());
    let filter = filter(&cluster);
    cluster.write(|index| index.reserve("asks", "n1", CoreSet::run(0, 12), Arc::default()));
    assert_eq!(ask(&filter, 6, &["n1"]).await["NodeNames"], json!(["n1"]));
    cluster.write(|index| index.change_pods(Change::Applied(holder("stray", &[]))));
    assert_ne!(ask(&filter, 6, &["n1"]).await["NodeNames"], json!(["n1"]));
    cluster.write(|index| index.change_pods(Change::Gone("stray".to_owned())));
    assert_eq!(ask(&filter, 6, &["n1"]).await["NodeNames"], json!(["n1"]));
}

#[tokio::test(start_paused = true)]
async fn a_call_takes_back_nothing_that_an_earlier_one_has_admitted() {
    let cluster = cluster_of("inf2.24xlarge", Vec::new());
    let admitted = Arc::new(Admitted::default());
    let filter = Filter::new(Arc::clone(&cluster), admitted.clone(), Arc::default());
    let [n1, n2] = ["n1", "n2"].map(|name| comes(&cluster, name));
    assert_eq!(ask(&filter, 1, &["n1"]).await["NodeNames"], json!(["n1"]));
    assert!(admitted.has("asks", n1) && !admitted.has("asks", n2));
    assert_eq!(ask(&filter, 1, &["n2"]).await["NodeNames"], json!(["n2"]), "as an autoscaler may");
    assert!(admitted.has("asks", n1) && admitted.has("asks", n2));
    assert_eq!(ask(&filter, 7, &["n1", "n2"]).await["NodeNames"], json!([]), "or who knows its UID");
    assert!(admitted.has("asks", n1) && admitted.has("asks", n2));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_named_many_times_is_remembered_once() {
    let cluster = cluster_of("inf2.24xlarge", Vec::new());
    let admitted = Arc::new(Admitted::default());
    let filter = Filter::new(Arc::clone(&cluster), admitted.clone(), Arc::default());
    comes(&cluster, "n2");
    ask(&filter, 1, &["n1", "n2"].repeat(1000)).await;
    assert_eq!(admitted.nodes_of("asks"), 2);
}

#[tokio::test(start_paused = true)]
async fn why_a_pod_is_refused_is_told_in_few_words_and_kept_once_for_all_nodes() {
    const NODES: usize = 2_000;
    let cluster = cluster_of("inf2.24xlarge", Vec::new());
    let names: Vec<String> = (0..NODES).map(|number| format!("unknown-{number}")).collect();
    let mut spec = spec(1);
    spec["containers"][0]["resources"]["limits"]["aws.amazon.com/neuron"] = "9".repeat(1_000_000).into();
    let metadata = json!({"name": "asks", "namespace": "default", "uid": "asks"});
    let body = json!({"Pod": {"metadata": metadata, "spec": spec}, "NodeNames": names}).to_string();
    let answer = filter(&cluster).filter(serde_json::from_str(&body).unwrap()).await;
    let texts: Vec<&Why> = answer.failed_and_unresolvable_nodes.values().collect();
    assert_eq!((texts.len(), &*answer.error), (NODES, ""));
    assert!(texts.iter().all(|text| Arc::ptr_eq(&text.0, &texts[0].0)), "it is one text");
    let begins = "Container main asks for aws.amazon.com/neuron: \"9999";
    assert!(texts[0].0.starts_with(begins) && texts[0].0.len() < 200, "{:.2000}", texts[0]);
    assert!(answer.to_json(body.as_bytes()).unwrap().len() < NODES * 200);
}

/// What tells that nothing is known, of so many nodes.
fn is_short(told: &Value, begins: &str, nodes: usize) {
    let told = told.as_str().unwrap();
    assert!(told.len() <= 1024 && told.starts_with(begins), "{} bytes: {told:.2000}", told.len());
    let (said, more) = told.rsplit_once("; and ").unwrap();
    let more: usize = more.strip_suffix(" nodes more").unwrap().parse().unwrap();
    assert_eq!(
        said.split("; ").filter(|part| !part.starts_with("that is mostly known")).count() + more,
        nodes,
        "{told}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_error_names_the_first_nodes_and_counts_the_others() {
    const NODES: usize = 5_000;
    let cluster = cluster_of("inf2.xlarge", vec![holder("stray", &[])]);
    let names: Vec<String> = (0..NODES).map(|number| format!("unknown-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let told = ask(&filter(&cluster), 1, &names).await["Error"].clone();
    is_short(&told, "unknown-0: the Neuron scheduler knows no node of this name; unknown-1: the ", NODES);
}

#[tokio::test(start_paused = true)]
async fn an_error_for_unclear_reservations_names_the_first_nodes_and_counts_the_others() {
    let cluster = cluster_of("inf2.xlarge", Vec::new());
    let nodes: Vec<String> = (0..50).map(|number| format!("u{number}")).collect();
    for name in &nodes {
        comes(&cluster, name);
        let id = cluster.write(|index| index.reserve(name, name, CoreSet::run(0, 12), Arc::default()));
        cluster.write(|index| index.mark_unclear(name, name, id));
    }
    let names: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let told = ask(&filter(&cluster), 1, &names).await["Error"].clone();
    is_short(&told, "devices of node u0 are reserved for a pod of which it is not known yet", 50);
}
