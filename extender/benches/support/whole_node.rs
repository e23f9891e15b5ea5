//! A whole node as EKS has them, with what its device plugin and kubelet write. Used by the benches `verbs` and `start`.

use neuron_core::catalog::{Catalog, InstanceType};
use neuron_core::names::{INSTANCE_TYPE_LABEL, NEURON, NEURONCORE, NODE_REPORT};
use neuron_core::report::{DeviceReport, Health, HolderReport, NodeReport, REPORT_VERSION};
use neuron_core::topology::{Policy, rules};
use serde_json::json;

/// The node as Go writes it, 10 to 15 kB: its name first.
pub(crate) fn whole_node(name: &str, instance_type: &str, holders: Vec<HolderReport>) -> String {
    let model = Catalog::embedded().find(instance_type).expect("a type of the catalog");
    let cores = u32::from(model.devices) * u32::from(model.cores_per_device / model.default_lnc);
    let amounts = json!({
        "cpu": model.vcpus.to_string(), "memory": format!("{}Gi", model.host_memory_gib), "pods": "247",
        "ephemeral-storage": "1Ti", "hugepages-1Gi": "0", "hugepages-2Mi": "0",
        NEURON: model.devices.to_string(), NEURONCORE: cores.to_string(),
    });
    let labels = json!({
        INSTANCE_TYPE_LABEL: instance_type, "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
        "topology.kubernetes.io/region": "us-west-2", "topology.kubernetes.io/zone": "us-west-2a",
        "topology.k8s.aws/zone-id": "usw2-az1", "eks.amazonaws.com/nodegroup": "neuron",
        "eks.amazonaws.com/capacityType": "ON_DEMAND", "eks.amazonaws.com/nodegroup-image": "ami-0123456789abcdef0",
        "k8s.io/cloud-provider-aws": "0123456789abcdef0123456789abcdef",
    });
    let annotations = json!({
        NODE_REPORT: report(model, holders).to_json(), "node.alpha.kubernetes.io/ttl": "0",
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
        "alpha.kubernetes.io/provided-node-ip": "10.0.0.1",
        "csi.volume.kubernetes.io/nodeid": "{\"ebs.csi.aws.com\":\"i-0123456789abcdef0\"}",
    });
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": "2026-11-22T10:00:00Z", "lastTransitionTime": "2026-11-20T10:00:00Z",
        })
    };
    let image = |at: u32| {
        let repository = format!("602401143452.dkr.ecr.us-west-2.amazonaws.com/team/workload-{at}");
        let digest = format!("{at:02x}").repeat(32);
        let names = [format!("{repository}@sha256:{digest}"), format!("{repository}:v1.{at}.0-eksbuild.1")];
        json!({"names": names, "sizeBytes": 1_000_000 + at})
    };
    let status = json!({
        "capacity": amounts, "allocatable": amounts,
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ],
        "addresses": [
            {"type": "InternalIP", "address": "10.0.0.1"}, {"type": "InternalDNS", "address": name},
            {"type": "Hostname", "address": name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "machineID": "ec2a0123456789abcdef0123456789ab", "systemUUID": "ec2a0123-4567-89ab-cdef-0123456789ab",
            "bootID": "01234567-89ab-cdef-0123-456789abcdef", "kernelVersion": "6.12.40-63.114.amzn2023.x86_64",
            "osImage": "Amazon Linux 2023.8.20250818", "containerRuntimeVersion": "containerd://2.1.4",
            "kubeletVersion": "v1.34.1-eks-113cf36", "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64",
        },
        "images": (0..30).map(image).collect::<Vec<_>>(),
    });
    let spec = json!({
        "providerID": "aws:///us-west-2a/i-0123456789abcdef0",
        "taints": [{"key": NEURON, "value": "present", "effect": "NoSchedule"}],
    });
    let named = format!(r#""name":"{name}","uid":"uid-{name}","resourceVersion":"1234567""#);
    let metadata = format!(r#"{{{named},"labels":{labels},"annotations":{annotations}}}"#);
    format!(r#"{{"metadata":{metadata},"spec":{spec},"status":{status}}}"#)
}

/// What the device plugin of such a machine reports.
fn report(model: &InstanceType, holders: Vec<HolderReport>) -> NodeReport {
    let devices = (0..).zip(&model.driver_links).map(|(id, links)| DeviceReport {
        id,
        links: links.iter().copied().collect(),
        health: Health::Healthy,
        reason: None,
    });
    NodeReport {
        v: REPORT_VERSION,
        time: Some("2026-11-22T10:00:00Z".to_owned()),
        rules: Some(rules(Catalog::embedded(), Policy::Documented)),
        instance_type: model.name.clone(),
        lnc: model.default_lnc,
        cores_per_device: Some(model.cores_per_device / model.default_lnc),
        devices: devices.collect(),
        holders,
    }
}
