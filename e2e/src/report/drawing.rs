//! Draws a node's devices, links and holders as text, for people. Called by the command line for what came of a
//! scenario, by the playground for nodes that stand.

use std::fmt::Write as _;

use neuron_core::catalog::{Catalog, Shape};
use neuron_core::ids::{CoreSet, DeviceSet};
use neuron_core::record::{Allocation, Recorded};
use neuron_core::topology::{Policy, Topology};
use neuron_e2e_engine::outcome::Outcome;
use neuron_e2e_engine::scenario::{NodeSpec, Scenario};

use super::colours::Paint;
use super::sets::folded;

/// A node and who holds what of it.
pub struct Sketch<'a> {
    /// The name of the node, as the drawing is headed.
    pub name: &'a str,
    /// Its devices, cores and links.
    pub topology: &'a Topology,
    /// How they are linked; none where the type is not in the catalog.
    pub shape: Option<Shape>,
    /// Who holds what, in the order of their letters.
    pub holders: Vec<Holder>,
    /// Devices that new pods do not get.
    pub unhealthy: DeviceSet,
}

/// One holder.
pub struct Holder {
    /// Its logical cores under either name.
    pub cores: CoreSet,
    /// What stands behind its letter.
    pub words: String,
}

/// A drawing of each node of the scenario at its end, without colours.
pub fn nodes(scenario: &Scenario, outcome: &Outcome) -> String {
    let nodes = scenario.nodes.iter().enumerate();
    let types = scenario.catalog.types();
    nodes.filter_map(|(place, spec)| at_the_end(&format!("n{}", place + 1), spec, types, outcome)).collect()
}

fn at_the_end(name: &str, spec: &NodeSpec, types: &Catalog, outcome: &Outcome) -> Option<String> {
    let model = types.find(&spec.instance_type)?;
    let lnc = spec.lnc.unwrap_or(model.default_lnc);
    let topology = Topology::named(&spec.instance_type, model, lnc, Policy::Documented).ok()?;
    let here = outcome.pods.iter().filter(|(_, pod)| pod.is_running() && pod.node.as_deref() == Some(name));
    let held = here.filter_map(|(pod, outcome)| match Allocation::parse(&outcome.annotations) {
        Ok(Some(Recorded::Ours(allocation))) => {
            let cores = allocation.hardware(&topology);
            Some(Holder { cores, words: format!("{pod}, with cores {}", folded(&cores.to_string())) })
        }
        _ => None,
    });
    let sketch = Sketch {
        name,
        topology: &topology,
        shape: Some(model.shape),
        holders: held.collect(),
        unhealthy: DeviceSet::EMPTY,
    };
    Some(node(&sketch, Paint::Plain))
}

/// A drawing of one node. Each device is a box with its id and one letter for each logical core: who holds it, a dot
/// if nobody does, `!` if it is free on a device that new pods do not get.
pub fn node(sketch: &Sketch, paint: Paint) -> String {
    let mut text = heading(sketch, paint) + &boxes(sketch, paint);
    for ((place, holder), letter) in sketch.holders.iter().enumerate().zip(letters()) {
        let style = paint.holder(place);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {style}{letter}{style:#} = {}", holder.words);
    }
    text
}

fn heading(sketch: &Sketch, paint: Paint) -> String {
    let (devices, cores) = (sketch.topology.devices(), sketch.topology.cores_per_device());
    let plural = if devices == 1 { "" } else { "s" };
    let shape = sketch.shape.map(|shape| format!("{shape:?} of ").to_lowercase()).unwrap_or_default();
    let bold = paint.heading();
    format!(
        "{bold}{}{bold:#}  {}  {shape}{devices} device{plural} with {cores} logical cores each\n",
        sketch.name,
        sketch.topology.instance_type()
    )
}

fn letters() -> impl Iterator<Item = char> {
    ('a'..='z').chain('A'..='Z').chain('0'..='9')
}

fn boxes(sketch: &Sketch, paint: Paint) -> String {
    let devices = sketch.topology.devices();
    let (per_row, link) = match sketch.shape {
        Some(Shape::Torus) => (4, "--"),
        Some(Shape::Line | Shape::Ring) => (devices, "--"),
        Some(Shape::Switch) | None => (4, "  "),
        Some(Shape::Single) => (1, ""),
    };
    let mut text = String::new();
    for row in 0..devices.div_ceil(per_row) {
        let ids = row * per_row..((row + 1) * per_row).min(devices);
        let line = ids.map(|id| device(sketch, id, paint)).collect::<Vec<_>>().join(link);
        let wraps = matches!(sketch.shape, Some(Shape::Torus | Shape::Ring));
        let (before, after) = if wraps { ("--", "--") } else { ("  ", "") };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {before}{line}{after}");
    }
    let note = match sketch.shape {
        Some(Shape::Torus) => {
            "  each device is linked to the one above and below it too; rows and columns close"
        }
        Some(Shape::Ring) => "  the last device is linked to the first",
        Some(Shape::Switch) => "  every device reaches every other through the switch",
        Some(Shape::Line | Shape::Single) | None => "",
    };
    let faint = paint.faint();
    if note.is_empty() { text } else { format!("{text}{faint}{note}{faint:#}\n") }
}

fn device(sketch: &Sketch, id: u8, paint: Paint) -> String {
    let mut text = format!("[{id:>2} ");
    for core in sketch.topology.cores_of(DeviceSet::single(id)).iter() {
        let mut holders = sketch.holders.iter().enumerate().zip(letters());
        let (style, sign) = match holders.find(|((_, holder), _)| holder.cores.contains(core)) {
            Some(((place, _), letter)) => (paint.holder(place), letter),
            None if sketch.unhealthy.contains(id) => (paint.bad(), '!'),
            None => (paint.faint(), '.'),
        };
        // Writing to a String cannot fail.
        let _ = write!(text, "{style}{sign}{style:#}");
    }
    text + "]"
}
