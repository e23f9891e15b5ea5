//! A refusal between two watches. Time stands still but for what is waited for.

use std::collections::BTreeMap;
use std::time::Duration;

use neuron_core::catalog::Catalog;
use neuron_core::pod::{BoundPod, PodSpec};
use neuron_core::topology::Policy;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::*;
use crate::index::{Advertised, Change, ObservedNode, ObservedPod, TopologyCache};

fn spec() -> Value {
    let limits = json!({"aws.amazon.com/neuron": "1"});
    json!({"containers": [{"name": "main", "resources": {"limits": limits}}]})
}

/// An inf2.xlarge whose only device a pod holds.
fn cluster() -> Arc<Cluster> {
    let topologies = TopologyCache::new(Arc::new(Catalog::embedded().clone()), Policy::Documented);
    let cluster = Arc::new(Cluster::new(Index::new(topologies)));
    let instance_type = Some("inf2.xlarge".to_owned());
    let advertised = Advertised { any: true, devices: true, cores: true };
    let node = ObservedNode { name: "n1".to_owned(), instance_type, report: None, advertised };
    cluster.write(|index| index.change_nodes(Change::Listed(vec![node])));
    let record = json!({"v": 1, "node": "n1", "lnc": 1, "containers": {"main": {"devices": [0]}}});
    let annotations = BTreeMap::from([("neuron-scheduler/allocation".to_owned(), record.to_string())]);
    let spec: PodSpec = serde_json::from_value(spec()).unwrap();
    let pod = BoundPod::new("default", "held", "held", annotations, &spec, None);
    let held = ObservedPod {
        node: Some("n1".to_owned()),
        unschedulable: false,
        device_model: None,
        owner: None,
        pod,
    };
    cluster.write(|index| index.change_pods(Change::Listed(vec![held])));
    cluster
}

/// What filter answers for a pod that asks for one device.
async fn answer(cluster: &Arc<Cluster>) -> Value {
    let metadata = json!({"name": "asks", "namespace": "default", "uid": "asks"});
    let body = json!({"Pod": {"metadata": metadata, "spec": spec()}, "NodeNames": ["n1"]}).to_string();
    let answer = Filter::new(Arc::clone(cluster), Arc::default(), Arc::default())
        .filter(serde_json::from_str(&body).unwrap())
        .await;
    serde_json::to_value(answer).unwrap()
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

/// A pod without a record holds nobody knows what of the node.
#[tokio::test(start_paused = true)]
async fn after_half_a_minute_a_pod_is_refused_for_a_holder_that_stays_unknown() {
    let cluster = cluster();
    let spec: PodSpec = serde_json::from_value(spec()).unwrap();
    let pod = BoundPod::new("default", "stray", "held", BTreeMap::new(), &spec, None);
    let stray = ObservedPod {
        node: Some("n1".to_owned()),
        unschedulable: false,
        device_model: None,
        owner: None,
        pod,
    };
    cluster.write(|index| index.change_pods(Change::Applied(stray)));
    let filter = Filter::new(Arc::clone(&cluster), Arc::default(), Arc::default());
    let ask = async || {
        let body = json!({"Pod": {"metadata": {"uid": "asks"}, "spec": self::spec()}, "NodeNames": ["n1"]});
        let body = body.to_string();
        serde_json::to_value(filter.filter(serde_json::from_str(&body).unwrap()).await).unwrap()
    };
    let why = "it is not known yet which devices pod default/stray holds; the node takes no new Neuron pod until its device plugin reports it";
    for seconds in [0, 15, 15] {
        sleep(Duration::from_secs(seconds)).await;
        assert_eq!(ask().await["Error"], format!("n1: {why}"));
    }
    sleep(Duration::from_secs(1)).await;
    let answer = ask().await;
    assert_eq!((&answer["FailedNodes"], &answer["Error"]), (&json!({"n1": why}), &json!("")), "{answer}");
    // Once it is known whether the node takes the pod, another half minute may pass.
    cluster.write(|index| index.change_pods(Change::Gone("held".to_owned())));
    assert_eq!(ask().await["NodeNames"], json!(["n1"]));
}
