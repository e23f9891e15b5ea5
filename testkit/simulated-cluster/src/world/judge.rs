//! What must hold of a cluster at rest.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;

use super::World;
use crate::api::Whose;
use crate::observer::{PodTruth, Truth, Violation, why_it_waits, without_numbers};
use crate::plan::{ApiRates, NodePlan, Place};
use crate::suite::{NodeTruth, Size, WaitingPod};

/// How long a pod of a cluster at rest may stay on its way: kube-scheduler tries again after five minutes at the latest.
const ON_ITS_WAY: Duration = Duration::from_secs(600);
/// How long nothing has changed on a node that a waiting pod is held against, and in a cluster whose texts are judged. kube-scheduler tries
/// again after each change, but may ask an extender before the extender's watch has shown it, and compares the new text with a pod that may
/// be older than its last one. Either stays until it tries again five minutes later.
const TRIED_AGAIN: Duration = Duration::from_secs(330);
/// Time between two looks at waiting pods.
const LOOK: Duration = Duration::from_secs(60);
/// The end of a rest, in which the programs must be quiet.
pub(super) const QUIET: Duration = Duration::from_secs(300);

impl World {
    /// Nothing goes wrong for so long; then the cluster is judged.
    pub(super) async fn rest(self: &Arc<Self>, time: Duration) {
        self.undo_faults();
        self.watcher.nodes_change();
        for whose in [Whose::Suite, Whose::Cluster] {
            self.conditions.set_rates(whose, ApiRates::default());
        }
        sleep(time.saturating_sub(QUIET * 2)).await;
        self.look_at_waiting_pods(QUIET.min(time.saturating_sub(QUIET))).await;
        let quiet = self.quiet_begins();
        let seen = self.watcher.state().violations.count();
        self.look_at_waiting_pods(QUIET.min(time)).await;
        // What goes wrong again and again makes all parts busy, and is told by itself.
        if time >= QUIET && self.watcher.state().violations.count() == seen {
            self.judge_quiet(&quiet);
        }
        self.judge();
        self.conditions.set_rates(Whose::Suite, self.settings.api);
        self.conditions.set_rates(Whose::Cluster, self.settings.cluster_api);
    }

    /// Lets so much time pass, and judges what waiting pods are told every minute but at its end: a pod of another that ends makes a
    /// minute one of change, in which it may not be true yet.
    async fn look_at_waiting_pods(&self, time: Duration) {
        let mut left = time;
        while !left.is_zero() {
            let step = LOOK.min(left);
            sleep(step).await;
            left -= step;
            if !left.is_zero() {
                let (truth, nodes) = self.seen();
                let is_up = |name: &str| nodes.get(name).is_some_and(|node| is_ready(node));
                if self.wrong_nodes(&truth, &nodes).is_empty() {
                    let found = self.judge_waiting(&truth, is_up, is_up);
                    found.into_iter().for_each(|violation| self.watcher.violation(violation));
                }
            }
        }
    }

    fn seen(&self) -> (Truth, BTreeMap<String, Arc<Value>>) {
        let state = self.watcher.state();
        (state.truth.clone(), state.mirror.nodes.clone())
    }

    /// Ready nodes that do not say of themselves what is so.
    fn wrong_nodes(&self, truth: &Truth, nodes: &BTreeMap<String, Arc<Value>>) -> BTreeMap<&str, Violation> {
        let wrong = self.nodes.iter().filter_map(|node| {
            let object = nodes.get(&node.name).filter(|object| is_ready(object))?;
            Some((node.name.as_str(), self.judge_node(truth, node, object)?))
        });
        wrong.collect()
    }

    /// Says what must not be of pods that wait: what they are told, and that they wait where they could run. `is_known` are nodes
    /// that are right about themselves.
    fn judge_waiting(
        &self,
        truth: &Truth,
        is_up: impl Fn(&str) -> bool,
        is_known: impl Fn(&str) -> bool,
    ) -> Vec<Violation> {
        let mut found = self.judge_texts(truth, is_up);
        let waiting = truth.pods.values().filter(|pod| {
            let waited = truth.now.saturating_sub(pod.since);
            pod.node.is_empty() && !pod.is_deleting() && !pod.has_ended() && waited >= ON_ITS_WAY
        });
        found.extend(waiting.filter_map(|pod| self.waits_in_vain(truth, pod, &is_known)));
        found
    }

