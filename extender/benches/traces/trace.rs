//! One trace: pods of random sizes come and end on the nodes until one finds no place. Used by the bench `traces`.

use std::sync::Arc;

use fastrand::Rng;
use neuron_core::catalog::Catalog;
use neuron_core::ids::CoreSet;
use neuron_core::occupancy::Occupancy;
use neuron_core::placement::{EqualNodes, PlacedContainer, place};
use neuron_core::request::{ContainerRequest, PodRequest, Role};
use neuron_core::topology::{Policy, Topology};

use crate::choice::Choice;

/// Nodes, by type and number.
pub(crate) type Nodes = &'static [(&'static str, usize)];

/// What pods ask for, and how many of a hundred do: devices, then cores.
const PODS: [(u32, u32, u32); 6] = [(0, 1, 27), (0, 2, 20), (1, 0, 20), (4, 0, 20), (8, 0, 10), (16, 0, 3)];

/// Of a hundred steps, how many are the end of a pod.
const ENDS: u32 = 35;

/// The same pods in the same order, whoever places them.
pub(crate) struct Trace {
    /// What comes next.
    random: Rng,
    /// Most devices that a pod asks for.
    largest: u32,
}

impl Trace {
    /// Of this seed, with pods of so many devices at most.
    pub(crate) fn new(seed: u64, largest: u32) -> Self {
        Self { random: Rng::with_seed(seed), largest }
    }

    fn next_pod(&mut self) -> PodRequest {
        loop {
            let mut at = self.random.u32(..100);
            let (devices, cores, _) = PODS
                .into_iter()
                .find(|(_, _, weight)| match at.checked_sub(*weight) {
                    Some(left) => {
                        at = left;
                        false
                    }
                    None => true,
                })
                .expect("the weights make a hundred");
            if devices <= self.largest {
                let main = ContainerRequest { name: "main".into(), role: Role::App, devices, cores };
                return PodRequest { containers: vec![main] };
            }
        }
    }
}

/// What part of all physical cores is held when the first pod finds no node.
pub(crate) fn allocated_at_first_refusal(nodes: Nodes, mut trace: Trace, choice: Choice) -> f64 {
    let mut nodes = empty(nodes);
    let mut running: Vec<(usize, CoreSet)> = Vec::new();
    // Of its own, so that a choice that draws does not change what comes.
    let mut choices = Rng::with_seed(trace.random.u64(..));
    loop {
        // As many draws whatever runs, so that the pods stay the same.
        let (is_end, which) = (trace.random.u32(..100) < ENDS, trace.random.usize(..));
        if is_end && !running.is_empty() {
            let (node, cores) = running.swap_remove(which % running.len());
            nodes[node].release(cores);
            continue;
        }
        let request = trace.next_pod();
        let mut pod = EqualNodes::new(&request);
        let fitting: Vec<usize> = (0..nodes.len()).filter(|at| pod.fits(&nodes[*at]).is_ok()).collect();
        if fitting.is_empty() {
            return share_allocated(&nodes);
        }
        let candidates: Vec<&Occupancy> = fitting.iter().map(|at| &nodes[*at]).collect();
        let node = fitting[(choice.choose)(&request, &candidates, &mut choices)];
        let placement = place(&request, &nodes[node]).expect("the pod fits there");
        let topology = Arc::clone(nodes[node].topology());
        let of_container = |given: &PlacedContainer| given.cores.union(topology.cores_of(given.devices));
        let cores = placement.containers.iter().map(of_container).fold(CoreSet::EMPTY, CoreSet::union);
        nodes[node].hold(cores);
        running.push((node, cores));
    }
}

fn empty(nodes: Nodes) -> Vec<Occupancy> {
    let of_type = |(name, number): &(&str, usize)| {
        let model = Catalog::embedded().find(name).expect("a type of the catalog");
        let topology = Topology::of(model, model.default_lnc, Policy::Documented).expect("a topology");
        vec![Occupancy::empty(Arc::new(topology)); *number]
    };
    nodes.iter().flat_map(of_type).collect()
}

fn share_allocated(nodes: &[Occupancy]) -> f64 {
    let sum = |cores: fn(&Occupancy) -> u32| -> f64 {
        nodes.iter().map(|node| f64::from(cores(node) * u32::from(node.topology().lnc()))).sum()
    };
    sum(|node| node.held().len()) / sum(|node| u32::from(node.topology().cores()))
}
