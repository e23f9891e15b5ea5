//! Whether a pod was refused at its admission for a reason that is so: ids that somebody holds, or what Kubernetes itself does
//! now and then, which is a list. Called by the suite in the moment of the refusal.

use std::time::Duration;

use neuron_core::names::NEURON;
use serde_json::Value;
use simulated_cluster::suite::{RefusedPod, Units};

use crate::judge::{can_run, counts, recorded_of, units_of_ids};
use crate::machine::Machine;
use crate::own_refusals::{OWN, units_named};

/// How long a program may go on by what was so before: the plugin looks at its devices every few seconds, kubelet writes its
/// node's status up to ten seconds later.
pub(crate) const LATELY: Duration = Duration::from_secs(60);

/// How long an Allocate may take after kubelet was advised: the plugin waits five seconds for a holder to end, and the observer hears
/// of the refusal when its pod's status is written.
const ANSWERED: Duration = Duration::from_secs(10);

/// What the plugin says of a process before it names the pod.
const GONE: &str = " of a pod that has ended or is gone (UID ";

/// Why a pod should not have been refused. `broken` are the cores of devices that are broken or were until [`LATELY`].
pub(crate) fn judge_refusal(machine: &Machine, refused: &RefusedPod<'_>, broken: &Units) -> Option<String> {
    if refused.message.contains(" cannot be given: ") {
        return judge_ids(machine, refused, broken);
    }
    let Some(own) = OWN.iter().find(|own| refused.message.contains(own.says)) else {
        return Some("a refusal in words that nobody expects".to_owned());
    };
    let is_so = own.when.iter().any(|when| when.is_so(machine, refused, broken));
    (!is_so).then(|| format!("no reason is known for {:?}", own.says.trim()))
}

/// What the plugin says of ids that are held, or no candidate set.
fn judge_ids(machine: &Machine, refused: &RefusedPod<'_>, broken: &Units) -> Option<String> {
    let RefusedPod { message, held, .. } = refused;
    let (before, why) = message.split_once(" cannot be given: ")?;
    let (ids, resource) = before.rsplit_once(" of ")?;
    let ids: Vec<String> = ids.rsplit(' ').next()?.split(',').map(str::to_owned).collect();
    let Ok(units) = units_of_ids(machine, resource, &ids) else {
        return Some("a refusal that names what is no id".to_owned());
    };
    if let Some((_, process)) = why.split_once(GONE) {
        return judge_process(machine, refused, &units, process);
    }
    if message.contains(" holds ") {
        let own = own_of_other(refused, resource);
        if units.is_disjoint(held) && units.is_disjoint(&own) {
            let cause = "ids that nobody holds are refused as held".to_owned();
            return (!is_admitted_again(refused)).then_some(cause);
        }
        return judge_holders(machine, refused, why);
    }
    let is_set = machine.is_candidate(&units, resource == NEURON);
    if is_set {
        return Some("a candidate set is refused as none".to_owned());
    }
    // kubelet fills up by itself where nothing is preferred, and that may be no candidate set.
    let mut taken: Units = held.union(broken).copied().collect();
    taken.extend(ended_since_advice(refused));
    // A plugin that reads from nobody which record is whose and which pods have ended advises a set all the same, of what is then left.
    if refused.truth.now < refused.truth.api_disturbed + LATELY {
        taken.extend(seen_lately(machine, refused));
    }
    can_run(machine, &refused.pod.object, &taken)
        .then(|| "kubelet was advised no set although one is free".to_owned())
}

/// Whether kubelet admits the refused pod for the second time: one that starts with an older list does not see a pod that runs, ends
/// its containers, and admits it again once it does. To the plugin that pod still has its ids, and Allocate does not say who asks: it
/// could be a static pod, which nobody else knows yet.
fn is_admitted_again(refused: &RefusedPod<'_>) -> bool {
    let RefusedPod { truth, pod, message, .. } = refused;
    message.contains(&format!("pod {} holds ", pod.name()))
        && truth.is_disturbed("kubelet", &pod.node, LATELY)
}

