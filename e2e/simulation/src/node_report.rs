//! What must hold of a node in a cluster at rest: kubelet offers what is healthy, and the report says which devices are broken and
//! what each pod has. Called by the suite.

use std::time::Duration;

use neuron_core::names::{NEURON, NEURONCORE, NODE_REPORT};
use neuron_core::report::NodeReport;
use serde_json::Value;
use simulated_cluster::observer::{PodTruth, Truth};
use simulated_cluster::suite::{NodeTruth, Units};

use crate::machine::Machine;

/// How long after a change the report may still be of what was before.
const REPORTED: Duration = Duration::from_secs(60);

/// What is wrong with a node's report. `settled` are the pods that have run on the node for a while.
pub(crate) fn judge_node(
    machine: &Machine,
    truth: &Truth,
    node: &NodeTruth<'_>,
    object: &Value,
    settled: &[&PodTruth],
) -> Option<(String, String)> {
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let text =
        object.pointer("/metadata/annotations").and_then(|all| all.get(NODE_REPORT)).and_then(Value::as_str);
    let Some(report) = text.and_then(|text| NodeReport::parse(text).ok()) else {
        return Some((
            "a node without a report that can be read".to_owned(),
            format!("its report is {text:?}"),
        ));
    };
    let unhealthy: Units =
        report.unhealthy().iter().flat_map(|device| machine.cores_of(device.into())).collect();
    if unhealthy != node.broken {
        let text = format!("{:?} are broken, its report says {unhealthy:?}", node.broken);
        return Some(("a node's report does not say which devices are broken".to_owned(), text));
    }
    if let Some(text) = wrong_counts(machine, object, &node.broken) {
        return Some(("a node does not offer what is healthy".to_owned(), text));
    }
    let wrong = settled.iter().find_map(|pod| {
        let holder = report.holders.iter().find(|holder| holder.uid == pod.uid);
        let said: Units = holder.iter().flat_map(|holder| holder.cores.iter().map(u32::from)).collect();
        let has: Units =
            truth.containers_of(pod).flat_map(|(_, container)| container.units.clone()).collect();
        let text = format!("{} has {has:?}, the report says {said:?}", pod.name());
        // What an init container had is said too.
        (!has.is_subset(&said)).then(|| ("a node's report does not say what a pod has".to_owned(), text))
    });
    wrong.or_else(|| {
        let may_lag = truth.now.saturating_sub(truth.changed) < REPORTED || !truth.is_settled(name);
        let cores = report.holders.iter().flat_map(|holder| holder.cores.iter().map(u32::from));
        let unheld: Units = cores.filter(|core| !node.held.contains(core)).collect();
        let text = format!("its report has holders of {unheld:?}, which nobody holds");
        (!may_lag && !unheld.is_empty())
            .then(|| ("a node's report has what nobody holds as held".to_owned(), text))
    })
}

/// What kubelet offers that differs from what the machine has.
fn wrong_counts(machine: &Machine, object: &Value, broken: &Units) -> Option<String> {
    let devices = u32::from(machine.devices());
    let broken_devices = machine.devices_of(broken).len();
    let (cores, broken_cores) = (u32::from(machine.cores()), broken.len());
    let counts = [(NEURON, devices, broken_devices), (NEURONCORE, cores, broken_cores)];
    counts.into_iter().find_map(|(resource, all, broken)| {
        let offered = |kind: &str| {
            let count = object.get("status")?.get(kind)?.get(resource)?.as_str()?;
            count.parse::<u32>().ok()
        };
        let healthy = u32::try_from(broken).ok().and_then(|broken| all.checked_sub(broken));
        let (capacity, allocatable) = (offered("capacity"), offered("allocatable"));
        (capacity != Some(all) || allocatable != healthy).then(|| {
            format!(
                "of {resource} it offers {allocatable:?} of {capacity:?}; the machine has {all}, {broken} of them broken"
            )
        })
    })
}
