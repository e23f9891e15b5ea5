//! Which random scenarios come out the same wherever they run, so that what came of them on two clusters can be compared
//! to the letter; and how to make such. Asked by [`super::plan`] and by whoever has two clusters.

use std::sync::Arc;

use neuron_core::ids::{CoreSet, DeviceSet};
use neuron_core::names::Resource;
use neuron_core::occupancy::Occupancy;
use neuron_core::placement::place;
use neuron_core::request::{ContainerRequest, PodRequest, Role};
use neuron_core::topology::{Policy, Topology};

use super::generate;
use super::plan::{Action, ContainerPlan, Plan, PodPlan};
use crate::scenario::{CatalogSource, DeviceState, Part};

/// Plans that are made of one seed until one is comparable: far more than it takes.
const ATTEMPTS: u64 = 1000;

/// A comparable plan of this seed; the same one whenever it is asked for.
pub fn plan(seed: u64, catalog: &CatalogSource) -> Plan {
    let mut attempts = (0..ATTEMPTS).map(|attempt| generate::repeatable(seed, attempt, catalog));
    attempts.find(|plan| why_not(plan).is_none()).unwrap_or_else(|| generate::plan(seed, catalog))
}

/// Why two runs of the plan may differ; none if they must not.
pub fn why_not(plan: &Plan) -> Option<&'static str> {
    let [node] = plan.nodes.as_slice() else { return Some("several nodes may be equally good") };
    if plan.pods().any(|(_, pod)| pod.ends_after.is_some()) {
        return Some("a pod may be gone before its record says so");
    }
    if plan.pods().any(|(_, pod)| hands_down_a_part(pod)) {
        return Some("kubelet chooses what an init container hands down");
    }
    let Some(model) = plan.catalog.types().find(&node.instance_type) else {
        return Some("the type is not in the catalog");
    };
    let Ok(topology) = Topology::of(model, node.lnc.unwrap_or(model.default_lnc), Policy::Documented) else {
        return Some("the type's shape is not known");
    };
    let mut node = Simulated {
        occupancy: Occupancy::empty(Arc::new(topology)),
        placed: Vec::new(),
        waiting: Vec::new(),
        together: Vec::new(),
        inits: Vec::new(),
    };
    plan.actions.iter().find_map(|action| node.why_not(action)).or_else(|| node.why_not_closed())
}

/// Whether a container takes over only a part of what init containers leave: kubelet's choice is random.
fn hands_down_a_part(pod: &PodPlan) -> bool {
    let asks = |resource| {
        let count = move |container: &ContainerPlan| match resource {
            Resource::Device => container.devices,
            Resource::Core => container.cores,
        };
        // kubelet's order: init containers and sidecars first.
        let app = |container: &&ContainerPlan| container.role == Role::App;
        let first = pod.containers.iter().filter(move |container| !app(container));
        first
            .chain(pod.containers.iter().filter(app))
            .map(move |container| (container.role, count(container)))
    };
    Resource::ALL.into_iter().any(|resource| {
        let mut left = 0;
        asks(resource).any(|(role, count)| {
            let partly = 0 < count && count < left;
            left = if role == Role::Init { left.max(count) } else { left - left.min(count) };
            partly
        })
    })
}

/// The plan's only node as production places pods on it, as far as it takes to see whether chance decides anything.
struct Simulated {
    occupancy: Occupancy,
    placed: Vec<(String, CoreSet)>,
    /// Pods that wait for free devices, or forever.
    waiting: Vec<PodPlan>,
    /// Pods of which it is open which has which set.
    together: Vec<String>,
    /// Pods with init containers.
    inits: Vec<String>,
}

/// Why plans with waiting pods differ: what such a pod is told, and whether it is placed before it is deleted, depends
/// on when it is tried.
const TRIED_WHEN: &str = "when a waiting pod is tried is open";

