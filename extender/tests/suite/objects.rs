//! Nodes and pods as JSON, for the tests of the extender.

use neuron_core::catalog::Catalog;
use serde_json::{Value, json};

/// A node whose device plugin advertises what the type has.
pub(crate) fn node(name: &str, instance_type: &str) -> Value {
    let labels = json!({"node.kubernetes.io/instance-type": instance_type});
    let resources = Catalog::embedded().find(instance_type).map(|of| {
        let cores = u32::from(of.devices) * u32::from(of.cores_per_device) / u32::from(of.default_lnc);
        json!({"aws.amazon.com/neuron": of.devices.to_string(), "aws.amazon.com/neuroncore": cores.to_string()})
    });
    let status = json!({"capacity": resources, "allocatable": resources});
    json!({"metadata": {"name": name, "labels": labels}, "status": status})
}

/// A pod with one container that asks for `count` of the resource, such as `neuroncore`.
pub(crate) fn pod(name: &str, resource: &str, count: u32) -> Value {
    let limits = json!({format!("aws.amazon.com/{resource}"): count.to_string()});
    json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "workload", "resources": {"limits": limits}}]},
    })
}

/// The same pod bound by hand to a node, with these annotations.
pub(crate) fn bound(mut pod: Value, node: &str, annotations: Value) -> Value {
    pod["spec"]["nodeName"] = json!(node);
    pod["metadata"]["annotations"] = annotations;
    pod
}
