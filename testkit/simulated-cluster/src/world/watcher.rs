//! Keeps the truth up to date and judges it at every event. Called by the API server inside every write, by containers as they
//! start and end, and by the parts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use fake_cluster::api::Observed;
use fake_cluster::kubelet::{ContainerEnd, ContainerRun, ContainerRuntime, ContainerStart};
use fake_cluster::{ApiServer, Kubelet};
use simulator::Simulation;
use tokio::sync::{Notify, watch};

use super::locked;
use crate::observer::{ContainerTruth, Mirror, Truth, Violation, Violations, text};
use crate::plan::NodePlan;
use crate::suite::{Suite, Units};

/// Sees everything.
pub(crate) struct Watcher {
    simulation: Simulation,
    suite: Arc<dyn Suite>,
    nodes: BTreeMap<String, NodePlan>,
    state: Mutex<State>,
    /// Told after every write of a pod or node.
    pub(crate) changed: Notify,
    /// Changes with every violation.
    violated: watch::Sender<()>,
    /// The kubelet that runs on each node, or ran last.
    kubelets: Mutex<BTreeMap<String, Kubelet>>,
}

/// What is seen.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) mirror: Mirror,
    pub(crate) truth: Truth,
    pub(crate) violations: Violations,
    /// Those that nobody has looked at yet.
    pub(crate) fresh: Vec<Violation>,
    pub(crate) counts: Counts,
}

/// What became of pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) created: u64,
    pub(crate) placed: u64,
    pub(crate) refused: u64,
    pub(crate) ended: u64,
}

/// One node's containers.
struct Containers {
    watcher: Arc<Watcher>,
    node: String,
}

impl Watcher {
    pub(crate) fn new(
        simulation: Simulation,
        suite: Arc<dyn Suite>,
        nodes: BTreeMap<String, NodePlan>,
    ) -> Self {
        Self {
            simulation,
            suite,
            nodes,
            state: Mutex::default(),
            changed: Notify::new(),
            violated: watch::Sender::new(()),
            kubelets: Mutex::default(),
        }
    }

    /// Sees every write from now on.
    pub(crate) fn observe(self: &Arc<Self>, api: &ApiServer) {
        let watcher = Arc::clone(self);
        api.observe(Box::new(move |write| watcher.write(write)));
    }

    /// The containers of a node.
    pub(crate) fn runtime(self: &Arc<Self>, node: &str) -> Arc<dyn ContainerRuntime> {
        Arc::new(Containers { watcher: Arc::clone(self), node: node.to_owned() })
    }

    /// A node's kubelet has started, whose books are looked at from now on.
    pub(crate) fn kubelet_starts(&self, node: &str, kubelet: Kubelet) {
        locked(&self.kubelets).insert(node.to_owned(), kubelet);
    }

    /// Why a node's kubelet has panicked, if it has.
    pub(crate) fn kubelet_panic(&self, node: &str) -> Option<String> {
        locked(&self.kubelets).get(node)?.panic_reason()
    }

    /// What kubelet's books give each container of a node, by pod UID and name.
    pub(crate) fn books(&self, node: &str) -> BTreeMap<(String, String), Units> {
        let mut books: BTreeMap<(String, String), Units> = BTreeMap::new();
        let Some(plan) = self.nodes.get(node) else { return books };
        let assignments = locked(&self.kubelets).get(node).map(Kubelet::assignments).unwrap_or_default();
        for given in assignments {
            let units = self.suite.units_of_ids(plan, &given.resource, &given.ids).unwrap_or_default();
            books.entry((given.pod_uid, given.container)).or_default().extend(units);
        }
        books
    }

    /// The units that pods of a node hold, but one: what their containers have that run, and what kubelet keeps for them until
    /// they end.
    pub(crate) fn held(&self, truth: &Truth, node: &str, but_for: &str) -> Units {
        let mut held = truth.held(node, but_for);
        let lives = |uid: &String| truth.pods.get(uid).is_some_and(|pod| !pod.has_ended());
        let kept = self.books(node).into_iter().filter(|((uid, _), _)| uid != but_for && lives(uid));
        held.extend(kept.flat_map(|(_, units)| units));
        held
    }

    /// Something must not be.
    pub(crate) fn violation(&self, violation: Violation) {
        self.simulation.event("observer", format_args!("{}: {}", violation.signature(), violation.text));
        let at = self.simulation.elapsed();
        let mut state = locked(&self.state);
        state.violations.add(&violation, at, || self.simulation.last_events());
        state.fresh.push(violation);
        drop(state);
        self.violated.send_replace(());
    }

    /// Changes with every violation.
    pub(crate) fn violations(&self) -> watch::Receiver<()> {
        self.violated.subscribe()
    }

