//! `verify` on the embedded cluster: everything passes on a whole suite, and the check that names what is broken fails.

#![allow(clippy::unwrap_used, reason = "a failing helper of a test should say where")]

use std::future::pending;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use neuron_e2e::verify::{Check, CheckResult, Settings, verify};
use neuron_e2e_engine::cluster::Cluster as _;
use neuron_e2e_engine::embedded::{self, Embedded, Options};
use neuron_e2e_engine::scenario::{Part, library};
use serde_json::json;
use testkit_support::Wait;

/// Does the work on an embedded cluster with a node of each type, and pods that stand for the suite's own, which run in this
/// process.
async fn on_suite<T: Send + 'static>(
    types: &[&str],
    work: impl AsyncFnOnce(&Embedded) -> T + Send + 'static,
) -> T {
    let nodes: Vec<_> = types.iter().map(|name| json!({"type": name})).collect();
    let file = json!({"about": "Has nodes.", "nodes": nodes, "steps": []}).to_string();
    let scenario = library::parse("verify", &file, &Default::default()).unwrap().remove(0);
    let on_it = async move |cluster: Embedded| {
        add_suite(&cluster).await;
        let result = work(&cluster).await;
        cluster.down().await?;
        Ok(result)
    };
    embedded::on_cluster(&scenario, Options::default(), on_it).await.unwrap()
}

async fn add_suite(cluster: &Embedded) {
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
    let wait = Wait { timeout: LONG, poll: POLL };
    wait.until("the suite's pods to be ready", async || {
        let pods = pods.list(&ListParams::default()).await?.items;
        Ok(pods.iter().all(kind_driver::status::is_ready))
    })
    .await
    .unwrap();
}

async fn verified(cluster: &Embedded, timeout: Duration) -> Vec<Check> {
    let settings = Settings {
        image: "neuron-workload".to_owned(),
        namespace: "default".to_owned(),
        scheduler: "my-scheduler".to_owned(),
        node_label: None,
        wait: Wait { timeout, poll: POLL },
    };
    let checks = verify(&cluster.client(), &settings, pending(), |_| {}).await.unwrap();
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

/// Simulated time, as all.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread")]
async fn every_check_passes_on_a_whole_suite() {
    let checks =
        on_suite(&["inf2.24xlarge", "trn1.32xlarge"], async |cluster| verified(cluster, LONG).await).await;
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
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_run_one_after_the_other_where_a_node_has_one_device() {
    let checks = on_suite(&["inf2.xlarge"], async |cluster| verified(cluster, LONG).await).await;
    assert_eq!(that(CheckResult::Failed, &checks), [""; 0], "{checks:#?}");
    assert_eq!(that(CheckResult::NotApplicable, &checks), ["2 linked devices", "nothing is shared"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_extender_the_pods_say_so() {
    let checks = on_suite(&["inf2.24xlarge"], async |cluster| {
        cluster.stop(Part::Extender, 0).await.unwrap();
        let pods: Api<Pod> = Api::namespaced(cluster.client(), "kube-system");
        pods.delete("k8s-neuron-scheduler-0", &kube::api::DeleteParams::default()).await.unwrap();
        let wait = Wait { timeout: LONG, poll: POLL };
        wait.until("the extender's pod to be gone", async || {
            Ok(pods.get_opt("k8s-neuron-scheduler-0").await?.is_none())
        })
        .await
        .unwrap();
        verified(cluster, SHORT).await
    })
    .await;
    assert_eq!(
        that(CheckResult::Failed, &checks),
        ["extender", "2 linked devices", "1 device", "1 core", "7 devices, which no node serves"],
        "{checks:#?}"
    );
    assert_eq!(
        seen(&checks, "extender"),
        "no pod of the extender is there; install the suite as deploy/README.md says"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_label_that_contradicts_the_report_fails_the_check_of_its_node() {
    let checks = on_suite(&["inf2.24xlarge", "inf2.xlarge"], async |cluster| {
        let nodes: Api<Node> = Api::all(cluster.client());
        let label = json!({"metadata": {"labels": {"node.kubernetes.io/instance-type": "trn1.32xlarge"}}});
        nodes.patch("n1", &PatchParams::default(), &Patch::Merge(&label)).await.unwrap();
        verified(cluster, LONG).await
    })
    .await;
    assert_eq!(that(CheckResult::Failed, &checks), ["node n1"], "{checks:#?}");
    // The node might serve any count.
    assert!(that(CheckResult::NotApplicable, &checks).contains(&"unsupported count"), "{checks:#?}");
    assert_eq!(
        seen(&checks, "node n1"),
        "Node label node.kubernetes.io/instance-type says trn1.32xlarge, the node's Neuron device plugin reports \
         inf2.24xlarge; correct the label"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_of_more_than_kubelet_advertises_fails_the_check_of_its_node() {
    let checks = on_suite(&["inf2.24xlarge"], async |cluster| {
        cluster.stop(Part::Plugin, 0).await.unwrap();
        verified(cluster, SHORT).await
    })
    .await;
    let failed = that(CheckResult::Failed, &checks);
    assert!(failed.contains(&"node n1"), "{checks:#?}");
    assert_eq!(
        seen(&checks, "node n1"),
        "the report has 6 healthy of aws.amazon.com/neuron, kubelet has allocatable 0 of 6"
    );
}
