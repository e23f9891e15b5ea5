//! Pods of every shape: one container or several, init containers and sidecars, devices, cores or both.

use neuron_core::names::{NEURON, NEURONCORE};
use serde_json::{Value, json};
use simulated_cluster::plan::NodePlan;
use simulated_cluster::suite::Units;
use simulator::random::Rng;

use crate::machine::Machine;
use crate::naive::can_be_placed;

/// One pod in so many is drawn without a look at whether a node could run it.
const ANY: u8 = 30;
/// How often another one is drawn in place of one that no node could run.
const MOST_TRIED: usize = 5;

/// A pod that one of these nodes could run, but for a few.
pub(crate) fn pod(draws: &mut Rng, nodes: &[NodePlan], ends_after: Option<u32>) -> Value {
    let node = &nodes[draws.usize(..nodes.len())];
    let Ok(machine) = Machine::of(node) else { return json!({}) };
    let mut pod = any_pod(draws, &machine, ends_after);
    if draws.u8(..ANY) > 0 {
        let mut tried = 1;
        while tried < MOST_TRIED && can_be_placed(&machine, &pod, &Units::new()) == Some(false) {
            pod = any_pod(draws, &machine, ends_after);
            tried += 1;
        }
    }
    pod
}

fn any_pod(draws: &mut Rng, machine: &Machine, ends_after: Option<u32>) -> Value {
    let (devices, cores) = (machine.device_counts(), machine.core_counts());
    let mut shapes = Shapes { draws, devices, cores, size: u32::from(machine.cores()) };
    let usual = shapes.request();
    let apps = if shapes.draws.u8(..5) == 0 { shapes.draws.usize(2..=3) } else { 1 };
    let mut containers: Vec<Value> = (0..apps)
        .map(|number| {
            let request = if number == 0 || shapes.draws.bool() { usual.clone() } else { shapes.request() };
            let name = if number == 0 { "main".to_owned() } else { format!("app{number}") };
            container(&name, request, ends_after)
        })
        .collect();
    let mut inits = Vec::new();
    if shapes.draws.u8(..6) == 0 {
        // A hand-down that fits asks for the same count; others are refused, which must be said.
        let request = if shapes.draws.u8(..8) > 0 { usual.clone() } else { shapes.request() };
        inits.push(container("init", request.clone(), Some(1)));
        if shapes.draws.u8(..4) == 0 {
            inits.push(container("init2", request, Some(1)));
        }
    }
    if shapes.draws.u8(..12) == 0 {
        let request = shapes.request();
        let mut sidecar = container("side", request, None);
        sidecar["restartPolicy"] = "Always".into();
        inits.insert(shapes.draws.usize(..=inits.len()), sidecar);
    }
    if shapes.draws.u8(..10) == 0 {
        containers.insert(shapes.draws.usize(..=containers.len()), container("log", json!({}), ends_after));
    }
    let mut spec = json!({"containers": containers, "restartPolicy": "Never"});
    if !inits.is_empty() {
        spec["initContainers"] = inits.into();
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": spec})
}

struct Shapes<'a> {
    draws: &'a mut Rng,
    devices: Vec<u32>,
    cores: Vec<u32>,
    size: u32,
}

impl Shapes<'_> {
    /// What a container asks for.
    fn request(&mut self) -> Value {
        match self.draws.u8(..20) {
            0..9 => json!({NEURON: self.devices().to_string()}),
            9..18 => json!({NEURONCORE: self.cores().to_string()}),
            18 => json!({NEURON: self.devices().to_string(), NEURONCORE: self.cores().to_string()}),
            _ => json!({NEURONCORE: self.draws.u32(1..=self.size + 1).to_string()}),
        }
    }

    fn devices(&mut self) -> u32 {
        self.count(&self.devices.clone())
    }

    fn cores(&mut self) -> u32 {
        self.count(&self.cores.clone())
    }

    /// Small counts more often, so that several pods fit.
    fn count(&mut self, counts: &[u32]) -> u32 {
        let last = if self.draws.u8(..5) == 0 { counts.len() } else { counts.len().div_ceil(3) };
        counts.get(self.draws.usize(..last.max(1))).copied().unwrap_or(1)
    }
}

fn container(name: &str, limits: Value, ends_after: Option<u32>) -> Value {
    let mut container = json!({"name": name, "image": "neuron-workload", "resources": {"limits": limits}});
    if let Some(seconds) = ends_after {
        container["args"] = json!([format!("--for={seconds}s")]);
    }
    container
}