    /// Says what must not be of a cluster that has been at rest.
    fn judge(&self) {
        let (truth, nodes) = self.seen();
        let is_up = |name: &str| nodes.get(name).is_some_and(|node| is_ready(node));
        let ready = self.nodes.iter().filter(|node| is_up(&node.name)).count();
        self.watcher.state().judged("nodes at rest", ready);
        self.watcher.state().judged("nodes at rest that were not ready", self.nodes.len() - ready);
        let wrong = self.wrong_nodes(&truth, &nodes);
        // A wrong report is one violation: texts and waiting pods that follow from it are not judged too.
        let is_known = |name: &str| is_up(name) && !wrong.contains_key(name);
        let mut found =
            if wrong.is_empty() { self.judge_waiting(&truth, is_up, is_known) } else { Vec::new() };
        for pod in truth.pods.values().filter(|pod| !pod.has_ended()) {
            let waited = truth.now.saturating_sub(pod.since);
            if let Some(plan) = self.plan_of(&pod.node)
                && waited >= ON_ITS_WAY
                && is_up(&pod.node)
            {
                found.extend(self.judge_bound(&truth, plan, pod));
            }
        }
        found.extend(self.judge_sizes(&truth));
        found.extend(
            self.nodes.iter().enumerate().flat_map(|(place, node)| self.judge_books(&truth, place, node)),
        );
        found.extend(wrong.into_values());
        found.into_iter().for_each(|violation| self.watcher.violation(violation));
    }

    /// A pod that is not bound although a node could run it.
    fn waits_in_vain(
        &self,
        truth: &Truth,
        pod: &PodTruth,
        is_up: impl Fn(&str) -> bool,
    ) -> Option<Violation> {
        let (mut judged, mut given_up, mut found) = (0, 0, None);
        let is_sure = |node: &&super::Node| {
            is_up(&node.name) && truth.unchanged_on(&node.name) >= TRIED_AGAIN && self.is_sure_of(truth, node)
        };
        for node in self.nodes.iter().filter(is_sure) {
            match self.could_run(truth, node, pod) {
                Some(false) => judged += 1,
                Some(true) => {
                    judged += 1;
                    found = Some(node);
                    break;
                }
                None => given_up += 1,
            }
        }
        let count = |what, count| {
            if count > 0 {
                self.watcher.state().judged(what, count);
            }
        };
        count("waiting pods", usize::from(judged > 0));
        count("waiting pods for which no node could be judged", usize::from(judged == 0));
        count("searches for a node of a waiting pod that were given up", given_up);
        let node = found?;
        let told = why_it_waits(&pod.object);
        Some(Violation {
            invariant: "liveness",
            cause: format!("a pod waits that could run: {}", without_numbers(told)),
            text: format!("{} waits although {} could run it: {told}", pod.name(), node.name),
            pods: vec![pod.name()],
        })
    }

    /// Whether it is known what is free of a node.
    fn is_sure_of(&self, truth: &Truth, node: &super::Node) -> bool {
        truth.is_settled(&node.name) && truth.live_on(&node.name).all(|pod| self.names_all_of(pod))
    }

    /// Whether a node could run a pod beside those that it has. None where the suite is not sure.
    fn could_run(&self, truth: &Truth, node: &super::Node, pod: &PodTruth) -> Option<bool> {
        let NodeTruth { mut held, broken, .. } = self.truth_of(truth, node);
        let live: Vec<&Value> = truth.live_on(&node.name).map(|pod| &*pod.object).collect();
        if !self.suite.counts_allow(&node.plan, &live, &pod.object, &broken) {
            return Some(false);
        }
        held.extend(&broken);
        self.suite.can_run(&node.plan, &pod.object, &held)
    }

