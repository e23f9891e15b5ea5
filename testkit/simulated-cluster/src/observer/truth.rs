//! What is really so: which containers run on what hardware, and what became of every pod.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fake_cluster::api::text;
use fake_cluster::kubelet::ContainerStart;
use serde_json::Value;

use super::mirror::Key;
use crate::units::Units;

/// By this name [`Truth::disturbed`] has what kubelet makes of plugins' preferences.
pub(crate) const PREFERENCES: &str = "preferences";
/// By this name [`Truth::disturbed`] has nodes whose kubelets cannot write their checkpoint.
pub const CHECKPOINT_WRITES: &str = "checkpoint";
/// By this name [`Truth::disturbed`] has nodes on which nobody can read kubelet's checkpoint.
pub const CHECKPOINT_READS: &str = "checkpoint reads";
/// By this name [`Truth::disturbed`] has nodes of whose checkpoint a write was undone.
pub const UNDONE_WRITES: &str = "undone checkpoint writes";
/// How long a program's watch may take to show that a pod has ended or gone, in a cluster at rest whose links lose and delay.
const TOLD: Duration = Duration::from_secs(10);
/// No watch lags longer.
pub const UNSEEN: Duration = Duration::from_secs(600);

/// Everything that is known.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// Pods that exist, by UID.
    pub pods: BTreeMap<String, PodTruth>,
    /// Pods that were bound and whose objects went within [`UNSEEN`], and when.
    pub gone: Vec<(PodTruth, Duration)>,
    /// Containers that run, by node, pod UID and name. A pod's object may be gone while they run.
    pub containers: BTreeMap<(String, String, String), ContainerTruth>,
    /// Containers that ended within [`UNSEEN`], and when; as `containers`.
    pub ended: BTreeMap<(String, String, String), (ContainerTruth, Duration)>,
    /// Whether kubelets tell their own pods, as from Kubernetes 1.37 on.
    pub kubelets_tell_pods: bool,
    /// Units that are broken, by node.
    pub broken: BTreeMap<String, Units>,
    /// Until when two processes of a program run side by side, by the program's name.
    pub doubled: BTreeMap<String, Duration>,
    /// Programs of the control plane of which one runs on each of its hosts.
    pub replicated: BTreeSet<String>,
    /// Pods whose Binding arrives just now, after its sender has given up, by `namespace/name`.
    pub late_bindings: BTreeSet<String>,
    /// When something was done to a part last, by its name, such as `plugin/n1`: it started, ended, was frozen or went on.
    /// While it is frozen that is the end of all time.
    pub disturbed: BTreeMap<String, Duration>,
    /// Until when a node's labels or annotations are edited by hand, by the node's name.
    pub edited: BTreeMap<String, Duration>,
    /// Pods of which somebody has edited by hand what the suite had written, by UID.
    pub edited_pods: BTreeSet<String>,
    /// When a node's checkpoint was garbled last, or a kubelet that started could not read it: such a kubelet has forgotten the
    /// containers from before, and lets them run.
    pub garbled: BTreeMap<String, Duration>,
    /// Until when requests to the API server go wrong more often than they always do, or watches lag.
    pub api_disturbed: Duration,
    /// Simulated time since the beginning.
    pub now: Duration,
    /// When a pod or a container, or what is broken, has changed last.
    pub changed: Duration,
    /// When that was on a node, or what its Node says, by the node's name.
    pub changed_on: BTreeMap<String, Duration>,
}

/// A pod.
#[derive(Clone, Debug)]
pub struct PodTruth {
    /// Namespace and name.
    pub key: Key,
    /// Its UID.
    pub uid: String,
    /// The object as it is now.
    pub object: Arc<Value>,
    /// The object as it was bound; none if it is not.
    pub as_bound: Option<Arc<Value>>,
    /// Whether its node was edited by hand, or had been lately, when it was bound.
    pub bound_on_edited: bool,
    /// Whether its Binding arrived after its sender had given up.
    pub bound_late: bool,
    /// The node that it is bound to; empty if it is not.
    pub node: String,
    /// Its phase.
    pub phase: String,
    /// Since when its phase and its node have been as they are.
    pub since: Duration,
}