/// The cores of containers that have ended since kubelet may have been advised: they come too late for it.
fn ended_since_advice<'a>(refused: &RefusedPod<'a>) -> impl Iterator<Item = u32> + 'a {
    let (truth, node) = (refused.truth, &refused.pod.node);
    let ended =
        truth.ended.iter().filter(move |((on, _, _), (_, at))| on == node && truth.now < *at + ANSWERED);
    ended.flat_map(|(_, (container, _))| container.units.iter().copied())
}

/// The cores that other pods of the node have had lately or were bound to: those that are there, and those of which somebody may not
/// know yet that they are gone.
fn seen_lately(machine: &Machine, refused: &RefusedPod<'_>) -> Units {
    let RefusedPod { truth, pod, .. } = refused;
    let others = truth.pods.values().chain(truth.gone.iter().map(|(gone, _)| gone));
    let others = others.filter(|other| other.node == pod.node && other.uid != pod.uid);
    let records = others.flat_map(|other| [Some(&other.object), other.as_bound.as_ref()]).flatten();
    let mut units: Units = records.flat_map(|object| recorded_of(machine, object)).collect();
    units.extend(truth.lately_on(&pod.node).flat_map(|container| container.units.iter().copied()));
    units
}

/// Whether a container of the pod that a text names, which is gone, has the device that it names, with some of the refused ids. What
/// the plugin saw may have ended by the time at which the API server hears of it.
fn judge_process(
    machine: &Machine,
    refused: &RefusedPod<'_>,
    units: &Units,
    process: &str,
) -> Option<String> {
    let named = process.split_once(") has /dev/neuron").and_then(|(uid, rest)| {
        let device: u32 = rest.split_once(" open;")?.0.parse().ok()?;
        Some((uid, device))
    });
    let Some((uid, device)) = named else {
        return Some("a process is named in words that nobody expects".to_owned());
    };
    let own = machine.cores_of(device).intersection(units).copied().collect::<Units>();
    let mut containers = refused.truth.lately_on(&refused.pod.node);
    if !containers.any(|container| container.start.pod_uid == uid && !container.units.is_disjoint(&own)) {
        return Some("a process is named that does not have the device".to_owned());
    }
    let is_there = refused.truth.pods.get(uid).is_some_and(|pod| !pod.has_ended());
    is_there.then(|| "a process is named whose pod is there".to_owned())
}

/// What the refused pod itself was given, of containers that ask for the other resource: what was given under this one may be handed
/// down.
fn own_of_other(refused: &RefusedPod<'_>, resource: &str) -> Units {
    let object = &refused.pod.object;
    let containers = ["/spec/initContainers", "/spec/containers"]
        .into_iter()
        .flat_map(|pointer| object.pointer(pointer).and_then(Value::as_array).into_iter().flatten());
    let ask_other =
        containers.filter(|container| counts(container).iter().any(|(other, _)| other.name() != resource));
    let names = ask_other.filter_map(|container| container.get("name")?.as_str());
    let given = names.filter_map(|name| refused.books.get(&(refused.pod.uid.clone(), name.to_owned())));
    given.flatten().copied().collect()
}

/// Whether the pods that a text names as holders have any of what it says that they hold.
fn judge_holders(machine: &Machine, refused: &RefusedPod<'_>, why: &str) -> Option<String> {
    let holders = why.split("; ").next()?.split(", ").filter_map(|holder| {
        let (pod, ids) = holder.strip_prefix("pod ")?.split_once(" holds ")?;
        Some((pod, units_named(machine, ids)?))
    });
    let wrong = |(pod, ids): &(&str, Units)| units_of_pod(machine, refused, pod).is_disjoint(ids);
    holders
        .into_iter()
        .any(|holder| wrong(&holder))
        .then(|| "a pod is named that holds none of it".to_owned())
}