    /// Whether what waiting pods are told is true.
    fn judge_texts(&self, truth: &Truth, is_up: impl Fn(&str) -> bool) -> Vec<Violation> {
        let up: Vec<_> = self.nodes.iter().filter(|node| is_up(&node.name)).collect();
        let has_changed = truth.now.saturating_sub(truth.changed) < TRIED_AGAIN;
        let waiting: Vec<_> =
            truth.pods.values().filter(|pod| pod.node.is_empty() && !pod.is_deleting()).collect();
        if has_changed || !up.iter().all(|node| truth.is_settled(&node.name)) {
            self.watcher.state().judged("texts of a cluster that had changed lately", waiting.len());
            return Vec::new();
        }
        // What only a record says, of a container that kubelet has forgotten, counts as held all the same: how much is free is not judged.
        let forgets = |node: &super::Node| truth.live_on(&node.name).any(|pod| !self.names_all_of(pod));
        let has_forgotten = up.iter().any(|node| forgets(node));
        if has_forgotten {
            self.watcher.state().judged("texts of kubelets that have forgotten a container", waiting.len());
        }
        self.watcher.state().judged("texts", waiting.len());
        let nodes: Vec<NodeTruth<'_>> = up.iter().map(|node| self.truth_of(truth, node)).collect();
        let found = waiting.into_iter().filter_map(|pod| {
            let told = why_it_waits(&pod.object);
            let waiting = WaitingPod { truth, nodes: &nodes, pod: &pod.object, message: told };
            let cause = if has_forgotten {
                self.suite.judge_told(&waiting)?
            } else {
                self.suite.judge_text(&waiting)?
            };
            let is_so = nodes
                .iter()
                .map(|node| format!("{}: held {:?}, broken {:?}", node.name, node.held, node.broken));
            let is_so = is_so.collect::<Vec<_>>().join("; ");
            let text = format!("{} is told: {told} ({is_so})", pod.name());
            Some(Violation { invariant: "texts", cause, text, pods: vec![pod.name()] })
        });
        found.collect()
    }