    /// What is seen now.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        let mut state = locked(&self.state);
        state.truth.now = self.simulation.elapsed();
        state
    }

    fn write(&self, write: &Observed<'_>) {
        let mut state = self.state();
        state.mirror.change(write);
        match write.kind {
            "Pod" => {
                state.counts.pod_changes(write);
                state.truth.pod_changes(write.before, write.after);
                let refused = self.refused(&state, write);
                drop(state);
                self.tell(write);
                self.changed.notify_waiters();
                if let Some(violation) = refused {
                    self.violation(violation);
                }
            }
            "Node" => {
                drop(state);
                self.changed.notify_waiters();
            }
            _ => {}
        }
    }

    /// What is wrong with a refusal, if this write is one that should not have been.
    fn refused(&self, state: &State, write: &Observed<'_>) -> Option<Violation> {
        let (before, after) = (write.before?, write.after?);
        if text(before, "/status/phase") == "Failed" || !is_refusal(text(after, "/status/reason")) {
            return None;
        }
        let pod = state.truth.pods.get(text(after, "/metadata/uid"))?;
        let message = text(after, "/status/message");
        let held = self.held(&state.truth, &pod.node, &pod.uid);
        let cause = self.suite.judge_refusal(self.nodes.get(&pod.node)?, pod, message, &held)?;
        Some(Violation {
            invariant: "admission",
            cause,
            text: format!("{} on {} failed admission: {message}", pod.name(), pod.node),
            pods: vec![pod.name()],
        })
    }

    /// Adds what became of a pod to the trace.
    fn tell(&self, write: &Observed<'_>) {
        let of = |object: Option<&Arc<serde_json::Value>>, pointer| {
            object.map(|object| text(object, pointer).to_owned()).unwrap_or_default()
        };
        for pointer in ["/spec/nodeName", "/status/phase"] {
            let (before, after) = (of(write.before, pointer), of(write.after, pointer));
            if before != after && write.after.is_some() {
                self.simulation.event("pod", format_args!("{}/{}: {after}", write.namespace, write.name));
            }
        }
        if write.after.is_none() {
            self.simulation.event("pod", format_args!("{}/{}: gone", write.namespace, write.name));
        }
    }

    fn container_starts(&self, node: &str, start: &ContainerStart) {
        let pod = format!("{}/{}", start.pod_namespace, start.pod_name);
        let Some(plan) = self.nodes.get(node) else { return };
        let units = match self.suite.units(plan, start) {
            Ok(units) => units,
            Err(why) => {
                return self.violation(Violation {
                    invariant: "contents",
                    cause: super::parts::without_numbers(&why),
                    text: format!("container {} of {pod} on {node}: {why}", start.container),
                    pods: vec![pod],
                });
            }
        };
        self.simulation.event("container", format_args!("{pod} {} starts with {units:?}", start.container));
        let mut state = self.state();
        let twice = state.truth.containers_on(node).find(|(_, other)| !other.units.is_disjoint(&units));
        let twice = twice.map(|(_, other)| Arc::clone(&other.start));
        let since = state.truth.now;
        let key = (node.to_owned(), start.pod_uid.clone(), start.container.clone());
        let container = ContainerTruth { start: Arc::new(start.clone()), units, since };
        state.truth.containers.insert(key, container);
        let is_there = twice.as_ref().is_some_and(|other| state.truth.pods.contains_key(&other.pod_uid));
        drop(state);
        if let Some(other) = twice {
            let other_pod = format!("{}/{}", other.pod_namespace, other.pod_name);
            let cause = match (is_there, other.pod_uid == start.pod_uid) {
                (_, true) => "two containers of one pod",
                (true, false) => "two pods that exist",
                (false, false) => "a pod whose object is gone and a new one",
            };
            self.violation(Violation {
                invariant: "exclusive",
                cause: cause.to_owned(),
                text: format!(
                    "on {node} {pod} ({}) was given what {other_pod} ({}) has",
                    start.container, other.container
                ),
                pods: vec![pod, other_pod],
            });
        }
    }

    fn container_ends(&self, node: &str, start: &ContainerStart) {
        let (pod, container) = (&start.pod_name, &start.container);
        self.simulation.event("container", format_args!("{}/{pod} {container} ends", start.pod_namespace));
        let key = (node.to_owned(), start.pod_uid.clone(), container.clone());
        self.state().truth.containers.remove(&key);
    }

    /// A node has lost its power, and with it every container.
    pub(crate) fn containers_vanish(&self, node: &str) {
        locked(&self.kubelets).remove(node);
        self.state().truth.containers.retain(|(on, _, _), _| on != node);
    }
}

impl ContainerRuntime for Containers {
    fn start(&self, container: &ContainerStart) -> ContainerRun {
        self.watcher.container_starts(&self.node, container);
        self.watcher.suite.container(container)
    }

    fn ended(&self, end: &ContainerEnd<'_>) {
        self.watcher.container_ends(&self.node, end.container);
    }
}

impl Counts {
    fn pod_changes(&mut self, write: &Observed<'_>) {
        let phase = |object: Option<&Arc<serde_json::Value>>| {
            object.map(|object| text(object, "/status/phase").to_owned()).unwrap_or_default()
        };
        let is_bound = |object: Option<&Arc<serde_json::Value>>| {
            object.is_some_and(|object| !text(object, "/spec/nodeName").is_empty())
        };
        self.created += u64::from(write.before.is_none());
        self.placed += u64::from(!is_bound(write.before) && is_bound(write.after));
        let (before, after) = (phase(write.before), phase(write.after));
        let has_ended = |phase: &str| matches!(phase, "Succeeded" | "Failed");
        if !has_ended(&before) && (has_ended(&after) || write.after.is_none()) {
            let reason = write.after.map(|after| text(after, "/status/reason")).unwrap_or_default();
            if after == "Failed" && is_refusal(reason) { self.refused += 1 } else { self.ended += 1 }
        }
    }
}

/// Whether a pod failed its admission, by its status' reason.
fn is_refusal(reason: &str) -> bool {
    reason == "UnexpectedAdmissionError" || reason.starts_with("OutOf")
}
