//! Records of pods that somebody edits by hand. Called by the suite.

use neuron_core::names::{
    ALLOCATION, AWS_NEURON_IDS, NEURON_ALLOC_TIME, NEURON_ALLOCATED, NEURON_CORES, NEURON_DEVS,
    NEURON_RESOURCE_TYPE,
};
use serde_json::{Map, Value, json};

use crate::machine::Machine;

/// What can become of a record.
pub(crate) const EDITS: [&str; 3] = ["record removed", "record garbled", "record wrong"];

/// Everything that the extender writes on a pod.
const KEYS: [&str; 7] = [
    ALLOCATION,
    AWS_NEURON_IDS,
    NEURON_ALLOC_TIME,
    NEURON_ALLOCATED,
    NEURON_CORES,
    NEURON_DEVS,
    NEURON_RESOURCE_TYPE,
];

/// The patch that edits the record of a pod; none if it has no record.
pub(crate) fn edit(machine: &Machine, pod: &Value, what: &str) -> Option<Value> {
    let record = record(pod)?;
    let annotations = match what {
        "record removed" => {
            KEYS.iter().map(|key| ((*key).to_owned(), Value::Null)).collect::<Map<String, Value>>().into()
        }
        "record garbled" => json!({ALLOCATION: &record[..record.len() / 2]}),
        "record wrong" => json!({ALLOCATION: next(machine, record)?}),
        _ => return None,
    };
    Some(json!({"metadata": {"annotations": annotations}}))
}

/// Whether a pod has no record.
pub(crate) fn is_removed(pod: &Value) -> bool {
    record(pod).is_none()
}

/// The record, of the devices and cores that come next.
fn next(machine: &Machine, record: &str) -> Option<String> {
    let mut record: Value = serde_json::from_str(record).ok()?;
    for (_, given) in record.get_mut("containers")?.as_object_mut()? {
        for (key, count) in [("devices", machine.devices()), ("cores", machine.cores())] {
            let Some(ids) = given.get_mut(key).and_then(Value::as_array_mut) else { continue };
            let by = u64::try_from(ids.len()).ok()?;
            let mut others: Vec<u64> =
                ids.iter().filter_map(Value::as_u64).map(|id| (id + by) % u64::from(count)).collect();
            others.sort_unstable();
            *ids = others.into_iter().map(Value::from).collect();
        }
    }
    Some(record.to_string())
}

fn record(pod: &Value) -> Option<&str> {
    pod.pointer("/metadata/annotations")?.get(ALLOCATION)?.as_str()
}