/// A container that runs.
#[derive(Clone, Debug)]
pub struct ContainerTruth {
    /// What it was started with.
    pub start: Arc<ContainerStart>,
    /// The hardware that it has.
    pub units: Units,
    /// Since when it has run.
    pub since: Duration,
}

impl Truth {
    /// The units that running containers of a node have, but those of one pod.
    pub fn held(&self, node: &str, but_for: &str) -> Units {
        let others = self.containers_on(node).filter(|((_, uid, _), _)| uid != but_for);
        others.flat_map(|(_, container)| container.units.iter().copied()).collect()
    }

    /// The containers that run on a node.
    pub fn containers_on<'a>(
        &'a self,
        node: &'a str,
    ) -> impl Iterator<Item = (&'a (String, String, String), &'a ContainerTruth)> {
        let first = (node.to_owned(), String::new(), String::new());
        self.containers.range(first..).take_while(move |((on, _, _), _)| on == node)
    }

    /// The containers of a pod that run now, by name.
    pub fn containers_of<'a>(
        &'a self,
        pod: &'a PodTruth,
    ) -> impl Iterator<Item = (&'a str, &'a ContainerTruth)> {
        let of_pod = self.containers_on(&pod.node).filter(move |((_, uid, _), _)| *uid == pod.uid);
        of_pod.map(|((_, _, name), container)| (name.as_str(), container))
    }

    /// Whether every running container of a pod was given as many of each resource as it asks for. One is not that kubelet
    /// starts again on a node that has lost its books, before any device plugin has registered there.
    pub fn has_what_it_asks_for(&self, pod: &PodTruth) -> bool {
        let given = |name: &str, resource: &str| {
            let container = self.containers_of(pod).find(|(container, _)| *container == name);
            container
                .map(|(_, container)| container.start.ids.get(resource).map_or(0, |ids| ids.len() as u64))
        };
        let has = |container: &Value| {
            let limits =
                container.pointer("/resources/limits").and_then(Value::as_object).into_iter().flatten();
            limits.filter(|(resource, _)| resource.contains('/')).all(|(resource, count)| {
                let asked = count.as_str().and_then(|count| count.parse().ok());
                given(text(container, "/name"), resource).is_none_or(|given| Some(given) == asked)
            })
        };
        pod.containers().all(has)
    }

    /// Whether it is known what pods hold on a node. What is about to start there has its hardware, and nobody knows which; what
    /// runs without the hardware that it asks for is counted by the scheduler all the same.
    pub fn is_settled(&self, node: &str) -> bool {
        self.live_on(node)
            .all(|pod| pod.phase == "Running" && !pod.is_deleting() && self.has_what_it_asks_for(pod))
    }

    /// Whether something was done to a node's part within so long.
    pub fn is_disturbed(&self, part: &str, node: &str, within: Duration) -> bool {
        let at = self.disturbed.get(&format!("{part}/{node}"));
        at.is_some_and(|at| self.now.saturating_sub(*at) <= within)
    }

    /// Whether a node's kubelet gives other ids than plugins prefer, or did within so long.
    pub fn are_preferences_ignored(&self, node: &str, within: Duration) -> bool {
        self.is_disturbed(PREFERENCES, node, within)
    }

    /// Whether a node is edited by hand, or was so lately that who watches it may still believe it.
    pub(crate) fn is_edited(&self, node: &str) -> bool {
        self.edited.get(node).is_some_and(|until| self.now < *until + UNSEEN)
    }

    /// The pods that are bound to a node and have not ended.
    pub fn live_on<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a PodTruth> {
        self.pods.values().filter(move |pod| pod.node == node && !pod.has_ended())
    }

    /// The pods that have ended or gone so lately that a program may not have heard of it yet.
    pub fn unheard_ends(&self) -> impl Iterator<Item = &PodTruth> {
        let ended = self.pods.values().filter(|pod| pod.has_ended()).map(|pod| (pod, pod.since));
        let gone = self.gone.iter().map(|(pod, at)| (pod, *at));
        ended.chain(gone).filter(|(_, at)| self.now < *at + TOLD).map(|(pod, _)| pod)
    }

    /// The containers of a node that run, or ended within [`UNSEEN`].
    pub fn lately_on<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a ContainerTruth> {
        let ended = self.ended.iter().filter(move |((on, _, _), _)| on == node);
        let ended = ended.map(|(_, (container, _))| container);
        self.containers_on(node).map(|(_, container)| container).chain(ended)
    }

    /// A pod, a container or a device has changed, on a node if it is named.
    pub(crate) fn changes_on(&mut self, node: &str) {
        self.changed = self.now;
        if !node.is_empty() {
            self.changed_on.insert(node.to_owned(), self.now);
        }
    }

    /// Since when nothing has changed on a node.
    pub fn unchanged_on(&self, node: &str) -> Duration {
        self.now.saturating_sub(self.changed_on.get(node).copied().unwrap_or_default())
    }

    /// A container has ended.
    pub(crate) fn container_ends(&mut self, key: (String, String, String)) {
        let now = self.now;
        self.ended.retain(|_, (_, at)| now < *at + UNSEEN);
        // A pod that lives keeps its hardware, whether the container starts again or not.
        let keeps = |pod: &PodTruth| !pod.has_ended() && !pod.is_deleting();
        if !self.pods.get(&key.1).is_some_and(keeps) {
            self.changes_on(&key.0);
        }
        if let Some(container) = self.containers.remove(&key) {
            self.ended.insert(key, (container, now));
        }
    }

    /// Takes over a write of a pod.
    pub(crate) fn pod_changes(&mut self, before: Option<&Arc<Value>>, after: Option<&Arc<Value>>) {
        let uid = |pod: &Value| text(pod, "/metadata/uid").to_owned();
        if let Some(before) = before
            && after.is_none_or(|after| uid(after) != uid(before))
        {
            let now = self.now;
            self.gone.retain(|(_, at)| now < *at + UNSEEN);
            let gone = self.pods.remove(&uid(before)).filter(|gone| !gone.node.is_empty());
            self.edited_pods.remove(&uid(before));
            if let Some(gone) = gone {
                // Of one that had ended nothing was held any more.
                if !gone.has_ended() {
                    self.changes_on(&gone.node);
                }
                self.gone.push((gone, now));
            }
        }
        let Some(object) = after else { return };
        let (node, phase) = (text(object, "/spec/nodeName"), text(object, "/status/phase"));
        let known = self.pods.get(&uid(object));
        let as_bound = known.and_then(|known| known.as_bound.clone());
        let (bound_on_edited, bound_late) = match known.filter(|known| !known.node.is_empty()) {
            Some(known) => (known.bound_on_edited, known.bound_late),
            None => (self.is_edited(node), self.late_bindings.contains(&name(object))),
        };
        let as_bound = as_bound.or_else(|| (!node.is_empty()).then(|| Arc::clone(object)));
        let same = known.filter(|known| known.node == node && known.phase == phase);
        let (is_same, since) = (same.is_some(), same.map_or(self.now, |known| known.since));
        // What is recorded is what the extender believes.
        let annotations = "/metadata/annotations";
        let is_same_record =
            before.is_some_and(|before| before.pointer(annotations) == object.pointer(annotations));
        if !is_same {
            self.changes_on(node);
        } else if !is_same_record && !node.is_empty() {
            self.changed_on.insert(node.to_owned(), self.now);
        }
        let pod = PodTruth {
            key: (text(object, "/metadata/namespace").to_owned(), text(object, "/metadata/name").to_owned()),
            uid: uid(object),
            object: Arc::clone(object),
            as_bound,
            bound_on_edited,
            bound_late,
            node: node.to_owned(),
            phase: phase.to_owned(),
            since,
        };
        self.pods.insert(pod.uid.clone(), pod);
    }
}

