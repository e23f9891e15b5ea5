//! Keeps the truth up to date and judges it at every event. Called by the API server inside every write, by containers as they
//! start and end, and by the parts.

mod books;
mod containers;
mod counts;
mod processes;
mod texts;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fake_cluster::api::Observed;
use fake_cluster::api::text;
use fake_cluster::{ApiServer, Kubelet};
use serde_json::Value;
use simulator::Simulation;
use tokio::sync::{Notify, watch};

pub(crate) use self::counts::Counts;
use self::counts::is_refusal;
use crate::observer::{Mirror, Truth, Violation, Violations};
use crate::plan::NodePlan;
use crate::suite::{RefusedPod, Suite};

/// The parts of a Node that schedulers and extenders look at.
const WHAT_A_NODE_SAYS: [&str; 4] =
    ["/spec", "/status/allocatable", "/metadata/annotations", "/metadata/labels"];

/// Sees everything.
pub(crate) struct Watcher {
    simulation: Simulation,
    suite: Arc<dyn Suite>,
    nodes: BTreeMap<String, NodePlan>,
    /// A node of each kind.
    kinds: Vec<String>,
    state: Mutex<State>,
    /// Told after every write of a pod or node.
    pub(crate) changed: Notify,
    /// Changes with every violation.
    violated: watch::Sender<()>,
    /// The kubelet that runs on each node, or ran last.
    kubelets: Mutex<BTreeMap<String, Kubelet>>,
    /// Nodes whose kubelets give other ids than plugins prefer.
    preferences_ignored: Mutex<BTreeSet<String>>,
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
    /// How often something was judged, or could not be, by what it was.
    pub(crate) judged: BTreeMap<&'static str, u64>,
    /// How often plugins have refused an Allocate, by node.
    pub(crate) asked_in_vain: BTreeMap<String, u64>,
}

impl State {
    /// So many of these were judged.
    pub(crate) fn judged(&mut self, what: &'static str, count: usize) {
        *self.judged.entry(what).or_default() += count as u64;
    }
}

impl Watcher {
    pub(crate) fn new(
        simulation: Simulation,
        suite: Arc<dyn Suite>,
        nodes: BTreeMap<String, NodePlan>,
    ) -> Self {
        let mut seen = BTreeSet::new();
        let kinds = nodes.iter().filter(|(_, plan)| seen.insert(plan.machine.clone()));
        let kinds = kinds.map(|(name, _)| name.clone()).collect();
        Self {
            simulation,
            suite,
            nodes,
            kinds,
            state: Mutex::default(),
            changed: Notify::new(),
            violated: watch::Sender::new(()),
            kubelets: Mutex::default(),
            preferences_ignored: Mutex::default(),
        }
    }

    /// Sees every write from now on.
    pub(crate) fn observe(self: &Arc<Self>, api: &ApiServer) {
        let watcher = Arc::clone(self);
        api.observe(Box::new(move |write| watcher.write(write)));
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

    /// What nodes are like has changed: what is broken, or whether they can be reached.
    pub(crate) fn nodes_change(&self) {
        let mut state = self.state();
        self.nodes.keys().for_each(|node| state.truth.changes_on(node));
    }

    /// Something was done to a part, by its name.
    pub(crate) fn disturbs(&self, part: String, at: Duration) {
        self.state().truth.disturbed.insert(part, at);
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
                let wrong = self
                    .refused(&mut state, write)
                    .or_else(|| self.bound(&mut state, write))
                    .or_else(|| self.told(&mut state, write));
                drop(state);
                self.tell(write);
                self.changed.notify_waiters();
                if let Some(violation) = wrong {
                    self.violation(violation);
                }
            }
            "Node" => {
                let is_new = |node: &Value, part| {
                    write.before.is_none_or(|before| before.pointer(part) != node.pointer(part))
                };
                // Its heartbeats change nothing that a scheduler looks at.
                if let Some(node) = write.after
                    && WHAT_A_NODE_SAYS.iter().any(|part| is_new(node, part))
                {
                    state.truth.changes_on(text(node, "/metadata/name"));
                }
                drop(state);
                self.changed.notify_waiters();
            }
            "Event" => {
                let wrong = self.told_by_event(&mut state, write);
                drop(state);
                if let Some(violation) = wrong {
                    self.violation(violation);
                }
            }
            _ => {}
        }
    }

    /// What is wrong with a refusal, if this write is one that should not have been.
    fn refused(&self, state: &mut State, write: &Observed<'_>) -> Option<Violation> {
        let (before, after) = (write.before?, write.after?);
        if text(before, "/status/phase") == "Failed" || !is_refusal(text(after, "/status/reason")) {
            return None;
        }
        state.judged("refusals", 1);
        let pod = state.truth.pods.get(text(after, "/metadata/uid"))?;
        let (reason, message) = (text(after, "/status/reason"), text(after, "/status/message"));
        let refused = RefusedPod {
            truth: &state.truth,
            node: self.nodes.get(&pod.node)?,
            pod,
            message,
            held: self.held(&state.truth, &pod.node, &pod.uid),
            books: self.books(&pod.node),
        };
        if let Some(cause) = self.suite.judge_refusal(&refused) {
            let text = format!("{} on {} failed admission with {reason}: {message}", pod.name(), pod.node);
            return Some(Violation { invariant: "admission", cause, text, pods: vec![pod.name()] });
        }
        if let Some(excuse) = self.suite.excuse(&refused) {
            state.judged(excuse, 1);
        }
        None
    }

    /// What is wrong with how a pod was bound, if this write has bound one.
    fn bound(&self, state: &mut State, write: &Observed<'_>) -> Option<Violation> {
        let (before, after) = (write.before?, write.after?);
        let node = text(after, "/spec/nodeName");
        if node.is_empty() || !text(before, "/spec/nodeName").is_empty() {
            return None;
        }
        state.judged("bindings", 1);
        let pod = state.truth.pods.get(text(after, "/metadata/uid"))?;
        let (plan, books) = (self.nodes.get(node)?, self.books(node));
        let (cause, why) = self.suite.judge_binding(&state.truth, plan, pod, &books)?;
        let text = format!("{} was bound to {node}: {why}", pod.name());
        Some(Violation { invariant: "placement", cause, text, pods: vec![pod.name()] })
    }

    /// Adds what became of a pod to the trace.
    fn tell(&self, write: &Observed<'_>) {
        let of = |object: Option<&Arc<Value>>, pointer| {
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
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
