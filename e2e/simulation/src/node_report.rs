//! What must hold of a node's report in a cluster at rest: it says which devices are broken and what each pod has. Called by the
//! suite.

use neuron_core::names::NODE_REPORT;
use neuron_core::report::NodeReport;
use serde_json::Value;
use simulated_cluster::observer::{PodTruth, Truth};
use simulated_cluster::suite::Units;

use crate::machine::Machine;

/// What is wrong with a node's report. `settled` are the pods that have run on the node for a while.
pub(crate) fn judge_node(
    machine: &Machine,
    truth: &Truth,
    node: &Value,
    settled: &[&PodTruth],
) -> Option<(String, String)> {
    let name = node.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let text =
        node.pointer("/metadata/annotations").and_then(|all| all.get(NODE_REPORT)).and_then(Value::as_str);
    let Some(report) = text.and_then(|text| NodeReport::parse(text).ok()) else {
        return Some((
            "a node without a report that can be read".to_owned(),
            format!("its report is {text:?}"),
        ));
    };
    let unhealthy: Units =
        report.unhealthy().iter().flat_map(|device| machine.cores_of(device.into())).collect();
    let broken = truth.broken.get(name).cloned().unwrap_or_default();
    if unhealthy != broken {
        let text = format!("{broken:?} are broken, its report says {unhealthy:?}");
        return Some(("a node's report does not say which devices are broken".to_owned(), text));
    }
    settled.iter().find_map(|pod| {
        let holder = report.holders.iter().find(|holder| holder.uid == pod.uid);
        let said: Units = holder.iter().flat_map(|holder| holder.cores.iter().map(u32::from)).collect();
        let has: Units =
            truth.containers_of(pod).flat_map(|(_, container)| container.units.clone()).collect();
        let text = format!("{} has {has:?}, the report says {said:?}", pod.name());
        // What an init container had is said too.
        (!has.is_subset(&said)).then(|| ("a node's report does not say what a pod has".to_owned(), text))
    })
}
