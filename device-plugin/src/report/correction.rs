//! What must change for a pod's record to say what kubelet really gave: after a swap between equal pods, or when kubelet
//! chose among ids that an init container handed down. Pure; `records` writes it.

use std::collections::{BTreeMap, BTreeSet};

use neuron_core::holders::record_counts;
use neuron_core::ids::CoreSet;
use neuron_core::names::{
    ALLOCATION, AWS_NEURON_IDS, NEURON_ALLOC_TIME, NEURON_ALLOCATED, NEURON_RESOURCE_TYPE, Resource,
};
use neuron_core::record::{Allocation, ContainerAllocation, Recorded};
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
    let mut containers: BTreeMap<String, ContainerAllocation> = BTreeMap::new();
    let mut changes = Vec::new();
    if slots.iter().all(|slot| given(slot).is_none()) {
        return None;
    }
    for slot in slots {
        // kubelet names no container that has run and that it has lost since: the record says what that one had.
        let kept = || recorded_of(topology, slot, recorded.as_ref()).filter(|_| slot.started);
        let cores = given(slot).or_else(kept)?;
        let allocation = containers.entry(slot.container.clone()).or_default();
        match slot.resource {
            Resource::Device => allocation.devices = topology.devices_of(cores),
            Resource::Core => allocation.cores = cores,
        }
        changes.extend(change(topology, slot, recorded.as_ref(), cores));
    }
    let real = Allocation { node: node.to_owned(), lnc: topology.lnc(), containers };
    let same = match &pod.pod.record {
        Ok(Some(Recorded::Ours(recorded))) => *recorded == real,
        Ok(Some(Recorded::Aws { ids, .. })) => *ids == aws_ids(&real),
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

fn recorded_of(topology: &Topology, slot: &Slot, recorded: Option<&Allocation>) -> Option<CoreSet> {
    let recorded = recorded?.containers.get(&slot.container)?;
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
