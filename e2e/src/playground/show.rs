//! A [`View`] as text, for people.

use std::fmt::Write as _;

use neuron_core::ids::{CoreSet, DeviceSet};
use neuron_core::record::ContainerAllocation;
use neuron_core::report::Health;

use super::view::{Hardware, HolderView, NodeView, View};
use crate::draw::{self, Holder, Sketch};
use crate::output::set;
use crate::paint::Paint;

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
    let unhealthy = hardware.devices.iter().filter(|device| device.health == Health::Unhealthy);
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
    let mut text = draw::node(&sketch, paint);
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