impl Simulated {
    fn why_not(&mut self, action: &Action) -> Option<&'static str> {
        match action {
            Action::Apply(pods) => pods.iter().find_map(|pod| self.apply(pod)),
            Action::Together(pods) => self.apply_together(pods),
            Action::Delete(names) => self.delete(names),
            Action::Restart(..) | Action::Device(..) if !self.waiting.is_empty() => Some(TRIED_WHEN),
            Action::Restart(part, _) => self.without_kubelet(*part),
            Action::Device(_, device, state) => {
                let one = DeviceSet::single(*device);
                let others = self.occupancy.unhealthy().difference(one);
                let healed = *state == DeviceState::Healthy;
                self.occupancy.set_unhealthy(if healed { others } else { others.union(one) });
                None
            }
            Action::Without(part, _, inner) => self.without(*part, inner),
        }
    }

    fn apply(&mut self, pod: &PodPlan) -> Option<&'static str> {
        match place(&request(pod), &self.occupancy) {
            Ok(placement) => {
                let cores = placement.hardware(self.occupancy.topology());
                self.occupancy.hold(cores);
                self.placed.push((pod.name.clone(), cores));
                if pod.has_init() {
                    self.inits.push(pod.name.clone());
                }
            }
            Err(_) => self.waiting.push(pod.clone()),
        }
        (self.waiting.len() > 1).then_some("which of several waiting pods is tried first is open")
    }

    fn apply_together(&mut self, pods: &[PodPlan]) -> Option<&'static str> {
        if !are_equal(pods) || pods.iter().any(PodPlan::has_init) {
            return Some("different pods are created at once");
        }
        self.together.extend(pods.iter().map(|pod| pod.name.clone()));
        let waited = self.waiting.len();
        let why = pods.iter().find_map(|pod| self.apply(pod));
        why.or((self.waiting.len() > waited).then_some("which of several equal pods waits is open"))
    }

    fn delete(&mut self, names: &[String]) -> Option<&'static str> {
        if names.iter().any(|name| self.together.contains(name)) {
            return Some("which set becomes free is open");
        }
        if !self.waiting.is_empty() && self.placed.iter().any(|(name, _)| names.contains(name)) {
            return Some(TRIED_WHEN);
        }
        self.waiting.retain(|pod| !names.contains(&pod.name));
        let freed = self.placed.extract_if(.., |(name, _)| names.contains(name));
        let freed = freed.fold(CoreSet::EMPTY, |all, (_, cores)| all.union(cores));
        self.occupancy.release(freed);
        None
    }

    /// The steps that end every plan, in which devices are healed and pods deleted, as [`Self::why_not`].
    fn why_not_closed(&self) -> Option<&'static str> {
        let changes = !self.placed.is_empty() || !self.occupancy.unhealthy().is_empty();
        (changes && !self.waiting.is_empty()).then_some(TRIED_WHEN)
    }

    /// A kubelet that starts again admits pods again, whose init containers no longer run: it fails them if the plugin
    /// has not registered by then.
    fn without_kubelet(&self, part: Part) -> Option<&'static str> {
        let inits = self.placed.iter().any(|(name, _)| self.inits.contains(name));
        (part == Part::Kubelet && inits)
            .then_some("whether the plugin is back before pods are admitted again is open")
    }

    fn without(&mut self, part: Part, inner: &[Action]) -> Option<&'static str> {
        if !self.waiting.is_empty() {
            return Some(TRIED_WHEN);
        }
        if let Some(why) = self.without_kubelet(part) {
            return Some(why);
        }
        let places = matches!(part, Part::Extender | Part::Scheduler);
        match inner {
            [Action::Apply(pods)] if places && pods.len() == 1 => {
                let why = pods.iter().find_map(|pod| self.apply(pod));
                why.or((!self.waiting.is_empty()).then_some(TRIED_WHEN))
            }
            [Action::Delete(names)] => self.delete(names),
            [] => None,
            _ => Some("pods come and go while a part is stopped"),
        }
    }
}

/// Whether the pods differ in nothing but their names.
pub fn are_equal(pods: &[PodPlan]) -> bool {
    pods.windows(2).all(|pair| match pair {
        [one, other] => one.containers == other.containers && one.ends_after == other.ends_after,
        _ => true,
    })
}

fn request(pod: &PodPlan) -> PodRequest {
    let containers = pod.containers.iter().enumerate().map(|(place, container)| ContainerRequest {
        name: format!("c{place}").into(),
        role: container.role,
        devices: container.devices,
        cores: container.cores,
    });
    PodRequest { containers: containers.collect() }
}
