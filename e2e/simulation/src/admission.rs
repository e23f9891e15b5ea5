//! Whether a pod was refused at its admission for a reason that is so: ids that somebody holds, or what Kubernetes itself does
//! now and then, which is a list. Called by the suite in the moment of the refusal.

use std::time::Duration;

use neuron_core::names::NEURON;
use serde_json::Value;
use simulated_cluster::observer::{
    CHECKPOINT_READS, CHECKPOINT_WRITES, ContainerTruth, PodTruth, UNDONE_WRITES,
};
use simulated_cluster::suite::{RefusedPod, Units};

use crate::judge::{counts, recorded_of, units_of_ids};
use crate::machine::Machine;
use crate::naive::can_be_placed;
use crate::own_refusals::{OWN, units_named};

/// How long a program may go on by what was so before: the plugin looks at its devices every few seconds, kubelet writes its
/// node's status up to ten seconds later.
pub(crate) const LATELY: Duration = Duration::from_secs(60);

/// How long an Allocate may take after kubelet was advised: the plugin waits five seconds for a holder to end, and the observer hears
/// of the refusal when its pod's status is written.
const ANSWERED: Duration = Duration::from_secs(10);

/// How long before the observer hears of a refusal the plugin may have decided it: its last look takes a second at most, and then
/// kubelet writes the pod's status.
const DECIDED: Duration = Duration::from_secs(2);

/// What the plugin says of an answer of its own that kubelet's checkpoint does not name.
const UNWRITTEN: &str = " cannot be given: a container that kubelet has not written down yet holds ";

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

/// What a refusal is counted as that there is nothing against.
pub(crate) fn excuse(refused: &RefusedPod<'_>) -> Option<&'static str> {
    if refused.message.contains(" cannot be given: ") {
        let is_held = [" holds ", GONE].iter().any(|words| refused.message.contains(words));
        return Some(if is_held { "refusals for: ids that are held" } else { "refusals for: no linked set" });
    }
    OWN.iter().find(|own| refused.message.contains(own.says)).map(|own| own.name)
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
        if is_own_and_freed(refused, resource) || is_own_and_unwritten(refused, resource) {
            return None;
        }
        let own = own_of_other(refused, resource);
        let mut just_ended = ended_within(refused, DECIDED).flat_map(|container| &container.units);
        let was_held = just_ended.any(|unit| units.contains(unit));
        if units.is_disjoint(held) && units.is_disjoint(&own) && !was_held {
            if is_admitted_again(refused) {
                return None;
            }
            if is_without_hardware(refused)
                || is_known_by_an_edited_record(refused)
                || could_ask_nobody(refused)
                || may_be_unwritten(refused, &units)
            {
                return judge_holders(machine, refused, why);
            }
            return Some("ids that nobody holds are refused as held".to_owned());
        }
        return judge_holders(machine, refused, why);
    }
    let is_set = machine.is_candidate(&units, resource == NEURON);
    if is_set {
        return Some("a candidate set is refused as none".to_owned());
    }
    // As with a topology manager that has another view: kubelet was advised, and took others.
    if refused.truth.are_preferences_ignored(&refused.pod.node, ANSWERED) {
        return None;
    }
    if was_taken_for_another(machine, refused) {
        return None;
    }
    // kubelet fills up by itself where nothing is preferred, and that may be no candidate set.
    let mut taken: Units = held.union(broken).copied().collect();
    taken.extend(ended_within(refused, ANSWERED).flat_map(|container| container.units.iter().copied()));
    // A plugin that reads from nobody which record is whose and which pods have ended, or not what kubelet has given whom, advises a set
    // all the same, of what is then left.
    if is_unread(refused) || is_checkpoint_unread(refused) {
        taken.extend(seen_lately(machine, refused));
    }
    (can_be_placed(machine, &refused.pod.object, &taken) == Some(true))
        .then(|| "kubelet was advised no set although one is free".to_owned())
}