/// The pod as `namespace/name`.
fn name(pod: &Value) -> String {
    format!("{}/{}", text(pod, "/metadata/namespace"), text(pod, "/metadata/name"))
}

/// What a waiting pod's condition says; nothing of one that was not tried yet.
pub(crate) fn why_it_waits(pod: &Value) -> &str {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    let scheduled = conditions.into_iter().flatten().find(|one| text(one, "/type") == "PodScheduled");
    scheduled.map(|one| text(one, "/message")).unwrap_or_default()
}

impl PodTruth {
    /// Whether its phase is a last one.
    pub fn has_ended(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Whether it is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.object.pointer("/metadata/deletionTimestamp").is_some()
    }

    /// The text at a pointer into the object, empty if there is none.
    pub fn text(&self, pointer: &str) -> &str {
        text(&self.object, pointer)
    }

    /// The names of its containers that ask for an extended resource.
    pub fn asking(&self) -> impl Iterator<Item = &str> {
        let asks = |container: &&Value| {
            let limits = container.pointer("/resources/limits").and_then(Value::as_object);
            limits.is_some_and(|limits| limits.keys().any(|resource| resource.contains('/')))
        };
        self.containers().filter(asks).map(|container| text(container, "/name"))
    }

    fn containers(&self) -> impl Iterator<Item = &Value> {
        let of = |pointer| self.object.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
        ["/spec/initContainers", "/spec/containers"].into_iter().flat_map(of)
    }

