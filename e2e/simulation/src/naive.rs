//! Whether a pod can be placed: kubelet's rule of what init containers hand down, and the documented candidate sets, tried out
//! one after the other. Asked by everything here that judges whether a pod waits in vain, or is told that it never fits.

use std::collections::BTreeSet;

use neuron_core::names::Resource;
use serde_json::Value;
use simulated_cluster::suite::{Books, Units};

use crate::device_models::may_run_on;
use crate::judge::counts;
use crate::machine::Machine;

/// Containers of a pod that may ask for hardware, by what the extender answers to more.
pub(crate) const MOST_CONTAINERS: usize = 128;

/// Sets that one search takes at most, as its first ones, its second ones ..
const MOST_TAKEN: u32 = 5000;

/// Whether every container of a pod can have a candidate set on a machine of which `held` is taken, whatever kubelet chooses among
/// what is handed down. None if a short search cannot tell.
pub(crate) fn can_be_placed(machine: &Machine, pod: &Value, held: &Units) -> Option<bool> {
    let steps = steps(pod);
    let asking: BTreeSet<&str> = steps.iter().map(|step| step.container.as_str()).collect();
    if asking.len() > MOST_CONTAINERS || !may_run_on(pod, machine) {
        return Some(false);
    }
    let mut search = Search { machine, taken: 0 };
    search.rest(&steps, &Default::default(), held)
}

/// Whether kube-scheduler's count leaves room for a pod beside those that live: devices that a pod has and that are broken are
/// missing twice, among the allocatable ones and in what the pod asks for.
pub(crate) fn counts_allow(machine: &Machine, live: &[&Value], pod: &Value, broken: &Units) -> bool {
    Resource::ALL.into_iter().all(|resource| {
        let left = match resource {
            Resource::Device => {
                usize::from(machine.devices()).saturating_sub(machine.devices_of(broken).len())
            }
            Resource::Core => usize::from(machine.cores()).saturating_sub(broken.len()),
        };
        let own = counted(pod, resource);
        let others: u32 = live.iter().map(|pod| counted(pod, resource)).sum();
        own == 0 || usize::try_from(others + own).is_ok_and(|all| all <= left)
    })
}

/// What Kubernetes counts for a pod: all of its app containers and sidecars, or an init container beside the sidecars before it.
fn counted(pod: &Value, resource: Resource) -> u32 {
    let own = steps(pod).into_iter().filter(|step| step.resource == resource);
    let (_, most) = own.fold((0, 0), |(running, most): (u32, u32), step| {
        let beside = running + step.count;
        (if step.keeps { beside } else { running }, most.max(beside))
    });
    most
}

/// Whether kubelet has given some of a pod's containers ids and has no candidate set for one of the others: at admission all get theirs
/// together, so it has lost its books since, and what it gave to an init container it hands down no more (`held` is what others have).
pub(crate) fn cannot_start(machine: &Machine, pod: &Value, books: &Books, held: &Units) -> bool {
    let pod_uid = pod.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
    let own = || books.iter().filter(|((uid, _), _)| uid == pod_uid);
    let taken: Units = own().flat_map(|(_, units)| units).chain(held).copied().collect();
    let is_given = |container: &str| own().any(|((_, name), _)| name == container);
    let has_no_set = |step: &Step| !sets(machine, step).iter().any(|set| set.is_disjoint(&taken));
    own().next().is_some() && steps(pod).iter().any(|step| !is_given(&step.container) && has_no_set(step))
}

/// What one container asks of one resource.
pub(crate) struct Step {
    pub(crate) container: String,
    pub(crate) resource: Resource,
    pub(crate) count: u32,
    /// How many ids are handed down to it.
    pub(crate) handed_down: u32,
    /// A sidecar or an app container keeps what it has; any other init container hands it down.
    keeps: bool,
}

/// What init containers have handed down of one resource.
#[derive(Clone, Default)]
struct HandDown {
    cores: Units,
    /// How many of its ids are left; which ones only kubelet knows, if there were more.
    left: u32,
}

struct Search<'a> {
    machine: &'a Machine,
    taken: u32,
}

/// What containers ask for, in kubelet's order.
pub(crate) fn steps(pod: &Value) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut left = [0; 2];
    for (pointer, are_inits) in [("/spec/initContainers", true), ("/spec/containers", false)] {
        for container in pod.pointer(pointer).and_then(Value::as_array).into_iter().flatten() {
            let keeps = !are_inits || container.get("restartPolicy").is_some();
            let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
            for (resource, count) in counts(container) {
                let left: &mut u32 = &mut left[place(resource)];
                steps.push(Step { container: name.to_owned(), resource, count, handed_down: *left, keeps });
                *left = if keeps { left.saturating_sub(count) } else { (*left).max(count) };
            }
        }
    }
    steps
}