/// Whether a container of the pod has what the record of another one says that waits: kubelet admitted the pod before that one, and no
/// question says who asks. What the pod's other containers need may then be somebody else's. A kubelet that tells its pods is asked which
/// it has.
fn was_taken_for_another(machine: &Machine, refused: &RefusedPod<'_>) -> bool {
    let RefusedPod { truth, pod, books, .. } = refused;
    if truth.kubelets_tell_pods && !truth.is_disturbed("kubelet", &pod.node, LATELY) {
        return false;
    }
    let own: Units =
        books.iter().filter(|((uid, _), _)| *uid == pod.uid).flat_map(|(_, units)| units.clone()).collect();
    let waits = |other: &&PodTruth| other.uid != pod.uid && truth.containers_of(other).next().is_none();
    let mut waiting = truth.live_on(&pod.node).filter(waits);
    waiting.any(|other| !recorded_of(machine, &other.object).is_disjoint(&own))
}

/// Whether the holder that is named is admitted for the second time: a kubelet that starts with an older list does not see a pod that
/// runs, ends its containers, gives its ids to the next pod, and admits it again once it does. To the plugin that pod still has its ids,
/// and Allocate does not say who asks: it could be a static pod, which nobody else knows yet.
fn is_admitted_again(refused: &RefusedPod<'_>) -> bool {
    let RefusedPod { truth, pod, message, .. } = refused;
    let is_named = |pod: &PodTruth| message.contains(&format!("pod {} holds ", pod.name()));
    let is_ended = |pod: &PodTruth| {
        let mut ended = truth.ended.iter();
        truth.containers_of(pod).next().is_none()
            && ended.any(|((_, uid, _), (_, at))| *uid == pod.uid && truth.now < *at + LATELY)
    };
    let others = || truth.live_on(&pod.node).any(|other| is_named(other) && is_ended(other));
    truth.is_disturbed("kubelet", &pod.node, LATELY) && (is_named(pod) || others())
}

/// Whether the holder that is named runs without the hardware that it asks for, as a kubelet that knows no plugin starts it: the plugin
/// knows no more of it than its record. It is met where kubelet takes others than it was advised.
fn is_without_hardware(refused: &RefusedPod<'_>) -> bool {
    let RefusedPod { truth, pod, message, .. } = refused;
    let mut others = truth.live_on(&pod.node);
    others.any(|other| {
        message.contains(&format!("pod {} holds ", other.name())) && !truth.has_what_it_asks_for(other)
    })
}

/// Whether somebody has edited the record of the holder that is named, and kubelet could not write since that started what it has given
/// it, or the write was undone: the plugin knows no more of it than its record then, and blocks both that and its own answers.
fn is_known_by_an_edited_record(refused: &RefusedPod<'_>) -> bool {
    let RefusedPod { truth, pod, message, .. } = refused;
    let mut others = truth.live_on(&pod.node);
    others.any(|other| {
        let runs_for = truth.now.saturating_sub(other.since);
        let is_unwritten = [CHECKPOINT_WRITES, UNDONE_WRITES]
            .iter()
            .any(|part| truth.is_disturbed(part, &pod.node, runs_for + LATELY));
        truth.edited_pods.contains(&other.uid)
            && is_unwritten
            && message.contains(&format!("pod {} holds ", other.name()))
    })
}

/// Whether the plugin says that it could not ask whether the holder has ended, and the API server fails: what it saw last is all that it
/// knows then.
fn could_ask_nobody(refused: &RefusedPod<'_>) -> bool {
    is_unread(refused) && refused.message.contains(" (not confirmed: ")
}

/// Whether the plugin could not see lately what kubelet writes down, and names no pod but its own answer: to it whoever asked for as much
/// and lives may have that, though the container that had it has ended.
fn may_be_unwritten(refused: &RefusedPod<'_>, units: &Units) -> bool {
    let mut lately = refused.truth.lately_on(&refused.pod.node);
    is_checkpoint_unread(refused)
        && refused.message.contains(UNWRITTEN)
        && lately.any(|container| !container.units.is_disjoint(units))
}

/// Whether nobody could read kubelet's checkpoint lately.
fn is_checkpoint_unread(refused: &RefusedPod<'_>) -> bool {
    refused.truth.is_disturbed(CHECKPOINT_READS, &refused.pod.node, LATELY)
}

/// Whether requests to the API server went wrong lately.
fn is_unread(refused: &RefusedPod<'_>) -> bool {
    refused.truth.now < refused.truth.api_disturbed + LATELY
}

