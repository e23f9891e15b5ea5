//! A [`View`] as text, for people.

use std::fmt::Write as _;

use neuron_core::ids::{CoreSet, DeviceSet};
use neuron_core::record::ContainerAllocation;

use crate::report::colours::Paint;
use crate::report::drawing::{self, Holder, Sketch};
use crate::report::sets::set;
use crate::view::{Hardware, HolderView, NodeView, View};

/// The drawing of each node, then the pods that wait and those that failed.
pub(super) fn text(view: &View, paint: Paint) -> String {
    let mut parts: Vec<String> = view.nodes.iter().map(|view| node(view, paint)).collect();
    if parts.is_empty() {
        parts.push("no node with Neuron devices\n".to_owned());
    }
    let waiting = view.waiting.iter().map(|pod| {
        let title = format!("{} asks for {} ({})", pod.pod, pod.asks, pod.scheduler);
        (title, pod.why.as_slice())
    });
    let failed = view.failed.iter().map(|pod| {
        let node = pod.node.as_deref().unwrap_or("no node");
        (format!("{} on {node}", pod.pod), std::slice::from_ref(&pod.why))
    });
    parts.extend(list("waiting", waiting, paint));
    parts.extend(list("failed", failed, paint));
    parts.join("\n")
}

fn node(view: &NodeView, paint: Paint) -> String {
    let bold = paint.heading();
    let mut text = match &view.hardware {
        Some(hardware) => drawing(view, hardware, paint),
        None => format!("{bold}{}{bold:#}\n", view.name),
    };
    let bad = paint.bad();
    for note in &view.notes {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {bad}{note}{bad:#}");
    }
    text
}

fn drawing(view: &NodeView, hardware: &Hardware, paint: Paint) -> String {
    let unhealthy = hardware.devices.iter().filter(|device| !device.health.is_served());
    let unhealthy: DeviceSet = unhealthy.map(|device| device.id).collect();
    let holder = |holder: &HolderView| Holder { cores: holder.held_cores, words: words(holder) };
    let sketch = Sketch {
        name: &view.name,
        topology: &hardware.topology,
        shape: hardware.shape,
        holders: view.holders.iter().map(holder).collect(),
        unhealthy,
    };
    let (faint, bad) = (paint.faint(), paint.bad());
    let mut text = drawing::node(&sketch, paint);
    // Writing to a String cannot fail.
    let _ = writeln!(text, "  {faint}. = free: {}{faint:#}", free(hardware));
    if !unhealthy.is_empty() {
        let _ = writeln!(text, "  {bad}! = unhealthy: {}{bad:#}", ids(unhealthy, CoreSet::EMPTY));
    }
    text
}

fn free(hardware: &Hardware) -> String {
    let whole = hardware.topology.cores_of(hardware.free_devices);
    match ids(hardware.free_devices, hardware.free_cores.difference(whole)) {
        free if free.is_empty() => "nothing".to_owned(),
        free => free,
    }
}

fn words(holder: &HolderView) -> String {
    let given = match holder.recorded {
        true => ids(holder.devices, holder.cores),
        false => {
            format!("{}, by kubelet's choice: no record counts", ids(DeviceSet::EMPTY, holder.held_cores))
        }
    };
    let state = if holder.state == "Running" { String::new() } else { format!(" ({})", holder.state) };
    format!("{}: {given}{state}", holder.pod)
}

fn ids(devices: DeviceSet, cores: CoreSet) -> String {
    set(&ContainerAllocation { devices, cores })
}

/// A part with a name, if there is anything in it.
fn list<'a>(what: &str, pods: impl Iterator<Item = (String, &'a [String])>, paint: Paint) -> Option<String> {
    let lines: Vec<String> = pods
        .flat_map(|(title, why)| {
            let why = why.iter().map(|text| format!("    {text}\n"));
            std::iter::once(format!("  {title}\n")).chain(why)
        })
        .collect();
    let bold = paint.heading();
    (!lines.is_empty()).then(|| format!("{bold}{what}{bold:#}\n{}", lines.concat()))
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn read<T: DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn node(name: &str, instance_type: &str, report: Value) -> Value {
        json!({
            "metadata": {
                "name": name,
                "labels": {"node.kubernetes.io/instance-type": instance_type},
                "annotations": {"neuron-scheduler/devices": report.to_string()},
            },
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        })
    }

    /// A pod with this record that asks for as much as it says.
    fn pod(name: &str, resource: &str, ids: &[u8], status: Value) -> Value {
        let noun = if resource == "neuron" { "devices" } else { "cores" };
        let record = json!({"v": 1, "node": "n1", "lnc": 1, "containers": {"main": {noun: ids}}});
        let mut pod = waiting(name, ids.len(), status);
        pod["spec"]["nodeName"] = json!("n1");
        pod["spec"]["containers"][0]["resources"]["limits"] =
            json!({format!("aws.amazon.com/{resource}"): ids.len().to_string()});
        pod["metadata"]["annotations"] = json!({"neuron-scheduler/allocation": record.to_string()});
        pod
    }

    fn waiting(name: &str, devices: usize, status: Value) -> Value {
        let limits = json!({"aws.amazon.com/neuron": devices.to_string()});
        json!({
            "metadata": {"namespace": "default", "name": name, "uid": format!("uid-of-{name}")},
            "spec": {
                "schedulerName": "my-scheduler",
                "containers": [{"name": "main", "resources": {"limits": limits}}],
            },
            "status": status,
        })
    }

    fn refused(message: &str) -> Value {
        let condition = json!({"type": "PodScheduled", "status": "False", "message": message});
        json!({"phase": "Pending", "conditions": [condition]})
    }

    #[test]
    fn holders_waiting_and_failed_pods_and_what_is_wrong_with_nodes_are_shown() {
        let links = [vec![1], vec![0, 2], vec![1, 3], vec![2]];
        let devices: Vec<Value> = (0..4)
            .map(|id| {
                let health = if id == 3 { "Unhealthy" } else { "Healthy" };
                json!({"id": id, "links": links[id], "health": health})
            })
            .collect();
        let report =
            json!({"v": 1, "instanceType": "inf1.6xlarge", "lnc": 1, "devices": devices, "holders": []});
        let mut without_report = node("n2", "trn1.2xlarge", json!({}));
        without_report["metadata"]["annotations"] = json!({});
        without_report["spec"] = json!({"unschedulable": true});
        let nodes = [
            without_report,
            node("n1", "inf1.6xlarge", report),
            node("n3", "inf2.xlarge", json!([])),
            json!({"metadata": {"name": "control-plane"}}),
        ];
        let stuck = json!({"name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": "ErrImagePull"}}});
        let not_admitted =
            json!({"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no devices"});
        let pods = [
            pod("train", "neuron", &[0], json!({"phase": "Running"})),
            pod("serve", "neuroncore", &[4, 5], json!({"phase": "Pending", "containerStatuses": [stuck]})),
            pod("lost", "neuron", &[2], not_admitted),
            waiting(
                "big",
                4,
                refused("0/3 nodes are available: 1 Insufficient. preemption: 0/3 nodes are available"),
            ),
            waiting("new", 1, json!({"phase": "Pending"})),
        ];
        let event = |version: &str, message: &str| {
            read(json!({
                "metadata": {"resourceVersion": version},
                "involvedObject": {"uid": "uid-of-big"},
                "reportingComponent": "neuron-extender",
                "message": message,
            }))
        };
        let events = [event("10", "the last word"), event("9", "the word before")];
        let view = View::of(&nodes.map(read), &pods.map(read), &events);
        insta::assert_snapshot!(text(&view, Paint::Plain));
    }

    #[test]
    fn a_cluster_without_neuron_nodes_says_so() {
        let view = View::of(&[read(json!({"metadata": {"name": "plain"}}))], &[], &[]);
        assert_eq!(text(&view, Paint::Plain), "no node with Neuron devices\n");
    }
}