/// The place of a resource among both.
fn place(resource: Resource) -> usize {
    usize::from(resource == Resource::Core)
}

impl Search<'_> {
    fn rest(&mut self, steps: &[Step], handed_down: &[HandDown; 2], held: &Units) -> Option<bool> {
        let Some((step, later)) = steps.split_first() else { return Some(true) };
        let place = place(step.resource);
        let before = &handed_down[place];
        let with = |after: HandDown| {
            let mut all = handed_down.clone();
            all[place] = after;
            all
        };
        if step.count <= before.left {
            if !self.is_every_choice_allowed(step, before)? {
                return Some(false);
            }
            let left = if step.keeps { before.left - step.count } else { before.left };
            return self.rest(later, &with(HandDown { left, ..before.clone() }), held);
        }
        // All that is handed down, and fresh ones.
        let is_open = before.left > 0 && before.left < self.ids(step.resource, &before.cores);
        let mut is_sure = !is_open;
        let own = if before.left > 0 && !is_open { before.cores.clone() } else { Units::new() };
        let machine = self.machine;
        for set in sets(machine, step).iter().filter(|_| !is_open) {
            if !own.is_subset(set) || set.difference(&own).any(|core| held.contains(core)) {
                continue;
            }
            self.taken += 1;
            if self.taken > MOST_TAKEN {
                return None;
            }
            let held = held.union(set).copied().collect();
            let left = HandDown { cores: set.clone(), left: step.count };
            match self.rest(later, &with(if step.keeps { HandDown::default() } else { left }), &held) {
                Some(true) => return Some(true),
                Some(false) => {}
                None => is_sure = false,
            }
        }
        is_sure.then_some(false)
    }

    /// Whether kubelet, which asks nobody, can take any so many of what is handed down. None if it is not sure.
    fn is_every_choice_allowed(&self, step: &Step, handed_down: &HandDown) -> Option<bool> {
        let ids = self.ids(step.resource, &handed_down.cores);
        let inside = sets(self.machine, step).iter().filter(|set| set.is_subset(&handed_down.cores)).count();
        let are_all = usize::try_from(choices(ids, step.count)) == Ok(inside);
        // What is left is some of these: not every choice is really there.
        (are_all || handed_down.left == ids).then_some(are_all)
    }

    fn ids(&self, resource: Resource, cores: &Units) -> u32 {
        let ids = match resource {
            Resource::Device => self.machine.devices_of(cores).len(),
            Resource::Core => cores.len(),
        };
        u32::try_from(ids).unwrap_or(u32::MAX)
    }
}

fn sets<'a>(machine: &'a Machine, step: &Step) -> &'a [Units] {
    match step.resource {
        Resource::Device => machine.device_sets(step.count),
        Resource::Core => machine.core_sets(step.count),
    }
}

/// Ways to choose `some` of `all`, at most.
fn choices(all: u32, some: u32) -> u64 {
    (0..some).fold(1u64, |ways, at| ways.saturating_mul(u64::from(all - at)) / u64::from(at + 1))
}

#[cfg(test)]
mod tests {
    use neuron_core::names::{NEURON, NEURONCORE};
    use serde_json::json;
    use simulated_cluster::plan::NodePlan;

    use super::*;

    /// Whether a pod can be placed on a trn1.32xlarge (16 devices, 32 cores; 1, 4, 8 or 16 devices) with these cores held.
    fn can(held: std::ops::Range<u32>, inits: &[Value], apps: &[Value]) -> Option<bool> {
        let machine = Machine::of(&NodePlan { machine: "trn1.32xlarge".to_owned() }).unwrap();
        let pod = json!({"spec": {"initContainers": inits, "containers": apps}});
        can_be_placed(&machine, &pod, &held.collect())
    }

    fn devices(count: u32) -> Value {
        json!({"resources": {"limits": {NEURON: count.to_string()}}})
    }

    fn cores(count: u32) -> Value {
        json!({"resources": {"limits": {NEURONCORE: count.to_string()}}})
    }

    fn sidecar(mut container: Value) -> Value {
        container["restartPolicy"] = "Always".into();
        container
    }

