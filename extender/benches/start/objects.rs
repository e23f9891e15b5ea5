//! The objects of a large cluster as its API server has them: 5,000 nodes, 50,000 pods that run there, and some or all of them with
//! devices. Used by what measures.

use std::collections::BTreeMap;

use axum::Router;
use neuron_core::ids::{CoreSet, DeviceSet};
use neuron_core::names::NEURON;
use neuron_core::record::{Allocation, ContainerAllocation};
use neuron_core::report::HolderReport;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api_server::{create, merge};
use crate::whole_node::whole_node;

/// How many nodes and pods there are.
pub(crate) const NODES: usize = 5_000;
pub(crate) const PODS: usize = 50_000;
/// Pods of one node.
pub(crate) const PODS_OF_NODE: usize = PODS / NODES;
/// Objects of a page, as the extender asks for: so many pods have a namespace, and so many nodes a value of the label.
pub(crate) const PAGE: usize = 500;
/// The label of the nodes of a page.
pub(crate) const PAGE_LABEL: &str = "page";

/// The type of the nodes: 16 devices with two cores each.
const TYPE: &str = "trn1.32xlarge";

/// The namespace of the pods of a page.
pub(crate) fn namespace(page: usize) -> String {
    format!("team-{page:03}")
}

/// Creates all objects. Of each node's pods so many hold a device each, and the node's report confirms it.
pub(crate) async fn create_all(api: &Router, holders_of_node: usize) {
    for page in 0..PODS / PAGE {
        create(api, "/api/v1/namespaces", &json!({"metadata": {"name": namespace(page)}})).await;
    }
    for number in 0..NODES {
        let name = format!("ip-10-0-{:02}-{:03}.us-west-2.compute.internal", number / 250, number % 250);
        let mut holders = Vec::new();
        for place in 0..PODS_OF_NODE {
            let device = u8::try_from(place).ok().filter(|_| place < holders_of_node);
            let (pod, uid) = create_pod(api, number * PODS_OF_NODE + place, &name, device).await;
            let cores = device.map(|device| CoreSet::run(2 * device, 2));
            holders.extend(cores.map(|cores| HolderReport { pod, uid, cores }));
        }
        create_node(api, &name, TYPE, number / PAGE, holders).await;
    }
}

/// Creates a node of this type, with the label of its page.
pub(crate) async fn create_node(
    api: &Router,
    name: &str,
    instance_type: &str,
    page: usize,
    holders: Vec<HolderReport>,
) {
    let mut node = node(name, instance_type, holders);
    node["metadata"]["labels"][PAGE_LABEL] = json!(page.to_string());
    create(api, "/api/v1/nodes", &node).await;
}

/// A node of this type, to be created.
pub(crate) fn node(name: &str, instance_type: &str, holders: Vec<HolderReport>) -> Value {
    let text = whole_node(name, instance_type, holders);
    let mut node: Value = serde_json::from_str(&text).expect("a node in JSON");
    // The API server's own.
    node["metadata"]["resourceVersion"].take();
    node
}

/// Creates a pod that runs on the node, with this device if any: its full name and UID.
async fn create_pod(api: &Router, number: usize, node: &str, device: Option<u8>) -> (String, String) {
    #[derive(Deserialize)]
    struct Created {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        uid: String,
    }

    let (namespace, name) = (namespace(number / PAGE), format!("workload-7d9f8c6b5-{number:05}"));
    let collection = format!("/api/v1/namespaces/{namespace}/pods");
    let created = create(api, &collection, &pod(&name, node, device)).await;
    let created: Created = serde_json::from_slice(&created).expect("a pod that was created");
    merge(api, &format!("{collection}/{name}/status"), &json!({"status": status()})).await;
    (format!("{namespace}/{name}"), created.metadata.uid)
}

/// A bound pod as most are; with a device, it has the record that the extender writes.
fn pod(name: &str, node: &str, device: Option<u8>) -> Value {
    let mut annotations = BTreeMap::from([
        ("prometheus.io/scrape".to_owned(), "true".to_owned()),
        ("prometheus.io/port".to_owned(), "9090".to_owned()),
        ("example.com/commit".to_owned(), "0123456789abcdef0123456789abcdef01234567".to_owned()),
    ]);
    let mut limits = json!({"cpu": "4", "memory": "16Gi"});
    if let Some(device) = device {
        let given =
            ContainerAllocation { devices: DeviceSet::single(device), ..ContainerAllocation::default() };
        let containers = [("main".into(), given)].into_iter().collect();
        let record = Allocation { node: node.into(), lnc: 1, containers };
        annotations.extend(record.annotations(true, "1795342800000000000"));
        limits[NEURON] = json!("1");
    }
    let env = |at| json!({"name": format!("VARIABLE_{at}"), "value": "some value of it"});
    let tolerates = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    json!({
        "metadata": {
            "name": name, "annotations": annotations,
            "labels": {"app": "workload", "pod-template-hash": "7d9f8c6b5", "team": "research", "tier": "training"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "workload-7d9f8c6b5", "controller": true,
                "uid": "5f0e0d0c-0b0a-0908-0706-050403020100", "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "nodeName": node,
            "schedulerName": "my-scheduler",
            "containers": [{
                "name": "main",
                "image": "registry.example.com/team/app:2026.11.22-abcdef",
                "args": (0..6).map(|at| format!("--option-{at}=value-{at}")).collect::<Vec<_>>(),
                "env": (0..12).map(env).collect::<Vec<_>>(),
                "resources": {"limits": limits, "requests": limits},
            }],
            "tolerations": [tolerates("node.kubernetes.io/not-ready"), tolerates("node.kubernetes.io/unreachable")],
        },
    })
}

fn status() -> Value {
    let since = "2026-11-22T10:00:00Z";
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": since});
    json!({
        "phase": "Running", "hostIP": "10.0.0.1", "podIP": "10.0.1.1", "startTime": since, "qosClass": "Guaranteed",
        "conditions": (["PodScheduled", "Initialized", "ContainersReady", "Ready"].map(condition)),
        "containerStatuses": [{
            "name": "main", "ready": true, "started": true, "restartCount": 0, "state": {"running": {"startedAt": since}},
            "image": "registry.example.com/team/app:2026.11.22-abcdef",
            "imageID": format!("registry.example.com/team/app@sha256:{}", "0123456789abcdef".repeat(4)),
            "containerID": format!("containerd://{}", "fedcba9876543210".repeat(4)),
        }],
    })
}
