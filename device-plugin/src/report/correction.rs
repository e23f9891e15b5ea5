//! What must change for a pod's record to say what kubelet really gave: after a swap between equal pods, or when kubelet
//! chose among ids that an init container handed down. Pure; `records` writes it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use neuron_core::holders::record_counts;
use neuron_core::ids::CoreSet;
use neuron_core::names::{
    ALLOCATION, AWS_NEURON_IDS, NEURON_ALLOC_TIME, NEURON_ALLOCATED, NEURON_RESOURCE_TYPE, Resource,
};
use neuron_core::pod::BoundPod;
use neuron_core::record::{Allocation, Containers, Recorded};
use neuron_core::topology::Topology;

use crate::ledger::Ledger;
use crate::ledger::slot::{NodePod, Slot};
use crate::resource::ids_of;

/// A change of a pod's annotations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Correction {
    /// New values by key; none removes the key.
    pub annotations: BTreeMap<String, Option<String>>,
    /// The event's text; none if only `NEURON_ALLOCATED` changes.
    pub note: Option<String>,
}

/// What must change on `pod`. None if its record is right, if it has none, or while kubelet has not written down what is yet to
/// start. `slots` are those of this pod alone.
pub fn correction(
    node: &str,
    topology: &Topology,
    ledger: &Ledger,
    pod: &NodePod,
    slots: &[&Slot],
) -> Option<Correction> {
    let now = &pod.pod.annotations;
    let ours = now.contains_key(ALLOCATION);
    if slots.is_empty() || !(ours || now.contains_key(AWS_NEURON_IDS)) {
        return None;
    }
    let given = |slot: &Slot| {
        // Planted: the record gives every container of a pod what the first one has.
        #[cfg(planted)]
        if runtime::is_planted("record-of-another-container") {
            return slots
                .iter()
                .find(|first| first.resource == slot.resource)
                .and_then(|first| ledger.entry_of(first));
        }
        // Planted: a record is repaired by what the checkpoint said of an earlier pod of the name.
        #[cfg(planted)]
        if runtime::is_planted("record-of-an-older-report") {
            return ledger.said_first(slot);
        }
        ledger.entry_of(slot)
    };
    // Taken by itself, not against other pods' records: where two pods were swapped, the report already contradicts both.
    let recorded = record_counts(&pod.pod, node, topology).ok().flatten();
    let lost = slots.iter().filter(|slot| given(slot).is_none()).count();
    if lost == slots.len() {
        return None;
    }
    let mut containers = Containers::default();
    let mut changes = Vec::new();
    for slot in slots {
        // What a container has had that kubelet has lost, only the record says. AWS' keys do not say which container has which ids.
        let kept = || recorded_of(topology, slot, recorded.as_deref()).filter(|_| ours && slot.started);
        let cores = given(slot).or_else(kept)?;
        let allocation = containers.entry(slot.container.as_str().into()).or_default();
        match slot.resource {
            Resource::Device => allocation.devices = topology.devices_of(cores),
            Resource::Core => allocation.cores = cores,
        }
        changes.extend(change(topology, slot, recorded.as_deref(), cores));
    }
    let real = Allocation { node: node.into(), lnc: topology.lnc(), containers };
    // One container has what the record says of another that kubelet has lost: such a record would not count.
    if lost > 0 && !can_count(&pod.pod, node, &real, topology) {
        return None;
    }
    let same = match &pod.pod.record {
        Ok(Some(Recorded::Ours(recorded))) => **recorded == real,
        Ok(Some(Recorded::Aws { ids, .. })) => **ids == aws_ids(&real),
        Ok(None) | Err(_) => false,
    };
    let time = now.get(NEURON_ALLOC_TIME).cloned();
    let mut right = real.annotations(true, time.as_deref().unwrap_or_default());
    if time.is_none() {
        right.remove(NEURON_ALLOC_TIME);
    }
    right.retain(|key, _| {
        if same {
            key == NEURON_ALLOCATED && now.contains_key(AWS_NEURON_IDS)
        } else if ours {
            true
        } else {
            // AWS' extension placed it: AWS' keys stay the record.
            [AWS_NEURON_IDS, NEURON_ALLOCATED, NEURON_RESOURCE_TYPE].contains(&key.as_str())
        }
    });
    let is_news = |(key, value): &(String, String)| {
        // Planted: what is right already is written again, which is a change that is looked at again.
        #[cfg(planted)]
        if runtime::is_planted("correction-repeated") {
            return true;
        }
        now.get(key) != Some(value)
    };
    let mut annotations: BTreeMap<String, Option<String>> =
        right.into_iter().filter(is_news).map(|(k, v)| (k, Some(v))).collect();
    if ours && !same {
        let all = real.annotations(true, "");
        let stale = now.keys().filter(|key| !all.contains_key(*key));
        annotations.extend(stale.map(|key| (key.clone(), None)));
    }
    if annotations.is_empty() {
        return None;
    }
    let note = (!same).then(|| match changes.as_slice() {
        [] => "The pod's record did not count; it now says what kubelet gave the pod".to_owned(),
        changes => format!("The record now says what kubelet gave the pod: {}", changes.join("; ")),
    });
    Some(Correction { annotations, note })
}

