//! Whether each Neuron node's label, report and allocatable agree.

use anyhow::{bail, ensure};
use k8s_openapi::api::core::v1::Node;
use kind_driver::status::Amounts;
use neuron_core::names;

use super::check::{Check, Checks};
use super::{Listed, Settings};
use crate::view::{Hardware, NodeView, View};

/// Checks the nodes that the settings choose; gives those that can take pods.
pub(super) fn check<'v>(
    listed: &Listed,
    view: &'v View,
    settings: &Settings,
    checks: &mut Checks<impl Fn(&Check)>,
) -> Vec<&'v NodeView> {
    let object =
        |view: &NodeView| listed.nodes.iter().find(|node| node.metadata.name.as_ref() == Some(&view.name));
    let of_interest = |view: &&NodeView| object(view).is_some_and(|node| has_label(node, settings));
    let nodes: Vec<&NodeView> = view.nodes.iter().filter(of_interest).collect();
    if nodes.is_empty() {
        let label = settings.node_label.as_ref().map(|(key, value)| format!(" with label {key}={value}"));
        let why = format!("no node{} has Neuron devices", label.unwrap_or_default());
        checks.add("nodes", Err(anyhow::anyhow!(why)));
    }
    let mut usable = Vec::new();
    for node in nodes {
        let agreed = object(node).map_or_else(|| bail!("it is gone"), |object| agreed(node, object));
        if agreed.is_ok() {
            usable.push(node);
        }
        checks.add(format!("node {}", node.name), agreed);
    }
    usable
}

fn has_label(node: &Node, settings: &Settings) -> bool {
    let Some((key, value)) = &settings.node_label else { return true };
    node.metadata.labels.as_ref().and_then(|labels| labels.get(key)) == Some(value)
}

/// What the node has, if all that is said of it says the same.
fn agreed(view: &NodeView, node: &Node) -> anyhow::Result<String> {
    let Some(hardware) = &view.hardware else { bail!("{}", view.notes.join("; ")) };
    ensure!(view.notes.is_empty(), "{}", view.notes.join("; "));
    let healthy = hardware.devices.iter().filter(|device| device.health.is_served()).count() as u64;
    let cores = healthy * u64::from(hardware.cores_per_device);
    for (resource, reported) in [(names::NEURON, healthy), (names::NEURONCORE, cores)] {
        let advertised = Amounts::on(node, resource);
        ensure!(
            advertised.allocatable == Some(reported),
            "the report has {reported} healthy of {resource}, kubelet has {advertised}"
        );
    }
    Ok(said(hardware, healthy, cores))
}

fn said(hardware: &Hardware, healthy: u64, cores: u64) -> String {
    let all = hardware.devices.len() as u64;
    let unhealthy = if all == healthy { String::new() } else { format!(", {} unhealthy", all - healthy) };
    let instance_type = &hardware.instance_type;
    format!(
        "{instance_type}, {healthy} devices and {cores} cores in label, report and allocatable{unhealthy}"
    )
}
