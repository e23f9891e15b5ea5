//! `verify` on the embedded cluster: everything passes on a whole suite, and the check that names what is broken fails.

#![allow(clippy::unwrap_used, reason = "a failing helper of a test should say where")]

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use neuron_e2e::verify::{Check, CheckResult, Settings, verify};
use neuron_e2e_engine::cluster::Cluster as _;
use neuron_e2e_engine::embedded::{Embedded, Options};
use neuron_e2e_engine::scenario::{Part, library};
use serde_json::json;
use testkit_support::Wait;

/// An embedded cluster with a node of each type, and pods that stand for the suite's own, which run in this process.
async fn cluster(types: &[&str]) -> Embedded {
    let nodes: Vec<_> = types.iter().map(|name| json!({"type": name})).collect();
    let file = json!({"about": "Has nodes.", "nodes": nodes, "steps": []}).to_string();
    let scenario = library::parse("verify", &file, &Default::default()).unwrap().remove(0);
    let cluster = Embedded::up(&scenario, Options::default()).await.unwrap();
    let parts = [
        ("k8s-neuron-scheduler-0", "registry.example/neuron-extender:v1"),
        ("neuron-device-plugin-0", "neuron-device-plugin:dev"),
        ("my-scheduler-0", "registry.k8s.io/kube-scheduler:v1.34.4"),
    ];
    let pods: Api<Pod> = Api::namespaced(cluster.client(), "kube-system");
    for (name, image) in parts {
        let spec = json!({"nodeName": "n1", "containers": [{"name": "main", "image": image}]});
        let pod = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap();
        pods.create(&PostParams::default(), &pod).await.unwrap();
    }
    beside(&cluster, async {
        Wait { timeout: Duration::from_secs(20), poll: Duration::from_millis(5) }
            .until("the suite's pods to be ready", async || {
                let pods = pods.list(&ListParams::default()).await?.items;
                Ok(pods.iter().all(kind_driver::status::is_ready))
            })
            .await
            .unwrap();
    })
    .await;
    cluster
}

/// What comes of the work while the cluster's time passes.
async fn beside<T>(cluster: &Embedded, work: impl Future<Output = T>) -> T {
    tokio::select! {
        done = work => done,
        () = async { loop { cluster.pass_time().await } } => unreachable!("time does not end"),
    }
}

async fn verified(cluster: &Embedded, timeout: Duration) -> Vec<Check> {
    let settings = Settings {
        image: "neuron-workload".to_owned(),
        namespace: "default".to_owned(),
        scheduler: "my-scheduler".to_owned(),
        node_label: None,
        wait: Wait { timeout, poll: Duration::from_millis(5) },
    };
    let checks = beside(cluster, verify(&cluster.client(), &settings, |_| {})).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(cluster.client(), "default");
    let left = pods.list(&ListParams::default()).await.unwrap().items;
    assert!(left.is_empty(), "{} pods stayed behind", left.len());
    checks
}

/// The names of the checks that came to this.
fn that(result: CheckResult, checks: &[Check]) -> Vec<&str> {
    checks.iter().filter(|check| check.result == result).map(|check| check.check.as_str()).collect()
}

fn seen<'a>(checks: &'a [Check], name: &str) -> &'a str {
    &checks.iter().find(|check| check.check == name).unwrap().seen
}

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(300);

#[tokio::test(flavor = "multi_thread")]
async fn every_check_passes_on_a_whole_suite() {
    let cluster = cluster(&["inf2.24xlarge", "trn1.32xlarge"]).await;
    let checks = verified(&cluster, LONG).await;
    assert_eq!(
        that(CheckResult::Passed, &checks),
        [
            "extender",
            "device plugin",
            "scheduler my-scheduler",
            "node n1",
            "node n2",
            "2 linked devices",
            "1 device",
            "1 core",
            "nothing is shared",
            "7 devices, which no node serves",
            "everything deleted again",
        ],
        "{checks:#?}"
    );
    assert_eq!(
        seen(&checks, "node n1"),
        "inf2.24xlarge, 6 devices and 12 cores in label, report and allocatable"
    );
    assert!(
        seen(&checks, "7 devices, which no node serves").contains(
            "does not support requests for device: 7. Please request a different number of devices."
        ),
        "{checks:#?}"
    );
    assert_eq!(seen(&checks, "everything deleted again"), "4 pods");
    cluster.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_run_one_after_the_other_where_a_node_has_one_device() {
    let cluster = cluster(&["inf2.xlarge"]).await;
    let checks = verified(&cluster, LONG).await;
    assert_eq!(that(CheckResult::Failed, &checks), [""; 0], "{checks:#?}");
    assert_eq!(that(CheckResult::NotApplicable, &checks), ["2 linked devices", "nothing is shared"]);
    cluster.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_extender_the_pods_say_so() {
    let cluster = cluster(&["inf2.24xlarge"]).await;
    cluster.stop(Part::Extender, 0).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(cluster.client(), "kube-system");
    pods.delete("k8s-neuron-scheduler-0", &kube::api::DeleteParams::default()).await.unwrap();
    let gone = Wait { timeout: LONG, poll: Duration::from_millis(5) };
    let is_gone = gone.until("the extender's pod to be gone", async || {
        Ok(pods.get_opt("k8s-neuron-scheduler-0").await?.is_none())
    });
    beside(&cluster, is_gone).await.unwrap();
    let checks = verified(&cluster, SHORT).await;
    assert_eq!(
        that(CheckResult::Failed, &checks),
        ["extender", "2 linked devices", "1 device", "1 core", "7 devices, which no node serves"],
        "{checks:#?}"
    );
    assert_eq!(
        seen(&checks, "extender"),
        "no pod of the extender is there; install the suite as deploy/README.md says"
    );
    cluster.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_label_that_contradicts_the_report_fails_the_check_of_its_node() {
    let cluster = cluster(&["inf2.24xlarge", "inf2.xlarge"]).await;
    let nodes: Api<Node> = Api::all(cluster.client());
    let label = json!({"metadata": {"labels": {"node.kubernetes.io/instance-type": "trn1.32xlarge"}}});
    nodes.patch("n1", &PatchParams::default(), &Patch::Merge(&label)).await.unwrap();
    let checks = verified(&cluster, LONG).await;
    assert_eq!(that(CheckResult::Failed, &checks), ["node n1"], "{checks:#?}");
    // The node might serve any count.
    assert!(that(CheckResult::NotApplicable, &checks).contains(&"unsupported count"), "{checks:#?}");
    assert_eq!(
        seen(&checks, "node n1"),
        "Node label node.kubernetes.io/instance-type says trn1.32xlarge, the node's Neuron device plugin reports \
         inf2.24xlarge; correct the label"
    );
    cluster.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_of_more_than_kubelet_advertises_fails_the_check_of_its_node() {
    let cluster = cluster(&["inf2.24xlarge"]).await;
    cluster.stop(Part::Plugin, 0).await.unwrap();
    let checks = verified(&cluster, SHORT).await;
    let failed = that(CheckResult::Failed, &checks);
    assert!(failed.contains(&"node n1"), "{checks:#?}");
    assert_eq!(
        seen(&checks, "node n1"),
        "the report has 6 healthy of aws.amazon.com/neuron, kubelet has allocatable 0 of 6"
    );
    cluster.down().await.unwrap();
}
