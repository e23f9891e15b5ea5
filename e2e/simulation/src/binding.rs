//! What must hold of a pod in the moment in which the extender binds it. Called by the suite; what becomes of the pod later is
//! in `judge`.

use neuron_core::names::ALLOCATION;
use serde_json::Value;
use simulated_cluster::observer::{PodTruth, Truth, UNSEEN};
use simulated_cluster::suite::{Books, Units};

use crate::judge::{Given, asks, judge_set, recorded};
use crate::machine::Machine;

/// What is wrong with how a pod was bound.
pub(crate) fn judge_binding(
    machine: &Machine,
    truth: &Truth,
    pod: &PodTruth,
    books: &Books,
) -> Option<(String, String)> {
    if !asks(&pod.object) {
        return None;
    }
    let Some(record) = record(&pod.object) else {
        return Some(("a pod is bound without a record".to_owned(), "it has no record".to_owned()));
    };
    let Ok(given) = recorded(machine, record) else {
        return Some(("a pod is bound with a record that cannot be read".to_owned(), record.to_owned()));
    };
    let node = serde_json::from_str(record).ok().and_then(|record: Value| record.get("node").cloned());
    if node.as_ref().and_then(Value::as_str) != Some(&pod.node) {
        return Some(("a pod is bound with a record for another node".to_owned(), record.to_owned()));
    }
    let containers = ["/spec/initContainers", "/spec/containers"]
        .into_iter()
        .flat_map(|pointer| pod.object.pointer(pointer).and_then(Value::as_array).into_iter().flatten());
    let mut names = containers.filter_map(|container| container.get("name")?.as_str());
    let nothing = Given::default();
    let wrong = names.find_map(|name| {
        let given = given.get(name).unwrap_or(&nothing);
        judge_set(machine, &pod.object, name, &given.units(), given)
    });
    // An extender that is told of another machine by hand places on that one.
    if let Some((cause, text)) = wrong.filter(|_| !pod.bound_on_edited) {
        return Some((format!("by its record {cause}"), text));
    }
    // One of two extenders may not have seen what the other has bound.
    if truth.doubled.get("extender").is_some_and(|until| truth.now < *until + UNSEEN) {
        return None;
    }
    // A deposed leader has given it up, and the next one cannot know of it: the plugin is the last guard.
    if pod.bound_late && truth.replicated.contains("extender") {
        return None;
    }
    let given: Units = given.values().flat_map(Given::units).collect();
    let mut others = truth.live_on(&pod.node).filter(|other| other.uid != pod.uid);
    let other = others.find(|other| !certain(machine, truth, other, books).is_disjoint(&given))?;
    let text = format!(
        "its record gives it {given:?}, and {} has {:?}",
        other.name(),
        certain(machine, truth, other, books)
    );
    Some(("a pod is bound to what another pod has".to_owned(), text))
}

/// The units that the extender must know to be a pod's: those that it was bound to, that its record still says and that kubelet
/// has given it, if it has given it anything. Which of two equal pods has which set an extender learns only later.
fn certain(machine: &Machine, truth: &Truth, pod: &PodTruth, books: &Books) -> Units {
    // A container that kubelet started without hardware holds nothing, although its pod's record still says so.
    if !truth.has_what_it_asks_for(pod) {
        return Units::new();
    }
    let units = |object: &Value| -> Units {
        let recorded = record(object).and_then(|record| recorded(machine, record).ok());
        recorded.unwrap_or_default().values().flat_map(Given::units).collect()
    };
    let (mut certain, now) = (pod.as_bound.as_deref().map(units).unwrap_or_default(), units(&pod.object));
    let given: Vec<&Units> =
        books.iter().filter(|((uid, _), _)| *uid == pod.uid).map(|(_, units)| units).collect();
    certain.retain(|unit| {
        now.contains(unit) && (given.is_empty() || given.iter().any(|units| units.contains(unit)))
    });
    certain
}

fn record(pod: &Value) -> Option<&str> {
    pod.pointer("/metadata/annotations")?.get(ALLOCATION)?.as_str()
}