    #[test]
    fn containers_beside_each_other_have_sets_of_their_own() {
        assert_eq!(can(0..0, &[], &[devices(8), devices(8)]), Some(true));
        assert_eq!(can(0..1, &[], &[devices(8), devices(8)]), Some(false));
        assert_eq!(can(0..1, &[], &[devices(8), devices(4), devices(1), cores(1)]), Some(true));
        assert_eq!(can(0..0, &[sidecar(devices(8))], &[devices(8), cores(1)]), Some(false));
    }

    #[test]
    fn what_an_init_container_had_is_taken_over() {
        assert_eq!(can(0..0, &[devices(16)], &[devices(16)]), Some(true));
        assert_eq!(can(0..16, &[devices(4)], &[devices(8)]), Some(true), "and four fresh ones");
        assert_eq!(can(0..24, &[devices(4)], &[devices(4)]), Some(true));
        // Under the other name it is taken.
        assert_eq!(can(0..0, &[devices(16)], &[cores(1)]), Some(false));
        // A sidecar keeps what it has.
        assert_eq!(can(0..24, &[sidecar(devices(4))], &[devices(4)]), Some(false));
    }

    #[test]
    fn kubelet_may_take_any_of_what_is_handed_down() {
        assert_eq!(can(0..0, &[devices(8)], &[devices(4)]), Some(false), "not every four are a row");
        assert_eq!(can(0..0, &[devices(8)], &[devices(1)]), Some(true));
        assert_eq!(can(0..0, &[devices(8)], &[devices(1), devices(1)]), Some(true));
        assert_eq!(can(0..0, &[devices(8)], &[devices(1), devices(8)]), None, "which seven are left?");
    }

    #[test]
    fn a_broken_device_that_a_pod_has_is_missing_twice() {
        let machine = Machine::of(&NodePlan { machine: "trn1.32xlarge".to_owned() }).unwrap();
        let pod = |container: Value| json!({"spec": {"containers": [container]}});
        let (has, asks) = (pod(devices(8)), pod(devices(8)));
        let allows = |broken: Units| counts_allow(&machine, &[&has], &asks, &broken);
        assert!(allows(Units::new()));
        assert!(!allows(Units::from([0, 1])), "15 are allocatable, 8 asked for");
        assert!(
            counts_allow(&machine, &[&has], &pod(cores(8)), &Units::from([0, 1])),
            "cores are counted apart"
        );
    }

    #[test]
    fn an_init_container_counts_beside_the_sidecars_before_it_alone() {
        let asking = |name: &str, count: u32, is_sidecar: bool| {
            let mut container = json!({"name": name, "resources": {"limits": {NEURON: count.to_string()}}});
            if is_sidecar {
                container["restartPolicy"] = json!("Always");
            }
            container
        };
        let pod = |last: u32| {
            let inits = [asking("side", 2, true), asking("init", 6, false), asking("late", 1, true)];
            json!({"spec": {"initContainers": inits, "containers": [asking("main", last, false)]}})
        };
        assert_eq!(counted(&pod(1), Resource::Device), 8, "side and init, before late and main run");
        assert_eq!(counted(&pod(7), Resource::Device), 10, "side, late and main");
        assert_eq!(counted(&pod(7), Resource::Core), 0);
    }

    #[test]
    fn a_pod_cannot_start_where_a_kubelet_without_its_books_has_given_away_what_it_needs() {
        let machine = Machine::of(&NodePlan { machine: "trn1.32xlarge".to_owned() }).unwrap();
        let asking = |name: &str, resource: &str, count: u32| {
            let limits = json!({resource: count.to_string()});
            json!({"name": name, "resources": {"limits": limits}})
        };
        let spec = json!({
            "initContainers": [asking("init", NEURON, 8)], "containers": [asking("main", NEURONCORE, 8)]
        });
        let pod = json!({"metadata": {"uid": "u"}, "spec": spec});
        let cores = |range: std::ops::Range<u32>| range.collect::<Units>();
        let cannot = |of: &str, held| {
            let books = Books::from([((of.to_owned(), "init".to_owned()), cores(0..16))]);
            cannot_start(&machine, &pod, &books, &held)
        };
        assert!(
            cannot("u", cores(16..25).union(&cores(24..32)).copied().collect()),
            "no eight cores in a row are left"
        );
        assert!(!cannot("u", cores(16..24)), "24 to 31 are left");
        assert!(!cannot("another", cores(16..32)), "its admission has given it nothing yet");
    }

    #[test]
    fn a_search_that_would_take_too_long_tells_nothing() {
        let many: Vec<Value> = (0..31).map(|_| cores(1)).collect();
        assert_eq!(can(0..0, &[], &many), Some(true));
        assert_eq!(can(0..2, &[], &many), None);
    }
}