/// Whether a record of this would count on the pod.
fn can_count(pod: &BoundPod, node: &str, real: &Allocation, topology: &Topology) -> bool {
    let pod = BoundPod { record: Ok(Some(Recorded::Ours(Arc::new(real.clone())))), ..pod.clone() };
    record_counts(&pod, node, topology).is_ok()
}

fn recorded_of(topology: &Topology, slot: &Slot, recorded: Option<&Allocation>) -> Option<CoreSet> {
    let recorded = recorded?.containers.get(slot.container.as_str())?;
    Some(match slot.resource {
        Resource::Device => topology.cores_of(recorded.devices),
        Resource::Core => recorded.cores,
    })
}

fn change(topology: &Topology, slot: &Slot, recorded: Option<&Allocation>, cores: CoreSet) -> Option<String> {
    let recorded = recorded_of(topology, slot, recorded);
    if recorded == Some(cores) {
        return None;
    }
    let ids = |cores| ids_of(topology, slot.resource, cores).join(",");
    let before = match recorded {
        Some(recorded) => format!(" instead of {}", ids(recorded)),
        None => String::new(),
    };
    Some(format!("container {} has {}{before}", slot.container, ids(cores)))
}

fn aws_ids(real: &Allocation) -> BTreeSet<u8> {
    let both = real.containers.values().flat_map(|given| given.devices.iter().chain(given.cores.iter()));
    both.collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use neuron_core::catalog::Catalog;
    use neuron_core::names::NEURON;
    use neuron_core::pod::PodSpec;
    use neuron_core::topology::Policy;
    use serde_json::{Value, json};
    use tokio::time::Instant;

    use super::*;
    use crate::ledger::Entry;
    use crate::ledger::slot::slots;

    /// What is corrected on an inf2.24xlarge, of a pod whose containers `a` and `b` have run and which has these annotations. kubelet
    /// names `b` alone, with this device.
    fn corrected(annotations: &[(&str, &str)], device: u8) -> Option<Correction> {
        let topology = Catalog::embedded().find("inf2.24xlarge").unwrap();
        let topology = Arc::new(Topology::of(topology, 1, Policy::Documented).unwrap());
        let asks = |name: &str| json!({"name": name, "resources": {"limits": {NEURON: "1"}}});
        let spec: PodSpec = serde_json::from_value(json!({"containers": [asks("a"), asks("b")]})).unwrap();
        let annotations =
            annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let have_run = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        let pod = NodePod::of(BoundPod::new("d", "p", "u", annotations, &spec, None), 1);
        let running = have_run.iter().map(|name| (name.clone(), String::new())).collect();
        let pod = NodePod { started: have_run, running, ..pod };
        let slots = slots("n1", &topology, None, [&pod]);
        let mut ledger = Ledger::default();
        let cores = topology.cores_of(neuron_core::ids::DeviceSet::single(device));
        let (uid, container) = ("u".to_owned(), "b".to_owned());
        let entry = Entry { uid, container, name: NEURON, resource: Resource::Device, cores };
        ledger.checkpoint(vec![entry], Instant::now(), Instant::now());
        correction("n1", &topology, &ledger, &pod, &slots.iter().collect::<Vec<_>>())
    }

    #[test]
    fn what_kubelet_has_lost_stays_as_the_record_says_it() {
        let record = r#"{"v":1,"node":"n1","lnc":1,"containers":{"a":{"devices":[0]},"b":{"devices":[1]}}}"#;
        let ours = [(ALLOCATION, record)];
        let now = corrected(&ours, 4).unwrap().annotations[ALLOCATION].clone().unwrap();
        let now = serde_json::from_str::<Value>(&now).unwrap();
        assert_eq!(now["containers"], json!({"a": {"devices": [0]}, "b": {"devices": [4]}}));
        assert_eq!(corrected(&ours, 0), None, "what it would say could not be");
        assert_eq!(corrected(&[(AWS_NEURON_IDS, "0,1")], 4), None, "AWS' keys name no containers");
    }
}
