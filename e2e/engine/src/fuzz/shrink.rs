//! Makes a failing plan smaller as long as it still fails. Called by [`super::on_embedded`].

use super::plan::{Action, ContainerPlan, Plan, PodPlan};
use neuron_core::request::Role;

/// The smallest failing plan that was found within so many attempts, with its failures. `fails` says what is wrong
/// with a plan, nothing if it passes.
pub async fn shrink(
    plan: Plan,
    failures: Vec<String>,
    mut attempts: usize,
    mut fails: impl AsyncFnMut(&Plan) -> Vec<String>,
) -> (Plan, Vec<String>) {
    let mut best = (plan, failures);
    let mut tried = Vec::new();
    loop {
        let mut found = None;
        for candidate in smaller(&best.0) {
            if tried.contains(&candidate) {
                continue;
            }
            if attempts == 0 {
                return best;
            }
            attempts -= 1;
            let failures = fails(&candidate).await;
            if !failures.is_empty() {
                found = Some((candidate, failures));
                break;
            }
            tried.push(candidate);
        }
        match found {
            Some(smaller) => best = smaller,
            None => return best,
        }
    }
}

/// How many words of a failure tell what kind it is of.
const GIST: usize = 5;

/// Whether both have a failure of the same kind: a timeout on a busy machine must not take the place of what was found.
pub fn are_alike(found: &[String], now: &[String]) -> bool {
    now.iter().any(|now| found.iter().any(|found| gist(found) == gist(now)))
}

/// A failure's first words without names and numbers, from the pod or step on that it names.
fn gist(failure: &str) -> Vec<&str> {
    let words: Vec<&str> = failure.split_whitespace().collect();
    let from = words.iter().position(|word| matches!(*word, "pod" | "pods" | "step")).unwrap_or_default();
    let words = words.into_iter().skip(from);
    words.filter(|word| !word.contains(|c: char| c.is_ascii_digit() || c == '{')).take(GIST).collect()
}

/// Every plan that is one step smaller, the boldest first.
pub fn smaller(plan: &Plan) -> Vec<Plan> {
    let with = |actions: Vec<Action>| Plan { actions: cleaned(actions), ..plan.clone() };
    let mut plans = Vec::new();
    let count = plan.actions.len();
    if count > 3 {
        plans.push(with(plan.actions[..count / 2].to_vec()));
        plans.push(with(plan.actions[count / 2..].to_vec()));
    }
    for place in (0..count).rev() {
        let mut actions = plan.actions.clone();
        actions.remove(place);
        plans.push(with(actions));
    }
    plans.extend(one_node(plan));
    for (place, action) in plan.actions.iter().enumerate() {
        for replacement in smaller_actions(action) {
            let mut actions = plan.actions.clone();
            actions.splice(place..=place, replacement);
            plans.push(with(actions));
        }
    }
    plans.retain(|smaller| smaller != plan);
    plans
}

/// The plan without its second node, and without what happens there.
fn one_node(plan: &Plan) -> Option<Plan> {
    let first = |action: &Action| match action {
        Action::Device(node, ..) | Action::Restart(_, node) | Action::Without(_, node, _) => *node == 0,
        Action::Apply(_) | Action::Together(_) | Action::Delete(_) => true,
    };
    let actions: Vec<Action> = plan.actions.iter().filter(|action| first(action)).cloned().collect();
    (plan.nodes.len() > 1).then(|| Plan { nodes: plan.nodes[..1].to_vec(), actions, ..plan.clone() })
}

/// What may stand in an action's place.
fn smaller_actions(action: &Action) -> Vec<Vec<Action>> {
    match action {
        Action::Without(part, node, inner) => {
            let mut all = vec![vec![Action::Restart(*part, *node)], inner.clone()];
            for (place, one) in inner.iter().enumerate() {
                let mut fewer = inner.clone();
                fewer.remove(place);
                all.push(vec![Action::Without(*part, *node, fewer)]);
                for replacement in smaller_actions(one) {
                    let mut inner = inner.clone();
                    inner.splice(place..=place, replacement);
                    all.push(vec![Action::Without(*part, *node, inner)]);
                }
            }
            all
        }
        Action::Apply(pods) => smaller_pods(pods).into_iter().map(|pods| vec![Action::Apply(pods)]).collect(),
        Action::Together(pods) => {
            let mut all = vec![vec![Action::Apply(pods.clone())]];
            all.extend(smaller_pods(pods).into_iter().map(|pods| vec![Action::Together(pods)]));
            all
        }
        Action::Delete(names) if names.len() > 1 => {
            let without = |place: usize| {
                let mut names = names.clone();
                names.remove(place);
                vec![Action::Delete(names)]
            };
            (0..names.len()).map(without).collect()
        }
        Action::Delete(_) | Action::Restart(..) | Action::Device(..) => Vec::new(),
    }
}

fn smaller_pods(pods: &[PodPlan]) -> Vec<Vec<PodPlan>> {
    let mut all = Vec::new();
    for (place, pod) in pods.iter().enumerate() {
        let mut replace = |pod: Option<PodPlan>| {
            let mut pods = pods.to_vec();
            pods.splice(place..=place, pod);
            all.push(pods);
        };
        replace(None);
        if pod.ends_after.is_some() {
            replace(Some(PodPlan { ends_after: None, ..pod.clone() }));
        }
        for containers in smaller_containers(&pod.containers) {
            replace(Some(PodPlan { containers, ..pod.clone() }));
        }
    }
    all
}

fn smaller_containers(containers: &[ContainerPlan]) -> Vec<Vec<ContainerPlan>> {
    let mut all = Vec::new();
    for (place, container) in containers.iter().enumerate() {
        let mut fewer = containers.to_vec();
        fewer.remove(place);
        if fewer.iter().any(|container| container.role == Role::App) {
            all.push(fewer);
        }
        let counts = |devices: u32, cores: u32| ContainerPlan { devices, cores, ..container.clone() };
        let (devices, cores) = (container.devices, container.cores);
        let halves = [counts(0, cores), counts(devices, 0), counts(devices.min(1), cores.min(1))];
        for smaller in halves.into_iter().chain([counts(devices / 2, cores), counts(devices, cores / 2)]) {
            if smaller != *container {
                let mut containers = containers.to_vec();
                containers[place] = smaller;
                all.push(containers);
            }
        }
    }
    all
}

/// The plan without deletions of pods that are no longer created, healings of devices that never broke, and empty actions.
fn cleaned(actions: Vec<Action>) -> Vec<Action> {
    let created: Vec<String> = actions.iter().flat_map(Action::pods).map(|pod| pod.name.clone()).collect();
    actions.into_iter().filter_map(|action| clean(action, &created)).collect()
}

fn clean(action: Action, created: &[String]) -> Option<Action> {
    match action {
        Action::Apply(pods) | Action::Together(pods) if pods.is_empty() => None,
        Action::Delete(names) => {
            let names: Vec<String> = names.into_iter().filter(|name| created.contains(name)).collect();
            (!names.is_empty()).then_some(Action::Delete(names))
        }
        Action::Without(part, node, inner) => {
            let inner = inner.into_iter().filter_map(|action| clean(action, created)).collect();
            Some(Action::Without(part, node, inner))
        }
        other => Some(other),
    }
}
