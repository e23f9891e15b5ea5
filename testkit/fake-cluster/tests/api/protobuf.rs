//! What is answered where only protobuf is accepted, read with the crate `k8s-pb`: definitions that are not ours.

use ::http::Request;
use fake_cluster::api::ApiServer;
use fake_cluster::clock::Clock;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_pb::api::core::v1 as pb;
use k8s_pb::apimachinery::pkg::apis::meta::v1 as meta;
use k8s_pb::apimachinery::pkg::runtime::Unknown;
use kube::api::PostParams;
use kube::client::Body;
use kube::{Api, Client};
use prost::Message;
use serde_json::{Value, json};

use testkit_support::within;

use super::{as_json, create_pod, pods, start};

/// The answer's status, its content type and the beginning of its body.
async fn get(client: &Client, path: &str) -> (u16, String, Vec<u8>) {
    let request = Request::get(path).header("accept", "application/vnd.kubernetes.protobuf");
    let answer = client.send(request.body(Body::empty()).unwrap()).await.unwrap();
    let (code, kind) =
        (answer.status().as_u16(), answer.headers()["content-type"].to_str().unwrap().to_owned());
    let mut body = answer.into_body();
    let frame = within("the first frame", body.frame()).await.unwrap().unwrap();
    (code, kind, frame.into_data().unwrap().to_vec())
}

/// The object of this kind in a body.
fn unwrapped<T: Message + Default>(body: &[u8], kind: &str) -> T {
    let wrapped = Unknown::decode(body.strip_prefix(b"k8s\0").unwrap()).unwrap();
    let types = wrapped.type_meta.unwrap();
    assert_eq!((types.api_version.as_deref(), types.kind.as_deref()), (Some("v1"), Some(kind)));
    T::decode(wrapped.raw.unwrap().as_slice()).unwrap()
}

async fn get_json(client: &Client, path: &str) -> Value {
    let mut object: Value = client.request(Request::get(path).body(Vec::new()).unwrap()).await.unwrap();
    let fields = object.as_object_mut().unwrap();
    fields.remove("apiVersion");
    fields.remove("kind");
    object
}

#[tokio::test]
async fn a_node_says_the_same_in_protobuf_and_in_json() {
    let (_server, client) = start();
    let time = "2026-11-22T12:00:00Z";
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": "KubeletReady", "message": "ready",
        "lastHeartbeatTime": time, "lastTransitionTime": time})
    };
    let node = json!({
        "metadata": {"name": "n1", "labels": {"node.kubernetes.io/instance-type": "trn1.32xlarge", "a": ""},
            "annotations": {"example.com/devices": "{\"v\":1}"}, "finalizers": ["example.com/wait"],
            "ownerReferences": [{"kind": "Machine", "name": "m", "uid": "u", "apiVersion": "example.com/v1",
                "controller": true, "blockOwnerDeletion": false}]},
        "spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24", "fd00::/64"], "providerID": "aws:///a/i-0",
            "unschedulable": true,
            "taints": [{"key": "example.com/device", "value": "true", "effect": "NoSchedule", "timeAdded": time}]},
        "status": {
            "capacity": {"example.com/device": "16", "cpu": "128", "memory": "512Gi"},
            "allocatable": {"example.com/device": "15", "cpu": "127500m"},
            "phase": "Running",
            "conditions": [condition("Ready"), condition("MemoryPressure")],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "n1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {"machineID": "m", "systemUUID": "s", "bootID": "b", "kernelVersion": "6.1", "osImage": "o",
                "containerRuntimeVersion": "containerd://2", "kubeletVersion": "v1.34.4", "kubeProxyVersion": "",
                "operatingSystem": "linux", "architecture": "amd64", "swap": {"capacity": 4096}},
            "images": [{"names": ["a@sha256:b", "a:1"], "sizeBytes": 5_000_000_000_i64}],
            "volumesInUse": ["v"], "volumesAttached": [{"name": "v", "devicePath": "/dev/xvda"}],
            "runtimeHandlers": [{"name": "runc",
                "features": {"recursiveReadOnlyMounts": true, "userNamespaces": false}}],
            "features": {"supplementalGroupsPolicy": true},
        },
    });
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();

    let wanted = get_json(&client, "/api/v1/nodes/n1").await;
    assert_eq!(wanted["status"]["allocatable"]["cpu"], "127500m");
    let (code, _, body) = get(&client, "/api/v1/nodes/n1").await;
    assert_eq!(code, 200);
    assert_eq!(as_json::node(unwrapped(&body, "Node")), wanted);

    let (_, _, body) = get(&client, "/api/v1/nodes").await;
    let list: pb::NodeList = unwrapped(&body, "NodeList");
    let listed: Vec<Value> = list.items.into_iter().map(as_json::node).collect();
    assert_eq!(listed, [wanted]);
    assert!(list.metadata.unwrap().resource_version.unwrap().parse::<u64>().unwrap() > 0);
}

