//! Pods with init containers and sidecars against everything that kubelet may do with them: each of its
//! free choices among handed-down ids is played, with the candidate sets of the naive definition.

use std::collections::BTreeSet;

use neuron_core::ids::{CoreSet, DeviceSet};
use neuron_core::names::Resource;
use neuron_core::placement::{PlacedContainer, fits, place};
use neuron_core::request::PodRequest;
use proptest::prelude::*;

use super::support::{Role, TestNode, pod};

/// Ids of one resource as bits.
type Ids = u128;
/// Every hand-down set that kubelet may be left with, for devices and for cores.
type HandedDown = [BTreeSet<Ids>; 2];

/// One container's request of one resource.
#[derive(Clone, Copy, Debug)]
struct Step {
    container: usize,
    role: Role,
    resource: Resource,
    count: u32,
}

fn steps(request: &PodRequest) -> Vec<Step> {
    let of = |(container, requested): (usize, &neuron_core::request::ContainerRequest)| {
        let role = requested.role;
        Resource::ALL.map(|resource| Step { container, role, resource, count: requested.count(resource) })
    };
    request.containers.iter().enumerate().flat_map(of).filter(|step| step.count > 0).collect()
}

fn candidates(node: &TestNode, resource: Resource, count: u32) -> BTreeSet<Ids> {
    let sets = match resource {
        Resource::Device => node.sets.devices(count),
        Resource::Core => node.sets.cores(count),
    };
    sets.iter().map(|set| bits(set.iter().copied())).collect()
}

fn bits(ids: impl Iterator<Item = u8>) -> Ids {
    ids.fold(0, |all, id| all | 1 << id)
}

fn hardware(node: &TestNode, resource: Resource, ids: Ids) -> CoreSet {
    match resource {
        Resource::Device => {
            let devices: DeviceSet = (0..16).filter(|id| ids >> id & 1 == 1).collect();
            node.occupancy.topology().cores_of(devices)
        }
        Resource::Core => CoreSet::from_bits(ids),
    }
}

/// Every way to pick `count` of `ids`.
fn picks(ids: Ids, count: u32) -> Vec<Ids> {
    if count == 0 {
        return vec![0];
    }
    if ids.count_ones() < count {
        return Vec::new();
    }
    let lowest = ids & ids.wrapping_neg();
    let rest = ids & !lowest;
    let mut all: Vec<Ids> = picks(rest, count - 1).into_iter().map(|pick| pick | lowest).collect();
    all.extend(picks(rest, count));
    all
}

/// Everything that kubelet may give at a step that finds `handed_down`, beside `fresh`: all of it if the step asks for
/// more, else any of it.
fn outcomes(step: Step, handed_down: &BTreeSet<Ids>, fresh: Ids) -> BTreeSet<(Ids, Ids)> {
    let given = |&set: &Ids| {
        let is_short = step.count > set.count_ones();
        let ways = if is_short { vec![set | fresh] } else { picks(set, step.count) };
        ways.into_iter().map(move |ids| (set, ids))
    };
    handed_down.iter().flat_map(given).collect()
}

/// What is handed down after `outcomes` of the step.
fn after(step: Step, outcomes: &BTreeSet<(Ids, Ids)>) -> BTreeSet<Ids> {
    let left = |&(handed, given): &(Ids, Ids)| match step.role {
        Role::Init => handed | given,
        Role::Sidecar | Role::App => handed & !given,
    };
    outcomes.iter().map(left).collect()
}

/// Whether any choice of fresh ids keeps every outcome of every step a candidate set.
fn is_possible(node: &TestNode, steps: &[Step], handed_down: &HandedDown, free: CoreSet) -> bool {
    let Some((&step, later)) = steps.split_first() else { return true };
    let handed_here = &handed_down[step.resource as usize];
    let sets = candidates(node, step.resource, step.count);
    let first = handed_here.first().copied().unwrap_or_default();
    // Whatever is taken afresh has to make a candidate set of the first hand-down set, too.
    let fresh: BTreeSet<Ids> = if step.count > first.count_ones() {
        sets.iter().filter(|set| *set & first == first).map(|set| set & !first).collect()
    } else {
        BTreeSet::from([0])
    };
    fresh.into_iter().any(|fresh| {
        let taken = hardware(node, step.resource, fresh);
        let outcomes = outcomes(step, handed_here, fresh);
        let mut next = handed_down.clone();
        next[step.resource as usize] = after(step, &outcomes);
        taken.is_subset(free)
            && outcomes.iter().all(|(_, given)| sets.contains(given))
            && is_possible(node, later, &next, free.difference(taken))
    })
}