    fn truth_of<'a>(&self, truth: &Truth, node: &'a super::Node) -> NodeTruth<'a> {
        NodeTruth {
            name: &node.name,
            node: &node.plan,
            held: self.watcher.held(truth, &node.name, ""),
            broken: truth.broken.get(&node.name).cloned().unwrap_or_default(),
        }
    }

    fn judge_bound(&self, truth: &Truth, node: &NodePlan, pod: &PodTruth) -> Option<Violation> {
        self.watcher.state().judged("bound pods at rest", 1);
        let violation = |invariant, cause: &str, text: String| {
            Some(Violation { invariant, cause: cause.to_owned(), text, pods: vec![pod.name()] })
        };
        if pod.is_deleting() {
            let text = format!("{} on {} is being deleted and does not go", pod.name(), pod.node);
            return violation("liveness", "a pod does not go", text);
        }
        if pod.phase != "Running" {
            let (books, held) =
                (self.watcher.books(&pod.node), self.watcher.held(truth, &pod.node, &pod.uid));
            if self.suite.cannot_start(node, pod, &books, &held) {
                self.watcher
                    .state()
                    .judged("bound pods for which a kubelet without its books has nothing", 1);
                return None;
            }
            let text = format!("{} on {} does not start", pod.name(), pod.node);
            return violation("liveness", "a bound pod does not start", text);
        }
        if self.is_unknowable(truth, pod) {
            self.watcher.state().judged("pods of which kubelet's file names not all", 1);
            return None;
        }
        let (cause, text) = self.suite.judge_pod(truth, node, pod)?;
        violation("agreement", &cause, format!("{} on {}: {text}", pod.name(), pod.node))
    }

    /// Whether kubelet names every container of the pod that asks for something, in its books and in the file that plugins read.
    fn names_all_of(&self, pod: &PodTruth) -> bool {
        self.watcher.names_all_of(pod) && !self.is_checkpoint_older(&pod.node)
    }

    /// Whether nobody can tell what a pod has whose record may say something else, as kubelet was free to choose and somebody to edit: who
    /// puts a record right goes by what kubelet's books and the file name.
    fn is_unknowable(&self, truth: &Truth, pod: &PodTruth) -> bool {
        let place = self.nodes.iter().position(|node| node.name == pod.node);
        let older = place.filter(|_| self.is_checkpoint_older(&pod.node));
        let on_disk = older.map(|place| self.books_on_disk(place, &self.nodes[place]).unwrap_or_default());
        match on_disk {
            Some(books) => !pod.asking().all(|name| books.contains_key(&(pod.uid.clone(), name.to_owned()))),
            None => truth.edited_pods.contains(&pod.uid) && !self.watcher.names_all_of(pod),
        }
    }

    /// Whether a Node says of itself what is so.
    fn judge_node(&self, truth: &Truth, node: &super::Node, object: &serde_json::Value) -> Option<Violation> {
        let is_settled = |pod: &&PodTruth| {
            let waited = truth.now.saturating_sub(pod.since);
            let is_known = !self.is_unknowable(truth, pod);
            pod.phase == "Running" && !pod.is_deleting() && waited >= ON_ITS_WAY && is_known
        };
        let settled: Vec<&PodTruth> = truth.live_on(&node.name).filter(is_settled).collect();
        let (cause, text) = self.suite.judge_node(truth, &self.truth_of(truth, node), object, &settled)?;
        let text = format!("{}: {text}", node.name);
        // A known violation is healed by deleting these pods: then the report has nothing left to be wrong about.
        let pods = truth.live_on(&node.name).map(PodTruth::name).collect();
        Some(Violation { invariant: "agreement", cause, text, pods })
    }

    /// Whether kubelet's checkpoint says of every running container what it has.
    fn judge_books(&self, truth: &Truth, place: usize, node: &super::Node) -> Vec<Violation> {
        let mut found = Vec::new();
        if self.is_checkpoint_older(&node.name) {
            self.watcher.state().judged("checkpoints that are older until kubelet writes again", 1);
            return found;
        }
        // kubelet writes the file only when it gives something.
        let books = self.books_on_disk(place, node).unwrap_or_else(|| self.watcher.books(&node.name));
        for ((_, uid, name), container) in truth.containers_on(&node.name) {
            let Some(pod) = truth.pods.get(uid).filter(|pod| !pod.is_deleting()) else { continue };
            let settled = truth.now.saturating_sub(container.since) >= ON_ITS_WAY;
            if truth.garbled.get(&node.name).is_some_and(|garbled| container.since <= *garbled) {
                continue;
            }
            let given = books.get(&(uid.clone(), name.clone())).cloned().unwrap_or_default();
            if settled && given != container.units {
                found.push(Violation {
                    invariant: "agreement",
                    cause: "kubelet's checkpoint is not what a container has".to_owned(),
                    text: format!(
                        "container {name} of {} has {:?}, by the file {given:?}",
                        pod.name(),
                        container.units
                    ),
                    pods: vec![pod.name()],
                });
            }
        }
        found
    }

    fn judge_sizes(&self, truth: &Truth) -> Vec<Violation> {
        let places = (0..self.nodes.len()).map(Place::Node).chain([Place::Control, Place::SecondControl]);
        let sizes: Vec<Size> = places.flat_map(|place| self.suite.sizes(place, truth)).collect();
        self.watcher.state().judged("sizes", sizes.len());
        let unheard = truth.unheard_ends().count();
        let too_large = sizes.into_iter().filter(|size| size.is > size.at_most + unheard);
        let violation = |size: Size| Violation {
            invariant: "bounded",
            cause: size.what.clone(),
            text: format!("{} are {}, at most {} may be", size.what, size.is, size.at_most),
            pods: Vec::new(),
        };
        too_large.map(violation).collect()
    }
}

/// Whether pods can be placed on the node, and its kubelet carries them out.
fn is_ready(node: &serde_json::Value) -> bool {
    let taints = node.pointer("/spec/taints").and_then(serde_json::Value::as_array);
    taints.is_none_or(Vec::is_empty) && node.pointer("/metadata/deletionTimestamp").is_none()
}