#[tokio::test]
async fn a_pod_says_the_same_in_protobuf_and_in_json() {
    let (_server, client) = start();
    let time = "2026-11-22T12:00:00Z";
    let state = |state: Value| {
        json!({"name": "main", "ready": true, "started": false, "restartCount": 2, "image": "i",
        "imageID": "i@sha256:b", "containerID": "containerd://c", "state": state,
        "allocatedResourcesStatus": [{"name": "aws.amazon.com/neuron",
            "resources": [{"resourceID": "neuron0", "health": "Unhealthy"}]}],
        "lastState": {"terminated": {"exitCode": 137, "signal": 9, "reason": "OOMKilled", "message": "m",
            "startedAt": time, "finishedAt": time, "containerID": "containerd://d"}}})
    };
    let container = |name: &str| {
        json!({"name": name, "image": "workload", "command": ["sh", "-c"], "args": ["a"],
        "workingDir": "/", "env": [{"name": "A", "value": "1"}], "imagePullPolicy": "Never",
        "resources": {"limits": {"example.com/device": "2"}, "requests": {"example.com/device": "2", "cpu": "1"}}})
    };
    let mut sidecar = container("sidecar");
    sidecar["restartPolicy"] = json!("Always");
    let pod = json!({
        "metadata": {"generateName": "p-", "name": "p-1", "annotations": {"DEVICES": "0,1"}},
        "spec": {"containers": [container("main"), container("second")], "initContainers": [sidecar],
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 30, "nodeSelector": {"a": "b"},
            "securityContext": {"runAsUser": 1000, "runAsNonRoot": true, "fsGroup": 1, "runAsGroup": 2},
            "serviceAccountName": "default", "nodeName": "n1", "hostNetwork": true, "schedulerName": "my-scheduler",
            "priorityClassName": "system-node-critical", "priority": 2_000_001_000,
            "tolerations": [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute",
                "tolerationSeconds": 300}]},
        "status": {"phase": "Running", "reason": "R", "message": "M", "hostIP": "10.0.0.1", "podIP": "10.0.1.1",
            "startTime": time, "qosClass": "Burstable", "nominatedNodeName": "n2",
            "conditions": [{"type": "PodScheduled", "status": "True", "lastProbeTime": time,
                "lastTransitionTime": time, "reason": "R", "message": "M"}],
            "containerStatuses": [state(json!({"running": {"startedAt": time}}))],
            "initContainerStatuses": [state(json!({"waiting": {"reason": "PodInitializing", "message": "m"}}))],
            "extendedResourceClaimStatus": {"resourceClaimName": "c", "requestMappings": [
                {"containerName": "main", "resourceName": "aws.amazon.com/neuron", "requestName": "r"}]}},
    });
    let pod: Pod = serde_json::from_value(pod).unwrap();
    pods(&client).create(&PostParams::default(), &pod).await.unwrap();
    let status = pods(&client).get("p-1").await.map(|stored| Pod { status: pod.status, ..stored }).unwrap();
    pods(&client).replace_status("p-1", &PostParams::default(), &status).await.unwrap();

    let path = "/api/v1/namespaces/default/pods/p-1";
    let wanted = get_json(&client, path).await;
    assert_eq!(wanted["status"]["containerStatuses"][0]["restartCount"], 2);
    let (code, _, body) = get(&client, path).await;
    assert_eq!(code, 200);
    assert_eq!(as_json::pod(unwrapped(&body, "Pod")), wanted);
}

#[tokio::test]
async fn lists_and_refusals_are_answered_in_it() {
    let (_server, client) = start();
    create_pod(&client, "a").await;
    let (code, kind, body) = get(&client, "/api/v1/pods").await;
    assert_eq!((code, kind.as_str()), (200, "application/vnd.kubernetes.protobuf"));
    let list: pb::PodList = unwrapped(&body, "PodList");
    assert_eq!(list.items[0].metadata.as_ref().unwrap().name.as_deref(), Some("a"));
    let (code, _, body) = get(&client, "/api/v1/namespaces/default/pods/b").await;
    let status: meta::Status = unwrapped(&body, "Status");
    assert_eq!((code, status.code), (404, Some(404)));
    assert_eq!(status.message.as_deref(), Some("pods \"b\" not found"));
}

#[tokio::test]
async fn a_watch_is_frames_with_their_lengths() {
    let (_server, client) = start();
    create_pod(&client, "a").await;
    let (code, kind, frame) = get(&client, "/api/v1/pods?watch=true").await;
    assert_eq!((code, kind.as_str()), (200, "application/vnd.kubernetes.protobuf;stream=watch"));
    let (length, event) = frame.split_at(4);
    assert_eq!(u32::from_be_bytes(length.try_into().unwrap()) as usize, event.len());
    let event = meta::WatchEvent::decode(event).unwrap();
    assert_eq!(event.r#type.as_deref(), Some("ADDED"));
    let pod: pb::Pod = unwrapped(&event.object.unwrap().raw.unwrap(), "Pod");
    assert_eq!(pod.metadata.unwrap().name.as_deref(), Some("a"));
}

#[tokio::test]
async fn other_kinds_are_refused() {
    let server = ApiServer::new(Clock::new());
    let (code, _, body) = get(&server.client(), "/apis/coordination.k8s.io/v1/leases").await;
    assert_eq!(code, 406);
    let status: Value = serde_json::from_slice(&body).unwrap();
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("only the following media types are accepted"), "{message}");
}