fn recorded(container: &PlacedContainer, resource: Resource) -> Ids {
    match resource {
        Resource::Device => bits(container.devices.iter()),
        Resource::Core => container.cores.bits(),
    }
}

/// What can go wrong when kubelet starts the pod as it was placed.
fn problem(node: &TestNode, request: &PodRequest, placed: &[PlacedContainer]) -> Option<String> {
    let mut handed_down: HandedDown = [BTreeSet::from([0]), BTreeSet::from([0])];
    let mut expected: [Ids; 2] = [0, 0];
    let mut taken = CoreSet::EMPTY;
    let mut provisional: Vec<bool> = vec![false; placed.len()];
    for step in steps(request) {
        let at = step.resource as usize;
        let set = recorded(&placed[step.container], step.resource);
        let fresh = set & !expected[at];
        let new = hardware(node, step.resource, fresh);
        if !new.is_subset(node.occupancy.free_cores()) || new.intersects(taken) {
            return Some(format!("{} takes what is not free", placed[step.container].name));
        }
        taken = taken.union(new);
        let outcomes = outcomes(step, &handed_down[at], fresh);
        let sets = candidates(node, step.resource, step.count);
        if let Some((_, given)) = outcomes.iter().find(|(_, given)| !sets.contains(given)) {
            return Some(format!("{} may be given {given:b}", placed[step.container].name));
        }
        if !outcomes.iter().any(|(_, given)| *given == set) {
            return Some(format!("{} is never given its record", placed[step.container].name));
        }
        provisional[step.container] |= outcomes.iter().any(|(_, given)| *given != set);
        handed_down[at] = after(step, &outcomes);
        expected[at] = match step.role {
            Role::Init => expected[at] | set,
            Role::Sidecar | Role::App => expected[at] & !set,
        };
    }
    let marks: Vec<bool> = placed.iter().map(|container| container.provisional).collect();
    (marks != provisional).then(|| format!("provisional are {provisional:?}, marked {marks:?}"))
}

fn nodes() -> impl Strategy<Value = TestNode> {
    let types = vec![("inf1.6xlarge", 1), ("inf2.24xlarge", 1), ("trn1.32xlarge", 1), ("trn3e.24xlarge", 2)];
    (prop::sample::select(types), any::<bool>(), any::<[u32; 3]>(), 0u8..3).prop_map(
        |((name, lnc), linked, random, density)| {
            let mut node = TestNode::new(name, lnc, linked);
            let held = match density {
                0 => 0,
                1 => random[0] & random[1] & random[2],
                _ => random[0] & random[1],
            };
            node.occupancy.hold(CoreSet::from_bits(u128::from(held)));
            if linked {
                // A whole torus has more linked sets than can be played out.
                let rest = node.occupancy.topology().all_cores().iter().skip(16).collect();
                node.occupancy.hold(rest);
            }
            node
        },
    )
}

fn requests() -> impl Strategy<Value = Vec<(Role, u32, u32)>> {
    let amount = prop_oneof![
        4 => (1u32..5, Just(0)),
        3 => (Just(0), 1u32..5),
        1 => (1u32..3, 1u32..3),
        1 => prop::sample::select(vec![(8, 0), (6, 0), (0, 9), (0, 8)]),
    ];
    let before = (prop::sample::select(vec![Role::Init, Role::Init, Role::Sidecar]), amount.clone());
    let apps = prop::collection::vec((Just(Role::App), amount), 0..=3);
    let of = |(before, apps): (Vec<_>, Vec<_>)| {
        before.into_iter().chain(apps).map(|(role, (devices, cores))| (role, devices, cores)).collect()
    };
    (prop::collection::vec(before, 1..=3), apps).prop_map(of)
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn whatever_kubelet_hands_down_is_allowed_and_nothing_is_missed(node in nodes(), requests in requests()) {
        let request = pod(&requests);
        let none: HandedDown = [BTreeSet::from([0]), BTreeSet::from([0])];
        let possible = is_possible(&node, &steps(&request), &none, node.occupancy.free_cores());
        let placed = place(&request, &node.occupancy);
        prop_assert_eq!(placed.is_ok(), possible, "{:?}", placed);
        prop_assert_eq!(placed.clone().err(), fits(&request, &node.occupancy).err());
        if let Ok(placed) = placed {
            prop_assert_eq!(problem(&node, &request, &placed.containers), None, "{:?}", placed);
        }
    }
}