    /// The pod as `namespace/name`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.key.0, self.key.1)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A pod whose container asks for two devices.
    fn pod() -> PodTruth {
        let limits = json!({"example.com/device": "2", "cpu": "1"});
        let object = json!({"spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]}});
        PodTruth {
            key: ("default".to_owned(), "p".to_owned()),
            uid: "u".to_owned(),
            object: Arc::new(object),
            as_bound: None,
            bound_on_edited: false,
            bound_late: false,
            node: "n1".to_owned(),
            phase: "Running".to_owned(),
            since: Duration::ZERO,
        }
    }

    /// The truth of a container that was started with these ids.
    fn given(ids: &Value) -> Truth {
        let start = json!({"pod_namespace": "default", "pod_name": "p", "pod_uid": "u", "container": "main",
            "args": [], "env": {}, "devices": [], "annotations": {}, "ids": ids});
        let start: Arc<ContainerStart> = Arc::new(serde_json::from_value(start).unwrap());
        let container = ContainerTruth { start, units: Units::new(), since: Duration::ZERO };
        let key = ("n1".to_owned(), "u".to_owned(), "main".to_owned());
        Truth { containers: [(key, container)].into(), ..Truth::default() }
    }

    #[test]
    fn of_an_end_a_program_may_not_have_heard_for_a_few_seconds() {
        let seconds = Duration::from_secs;
        let ended = PodTruth { phase: "Failed".to_owned(), since: seconds(100), ..pod() };
        let mut truth = Truth { gone: vec![(pod(), seconds(105))], ..Truth::default() };
        truth.pods.insert("ended".to_owned(), ended);
        truth.pods.insert("runs".to_owned(), PodTruth { since: seconds(105), ..pod() });
        for (now, unheard) in [(106, 2), (112, 1), (116, 0)] {
            truth.now = seconds(now);
            assert_eq!(truth.unheard_ends().count(), unheard, "{now}");
        }
    }

    #[test]
    fn a_part_is_disturbed_while_it_is_frozen_and_for_a_while_after_it() {
        let seconds = Duration::from_secs;
        let is_disturbed = |at, now| {
            let disturbed = BTreeMap::from([("plugin/n1".to_owned(), at)]);
            let truth = Truth { disturbed, now, ..Truth::default() };
            assert!(!truth.is_disturbed("plugin", "n2", seconds(60)), "it is another one's");
            truth.is_disturbed("plugin", "n1", seconds(60))
        };
        assert!(is_disturbed(seconds(100), seconds(160)));
        assert!(!is_disturbed(seconds(100), seconds(161)));
        assert!(is_disturbed(Duration::MAX, seconds(10_000)));
    }

    #[test]
    fn a_container_that_was_started_without_its_devices_has_not_what_it_asks_for() {
        assert!(given(&json!({"example.com/device": ["a", "b"]})).has_what_it_asks_for(&pod()));
        assert!(!given(&json!({"example.com/device": ["a"]})).has_what_it_asks_for(&pod()));
        assert!(!given(&json!({})).has_what_it_asks_for(&pod()));
        // A container that has ended holds nothing.
        assert!(Truth::default().has_what_it_asks_for(&pod()));
    }
}