/// What pods of this name have on the refused pod's node: by containers, by kubelet's books, or by the record of one that has not
/// started.
fn units_of_pod(machine: &Machine, refused: &RefusedPod<'_>, name: &str) -> Units {
    let RefusedPod { truth, pod, .. } = refused;
    let node = &pod.node;
    let containers = truth.containers_on(node).filter(|(_, container)| {
        format!("{}/{}", container.start.pod_namespace, container.start.pod_name) == name
    });
    let mut units: Units = containers.flat_map(|(_, container)| container.units.clone()).collect();
    // The refused pod itself has ended by now, and may have what an earlier container of it was given.
    for pod in truth.live_on(node).chain([*pod]).filter(|pod| pod.name() == name) {
        let books = refused.books.iter().filter(|((uid, _), _)| *uid == pod.uid);
        units.extend(books.flat_map(|(_, units)| units));
        units.extend(recorded_of(machine, &pod.object));
    }
    units
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use neuron_core::names::NEURONCORE;
    use serde_json::json;
    use simulated_cluster::observer::{ContainerTruth, PodTruth, Truth};
    use simulated_cluster::plan::NodePlan;

    use super::*;

    const NOW: Duration = Duration::from_secs(10_000);

    fn pod(name: &str, uid: &str, phase: &str) -> PodTruth {
        let limits = json!({NEURON: "2"});
        let object = json!({"spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]}});
        PodTruth {
            key: ("default".to_owned(), name.to_owned()),
            uid: uid.to_owned(),
            object: Arc::new(object),
            as_bound: None,
            bound_on_edited: false,
            node: "n1".to_owned(),
            phase: phase.to_owned(),
            since: Duration::ZERO,
        }
    }

    /// Why a pod should not have been refused on an inf2.48xlarge (12 devices, 24 cores), of which the pod `other` has devices 0
    /// to 8 and device 9 is broken. `disturbed` is the part to which something was done ten seconds ago.
    fn wrong(disturbed: &str, message: &str) -> Option<String> {
        wrong_with(&[9], Duration::ZERO, disturbed, message)
    }

    /// As [`wrong`], with these devices broken, and requests to the API server that went wrong until then.
    fn wrong_with(broken: &[u32], api_disturbed: Duration, disturbed: &str, message: &str) -> Option<String> {
        let node = NodePlan { machine: "inf2.48xlarge".to_owned() };
        let machine = Machine::of(&node).unwrap();
        let (pod, other) = (pod("p", "u", "Pending"), pod("other", "o", "Running"));
        let truth = Truth {
            pods: [(other.uid.clone(), other)].into(),
            disturbed: [(disturbed.to_owned(), NOW - Duration::from_secs(10))].into(),
            now: NOW,
            api_disturbed,
            ..Truth::default()
        };
        let held: Units = (0..18).collect();
        let books = BTreeMap::from([(("o".to_owned(), "main".to_owned()), held.clone())]);
        let refused = RefusedPod { truth: &truth, node: &node, pod: &pod, message, held, books };
        let broken: Units = broken.iter().flat_map(|device| machine.cores_of(*device)).collect();
        judge_refusal(&machine, &refused, &broken)
    }

    #[test]
    fn what_kubernetes_does_itself_is_right_where_its_reason_is_there() {
        let plugin = "Allocate failed due to rpc error: code = Unknown desc = ";
        for (disturbed, text, is_right) in [
            (
                "none",
                "requested number of devices unavailable for aws.amazon.com/neuron. Requested: 3, Available: 2",
                true,
            ),
            (
                "none",
                "requested number of devices unavailable for aws.amazon.com/neuron. Requested: 2, Available: 1",
                false,
            ),
            (
                "plugin/n1",
                "requested number of devices unavailable for aws.amazon.com/neuron. Requested: 2, Available: 1",
                true,
            ),
            (
                "plugin/n2",
                "requested number of devices unavailable for aws.amazon.com/neuron. Requested: 2, Available: 1",
                false,
            ),
            (
                "none",
                "Node didn't have enough resource: aws.amazon.com/neuroncore, requested: 5, used: 18, capacity: 22",
                true,
            ),
            (
                "none",
                "Node didn't have enough resource: aws.amazon.com/neuroncore, requested: 4, used: 19, capacity: 22",
                false,
            ),
            (
                "none",
                "no healthy devices present; cannot allocate unhealthy devices aws.amazon.com/neuron",
                false,
            ),
            (
                "kubelet/n1",
                "no healthy devices present; cannot allocate unhealthy devices aws.amazon.com/neuron",
                true,
            ),
            ("kubelet/n1", "endpoint aws.amazon.com/neuron has been stopped", false),
            ("plugin/n1", "endpoint aws.amazon.com/neuron has been stopped", true),
            (
                "none",
                "neuron9 is unhealthy: /dev/neuron9 is missing; it can be used again once that is over",
                true,
            ),
            ("none", "neuron9,neuron10 is unhealthy: gone; it can be used again once that is over", false),
            (
                "none",
                "\"neuron77\" is not an id of aws.amazon.com/neuron on this node; it advertises neuron0 to neuron11",
                false,
            ),
            ("plugin/n1", "something that nobody has said before", false),
        ] {
            assert_eq!(
                wrong(disturbed, &format!("{plugin}{text}, which is unexpected")).is_none(),
                is_right,
                "{text}"
            );
        }
    }

    #[test]
    fn ids_are_refused_that_somebody_has_and_who_has_them_is_named() {
        let held = "they are free again when that pod has ended";
        for (text, is_right) in [
            (format!("neuron1 of aws.amazon.com/neuron cannot be given: pod default/other holds neuron1; {held}"), true),
            (format!("neuron1 of aws.amazon.com/neuron cannot be given: pod default/nobody holds neuron1; {held}"), false),
            (format!("neuron10 of aws.amazon.com/neuron cannot be given: pod default/other holds neuron10; {held}"), false),
            (format!("neuron10 of aws.amazon.com/neuron cannot be given: pod default/p holds neuron10; {held}"), false),
            ("neuron9,neuron11 of aws.amazon.com/neuron cannot be given: they are not one of the linked sets".to_owned(), false),
        ] {
            assert_eq!(wrong("none", &text).is_none(), is_right, "{text}");
        }
        let own = "neuron10 of aws.amazon.com/neuron cannot be given: pod default/p holds neuron10; ..";
        assert_eq!(wrong("kubelet/n1", own), None, "kubelet admits it again");
    }

    #[test]
    fn a_process_is_named_of_a_gone_pod_that_has_the_device() {
        let node = NodePlan { machine: "inf2.48xlarge".to_owned() };
        let machine = Machine::of(&node).unwrap();
        let start = json!({"pod_namespace": "default", "pod_name": "old", "pod_uid": "gone", "container": "main",
            "args": [], "env": {}, "devices": [], "annotations": {}, "ids": {}});
        let start = Arc::new(serde_json::from_value(start).unwrap());
        let container = ContainerTruth { start, units: Units::from([2, 3]), since: Duration::ZERO };
        let key = ("n1".to_owned(), "gone".to_owned(), "main".to_owned());
        let runs = Truth { containers: [(key.clone(), container.clone())].into(), ..Truth::default() };
        let has_ended = Truth { ended: [(key, (container, NOW))].into(), ..Truth::default() };
        let is_there =
            Truth { pods: [("gone".to_owned(), pod("old", "gone", "Running"))].into(), ..runs.clone() };
        let failed =
            Truth { pods: [("gone".to_owned(), pod("old", "gone", "Failed"))].into(), ..runs.clone() };
        for (truth, uid, device, is_right) in [
            (&runs, "gone", 1, true),
            (&has_ended, "gone", 1, true),
            (&failed, "gone", 1, true),
            (&is_there, "gone", 1, false),
            (&runs, "gone", 2, false),
            (&runs, "another", 1, false),
            (&Truth::default(), "gone", 1, false),
        ] {
            let text = format!(
                "neuron1 of aws.amazon.com/neuron cannot be given: process 7 (main) of a pod that has ended or is gone (UID \
                 {uid}) has /dev/neuron{device} open; they can be given once that process has ended"
            );
            let (pod, books) = (pod("p", "u", "Pending"), BTreeMap::new());
            let refused =
                RefusedPod { truth, node: &node, pod: &pod, message: &text, held: Units::new(), books };
            assert_eq!(judge_refusal(&machine, &refused, &Units::new()).is_none(), is_right, "{text}");
        }
    }

    #[test]
    fn no_set_is_advised_where_none_is_left() {
        let text =
            "neuron9,neuron11 of aws.amazon.com/neuron cannot be given: they are not one of the linked sets";
        for (broken, api_disturbed, is_right) in
            [(&[9][..], Duration::ZERO, false), (&[9, 11], Duration::ZERO, true), (&[9], NOW, false)]
        {
            assert_eq!(wrong_with(broken, api_disturbed, "none", text).is_none(), is_right, "{broken:?}");
        }
    }

    #[test]
    fn a_set_that_comes_free_after_kubelet_was_advised_is_none_to_advise() {
        let node = NodePlan { machine: "inf2.48xlarge".to_owned() };
        let machine = Machine::of(&node).unwrap();
        let message =
            "neuron9,neuron11 of aws.amazon.com/neuron cannot be given: they are not one of the linked sets";
        let judged = |ago: u64, api_disturbed: Duration| {
            let start = json!({"pod_namespace": "default", "pod_name": "old", "pod_uid": "o", "container": "main",
                "args": [], "env": {}, "devices": [], "annotations": {}, "ids": {}});
            let start = Arc::new(serde_json::from_value(start).unwrap());
            let container = ContainerTruth { start, units: Units::from([20, 21]), since: Duration::ZERO };
            let key = ("n1".to_owned(), "o".to_owned(), "main".to_owned());
            let ended = [(key, (container, NOW - Duration::from_secs(ago)))].into();
            let truth = Truth { ended, now: NOW, api_disturbed, ..Truth::default() };
            let (pod, books) = (pod("p", "u", "Pending"), BTreeMap::new());
            let held: Units = (0..18).collect();
            let refused = RefusedPod { truth: &truth, node: &node, pod: &pod, message, held, books };
            judge_refusal(&machine, &refused, &machine.cores_of(9))
        };
        assert_eq!(judged(1, Duration::ZERO), None);
        assert!(judged(10, Duration::ZERO).is_some(), "it was free for longer than any Allocate takes");
        assert_eq!(judged(10, NOW), None, "the plugin may not have heard of it");
    }

    #[test]
    fn a_refused_pod_may_hold_what_another_container_of_it_was_given_under_the_other_name() {
        let node = NodePlan { machine: "inf2.48xlarge".to_owned() };
        let machine = Machine::of(&node).unwrap();
        let text = "neuron10 of aws.amazon.com/neuron cannot be given: pod default/p holds neuron10; ..";
        let judged = |asked: &str| {
            let container =
                |name: &str, asked: &str| json!({"name": name, "resources": {"limits": {asked: "2"}}});
            let object =
                json!({"spec": {"containers": [container("main", asked), container("app", NEURON)]}});
            let pod = PodTruth { object: Arc::new(object), ..pod("p", "u", "Failed") };
            let books = BTreeMap::from([(("u".to_owned(), "main".to_owned()), Units::from([20, 21]))]);
            let (truth, held) = (Truth { now: NOW, ..Truth::default() }, Units::new());
            let refused = RefusedPod { truth: &truth, node: &node, pod: &pod, message: text, held, books };
            judge_refusal(&machine, &refused, &Units::new())
        };
        assert_eq!(judged(NEURONCORE), None);
        assert!(judged(NEURON).is_some(), "an init container's ids are handed down");
    }
}
