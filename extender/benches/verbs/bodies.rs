//! What kube-scheduler sends: a pod, and 500 nodes as names or whole, as Go writes them: names first, and what is not set as `null`.
//! Used by the bench `verbs`.

use neuron_core::names::{NEURON, NEURONCORE};
use neuron_core::request::{ContainerRequest, PodRequest, Role};
use neuron_extender::measured::MeasuredNode;
use serde_json::{Value, json};

use crate::whole_node::whole_node;

/// How the name of a pod's first app container begins in a body.
pub(crate) const FIRST_APP: &str = "\"name\":\"app0";

/// How the nodes are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// By their names (`nodeCacheCapable: true`).
    Names,
    /// Whole.
    Nodes,
}

impl Form {
    /// What it is called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Form::Names => "names",
            Form::Nodes => "full Nodes",
        }
    }
}

/// A pod: what its containers ask for.
#[derive(Clone, Copy)]
pub(crate) struct Pod {
    /// What it is called.
    pub(crate) name: &'static str,
    /// What its init containers ask for.
    init: &'static [(&'static str, u32)],
    /// What its app containers ask for.
    apps: &'static [(&'static str, u32)],
}

/// Ordinary pods.
pub(crate) const PODS: [Pod; 4] = [
    Pod { name: "2 cores", init: &[], apps: &[(NEURONCORE, 2)] },
    Pod { name: "4 devices", init: &[], apps: &[(NEURON, 4)] },
    Pod { name: "2 cores + 1", init: &[], apps: &[(NEURONCORE, 2), (NEURONCORE, 1)] },
    Pod { name: "4 devices + 1", init: &[], apps: &[(NEURON, 4), (NEURON, 1)] },
];

/// The pod that was searched for for minutes before searches had a budget (`core/tests/suite/placement/budget.rs`): a core handed down to
/// an app, sixteen apps of three cores, and two cores for which nothing is left that is linked.
pub(crate) const HOSTILE: Pod = {
    const APPS: [(&str, u32); 18] = {
        let mut apps = [(NEURONCORE, 3); 18];
        (apps[0].1, apps[17].1) = (1, 2);
        apps
    };
    Pod { name: "hostile", init: &[(NEURONCORE, 1)], apps: &APPS }
};

/// A pod that an empty machine takes, so that each that is unlike is searched by itself: of those of the cluster `all different` on which
/// three cores are free on twelve devices alone, the two last ones find no place after all ways to place the others. A call ends at its
/// limit, twenty questions that are given up.
pub(crate) const HOSTILE_EACH: Pod = {
    const APPS: [(&str, u32); 14] = {
        let mut apps = [(NEURONCORE, 3); 14];
        (apps[0].1, apps[13].1) = (1, 2);
        apps
    };
    Pod { name: "hostile on each", init: &[(NEURONCORE, 1)], apps: &APPS }
};

/// What core is asked about the pod.
pub(crate) fn request(pod: Pod) -> PodRequest {
    let containers = |asks: &'static [(&str, u32)], role: Role| {
        asks.iter().enumerate().map(move |(at, (resource, count))| {
            let (devices, cores) = if *resource == NEURON { (*count, 0) } else { (0, *count) };
            ContainerRequest { name: format!("{role:?}{at}").into(), role, devices, cores }
        })
    };
    PodRequest {
        containers: containers(pod.init, Role::Init).chain(containers(pod.apps, Role::App)).collect(),
    }
}

/// The body of a call.
pub(crate) fn body(form: Form, pod: Pod, nodes: &[MeasuredNode]) -> Vec<u8> {
    let pod = pod_json(pod);
    let listed = |each: fn(&MeasuredNode) -> String| nodes.iter().map(each).collect::<Vec<_>>().join(",");
    let (nodes, names) = match form {
        Form::Names => ("null".to_owned(), format!("[{}]", listed(|node| format!("{:?}", node.name)))),
        Form::Nodes => (format!(r#"{{"metadata":{{}},"items":[{}]}}"#, listed(whole)), "null".to_owned()),
    };
    format!(r#"{{"Pod":{pod},"Nodes":{nodes},"NodeNames":{names}}}"#).into_bytes()
}

fn whole(node: &MeasuredNode) -> String {
    whole_node(&node.name, &node.instance_type, Vec::new())
}

fn pod_json(pod: Pod) -> String {
    let env = |at| json!({"name": format!("VARIABLE_{at}"), "value": "some value of it"});
    let container = |(at, (resource, count)): (usize, &(&str, u32)), role: &str| {
        let amounts = json!({"cpu": "4", "memory": "16Gi", *resource: count.to_string()});
        let mount = |name: &str, path: &str| json!({"name": name, "readOnly": true, "mountPath": path});
        json!({
            "name": format!("{role}{at}"),
            "image": "registry.example.com/team/app:2026.11.22-abcdef",
            "args": (0..6).map(|at| format!("--option-{at}=value-{at}")).collect::<Vec<_>>(),
            "env": (0..12).map(env).collect::<Vec<_>>(),
            "resources": {"limits": amounts, "requests": amounts},
            "volumeMounts": [
                mount("data", "/data"),
                mount("kube-api-access-abcde", "/var/run/secrets/kubernetes.io/serviceaccount"),
            ],
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent",
        })
    };
    let containers = |asks: &[(&str, u32)], role: &str| -> Vec<Value> {
        asks.iter().enumerate().map(|ask| container(ask, role)).collect()
    };
    let tolerates = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    let labels =
        json!({"app": "workload", "pod-template-hash": "7d9f8c6b5", "team": "research", "tier": "training"});
    let annotations = json!({"prometheus.io/scrape": "true", "prometheus.io/port": "9090", "example.com/run": "20261122-1"});
    let owner = json!([{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "workload-7d9f8c6b5", "uid": "5f0e0d0c-0b0a-0908-0706-050403020100",
        "controller": true, "blockOwnerDeletion": true,
    }]);
    let spec = json!({
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "kube-api-access-abcde", "projected": {"defaultMode": 420, "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            ]}},
        ],
        "initContainers": containers(pod.init, "init"),
        "containers": containers(pod.apps, "app"),
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "securityContext": {},
        "schedulerName": "my-scheduler",
        "tolerations": [tolerates("node.kubernetes.io/not-ready"), tolerates("node.kubernetes.io/unreachable")],
        "priority": 0,
        "enableServiceLinks": true,
        "preemptionPolicy": "PreemptLowerPriority",
    });
    let name = pod.name.replace([' ', '+'], "-");
    let named =
        format!(r#""name":"{name}","namespace":"default","uid":"uid-{name}","resourceVersion":"1234567""#);
    let rest = format!(r#""labels":{labels},"annotations":{annotations},"ownerReferences":{owner}"#);
    let status = json!({"phase": "Pending", "qosClass": "Guaranteed"});
    format!(r#"{{"metadata":{{{named},{rest}}},"spec":{spec},"status":{status}}}"#)
}