/// The containers of the pod's node that have ended within so long. Those within [`ANSWERED`] may have come too late for what kubelet was
/// advised.
fn ended_within<'a>(refused: &RefusedPod<'a>, time: Duration) -> impl Iterator<Item = &'a ContainerTruth> {
    let (truth, node) = (refused.truth, &refused.pod.node);
    let ended = truth.ended.iter().filter(move |((on, _, _), (_, at))| on == node && truth.now < *at + time);
    ended.map(|(_, (container, _))| container)
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
    let given = |name| refused.books.get(&(refused.pod.uid.clone(), name));
    ask_other(refused, resource).filter_map(given).flatten().copied().collect()
}

/// Whether the refused pod is named as the holder, whose containers ask for both resources, and kubelet has freed what it was given:
/// it does so as soon as it gives another container something, before the status is written.
fn is_own_and_freed(refused: &RefusedPod<'_>, resource: &str) -> bool {
    let RefusedPod { pod, books, message, .. } = refused;
    let is_named = message.contains(&format!("pod {} holds ", pod.name()));
    is_named && books.keys().all(|(uid, _)| *uid != pod.uid) && ask_other(refused, resource).next().is_some()
}

/// Whether the holder is a container that kubelet has not written down, and the refused pod has one that asks for both resources: kubelet
/// writes those down together, and may be left with nothing but what the container got under the other name.
fn is_own_and_unwritten(refused: &RefusedPod<'_>, resource: &str) -> bool {
    let asks_for_both = containers(refused).any(|container| {
        let counts = counts(container);
        counts.len() == 2 && counts.iter().any(|(asked, _)| asked.name() == resource)
    });
    asks_for_both && refused.message.contains(UNWRITTEN)
}

/// The refused pod's containers that ask for another resource than this.
fn ask_other(refused: &RefusedPod<'_>, resource: &str) -> impl Iterator<Item = String> {
    let ask_other = containers(refused)
        .filter(move |container| counts(container).iter().any(|(other, _)| other.name() != resource));
    ask_other.filter_map(|container| Some(container.get("name")?.as_str()?.to_owned()))
}

fn containers<'a>(refused: &RefusedPod<'a>) -> impl Iterator<Item = &'a Value> {
    let object = &refused.pod.object;
    let lists = ["/spec/initContainers", "/spec/containers"].into_iter();
    lists.flat_map(|pointer| object.pointer(pointer).and_then(Value::as_array).into_iter().flatten())
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

/// What pods of this name have on the refused pod's node, or had when it was asked for: by containers, by kubelet's books, or by the
/// record of one that has not started. A plugin that reads the pods from nobody does not know which have ended or are gone.
fn units_of_pod(machine: &Machine, refused: &RefusedPod<'_>, name: &str) -> Units {
    let RefusedPod { truth, pod, .. } = refused;
    let node = &pod.node;
    let is_unread = is_unread(refused);
    let ended_for = if is_unread { LATELY } else { ANSWERED };
    let running = truth.containers_on(node).map(|(_, container)| container);
    let containers = running.chain(ended_within(refused, ended_for)).filter(|container| {
        format!("{}/{}", container.start.pod_namespace, container.start.pod_name) == name
    });
    let mut units: Units = containers.flat_map(|container| container.units.clone()).collect();
    let ended = truth.pods.values().filter(|pod| pod.has_ended());
    let not_told = ended.chain(truth.gone.iter().map(|(gone, _)| gone));
    let not_told = not_told.filter(|pod| is_unread && pod.node == *node);
    // The refused pod itself has ended by now, and may have what an earlier container of it was given.
    for pod in truth.live_on(node).chain([*pod]).chain(not_told).filter(|pod| pod.name() == name) {
        let books = refused.books.iter().filter(|((uid, _), _)| *uid == pod.uid);
        units.extend(books.flat_map(|(_, units)| units));
        // The plugin may not have read yet what somebody has made of the record.
        let records = [Some(&pod.object), pod.as_bound.as_ref()].into_iter().flatten();
        units.extend(records.flat_map(|object| recorded_of(machine, object)));
    }
    units
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod unread_tests;
