//! Draws a node's devices, links and holders as text, for people. Called by the command line.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use neuron_core::catalog::{Catalog, Shape};
use neuron_core::ids::CoreSet;
use neuron_core::record::{Allocation, Recorded};
use neuron_core::topology::{Policy, Topology};

use crate::outcome::Outcome;
use crate::output::folded;
use crate::scenario::Scenario;

/// A drawing of each node of the scenario at its end. Each device is a box with its id and one letter for each
/// logical core: the pod that holds it, or a dot if nobody does.
pub fn nodes(scenario: &Scenario, outcome: &Outcome) -> String {
    let mut text = String::new();
    for (place, spec) in scenario.nodes.iter().enumerate() {
        let node = format!("n{}", place + 1);
        let Some(model) = Catalog::embedded().find(&spec.instance_type) else { continue };
        let lnc = spec.lnc.unwrap_or(model.default_lnc);
        let Ok(topology) = Topology::named(&spec.instance_type, model, lnc, Policy::Documented) else {
            continue;
        };
        let holders = holders(&node, &topology, outcome);
        text.push_str(&heading(&node, &topology, model.shape));
        text.push_str(&boxes(&topology, model.shape, &holders));
        for (letter, (name, cores)) in letters().zip(&holders) {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {letter} = {name}, with cores {}", folded(&cores.to_string()));
        }
    }
    text
}

fn heading(node: &str, topology: &Topology, shape: Shape) -> String {
    let shape = format!("{shape:?}").to_lowercase();
    let (devices, cores) = (topology.devices(), topology.cores_per_device());
    let plural = if devices == 1 { "" } else { "s" };
    format!(
        "{node}  {}  {shape} of {devices} device{plural} with {cores} logical cores each\n",
        topology.instance_type()
    )
}

/// The cores that running pods hold on the node, by pod name.
fn holders(node: &str, topology: &Topology, outcome: &Outcome) -> BTreeMap<String, CoreSet> {
    let here = outcome.pods.iter().filter(|(_, pod)| pod.is_running() && pod.node.as_deref() == Some(node));
    let held = here.filter_map(|(name, pod)| match Allocation::parse(&pod.annotations) {
        Ok(Some(Recorded::Ours(allocation))) => Some((name.clone(), allocation.hardware(topology))),
        _ => None,
    });
    held.collect()
}

fn letters() -> impl Iterator<Item = char> {
    ('a'..='z').chain('A'..='Z').chain('0'..='9')
}

fn boxes(topology: &Topology, shape: Shape, holders: &BTreeMap<String, CoreSet>) -> String {
    let device = |id: u8| {
        let first = id * topology.cores_per_device();
        let cores = (first..first + topology.cores_per_device()).map(|core| {
            let holder = letters().zip(holders.values()).find(|(_, cores)| cores.contains(core));
            holder.map_or('.', |(letter, _)| letter)
        });
        format!("[{id:>2} {}]", cores.collect::<String>())
    };
    let (per_row, link) = match shape {
        Shape::Torus => (4, "--"),
        Shape::Line | Shape::Ring => (topology.devices(), "--"),
        Shape::Switch => (4, "  "),
        Shape::Single => (1, ""),
    };
    let mut text = String::new();
    for row in 0..topology.devices().div_ceil(per_row) {
        let ids = row * per_row..((row + 1) * per_row).min(topology.devices());
        let line = ids.map(device).collect::<Vec<_>>().join(link);
        let wraps = matches!(shape, Shape::Torus) || (matches!(shape, Shape::Ring) && row == 0);
        let (before, after) = if wraps { ("--", "--") } else { ("  ", "") };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {before}{line}{after}");
    }
    let note = match shape {
        Shape::Torus => "  each device is linked to the one above and below it too; rows and columns close\n",
        Shape::Ring => "  the last device is linked to the first\n",
        Shape::Switch => "  every device reaches every other through the switch\n",
        Shape::Line | Shape::Single => "",
    };
    text + note
}
