//! What must hold of pods that have Neuron devices: by the documented rules and by what containers really have.

use std::collections::{BTreeMap, BTreeSet};

use neuron_core::ids::KubeletId;
use neuron_core::names::{ALLOCATION, NEURON, NEURONCORE, Resource};
use serde_json::Value;
use simulated_cluster::observer::{PodTruth, Truth};
use simulated_cluster::suite::Units;

use crate::machine::Machine;

/// The cores that ids of a resource stand for.
///
/// # Errors
/// An id that the machine does not have.
pub(crate) fn units_of_ids<'a>(
    machine: &Machine,
    resource: &str,
    ids: impl IntoIterator<Item = &'a String>,
) -> Result<Units, String> {
    let mut units = Units::new();
    for id in ids {
        match (id.parse(), Resource::named(resource)) {
            (Ok(KubeletId::Device(device)), Some(Resource::Device)) if device < machine.devices() => {
                units.extend(machine.cores_of(device.into()));
            }
            (Ok(KubeletId::Core(core)), Some(Resource::Core)) if core < machine.cores() => {
                units.insert(core.into());
            }
            _ => return Err(format!("{id} is no id of {resource}")),
        }
    }
    Ok(units)
}

/// What a container asks for.
pub(crate) fn counts(container: &Value) -> Vec<(Resource, u32)> {
    let limits = container.pointer("/resources/limits");
    let count = |name: &str| {
        let count = limits.and_then(|limits| limits.get(name)).and_then(Value::as_str);
        count.and_then(|count| count.parse().ok()).unwrap_or_default()
    };
    let both = [(Resource::Device, count(NEURON)), (Resource::Core, count(NEURONCORE))];
    both.into_iter().filter(|(_, count)| *count > 0).collect()
}

/// Whether a container of a pod asks for Neuron hardware: else none of this is the extender's.
pub(crate) fn asks(pod: &Value) -> bool {
    let containers = ["/spec/initContainers", "/spec/containers"]
        .into_iter()
        .flat_map(|pointer| pod.pointer(pointer).and_then(Value::as_array).into_iter().flatten());
    containers.into_iter().any(|container| !counts(container).is_empty())
}

/// What is wrong with a pod that has run for a while.
pub(crate) fn judge_pod(machine: &Machine, truth: &Truth, pod: &PodTruth) -> Option<(String, String)> {
    if !asks(&pod.object) {
        return None;
    }
    let record = pod.object.pointer("/metadata/annotations").and_then(|all| all.get(ALLOCATION));
    let Some(record) = record.and_then(Value::as_str) else {
        return Some(("a pod without a record".to_owned(), "it has no record".to_owned()));
    };
    let recorded = match recorded(machine, record) {
        Ok(recorded) => recorded,
        Err(why) => return Some(("a record that cannot be read".to_owned(), format!("{why}: {record}"))),
    };
    if cannot_be_put_right(truth, pod, &recorded) {
        return None;
    }
    for (name, container) in truth.containers_of(pod) {
        // A kubelet that knows no plugin yet and has no checkpoint, as on a machine that has taken another's name, asks nobody
        // and starts containers without what they ask for (isDevicePluginResource in kubelet's devicemanager).
        if container.start.ids.is_empty() {
            continue;
        }
        let said = recorded.get(name).map(Given::units).unwrap_or_default();
        if said != container.units {
            let text = format!("container {name} has {:?}, its record says {said:?}", container.units);
            return Some(("a record is not what a container has".to_owned(), text));
        }
    }
    // The plugin gives what the extender has recorded, and that one was told of another machine by hand.
    if pod.bound_on_edited { None } else { judge_sets(machine, truth, pod) }
}

/// Whether a container runs with nothing whose record says what another one of the pod has: to the plugin it is one that kubelet has lost
/// and that has what its record says, and a record that gives two containers the same does not count.
fn cannot_be_put_right(truth: &Truth, pod: &PodTruth, recorded: &BTreeMap<String, Given>) -> bool {
    let lost = truth.containers_of(pod).filter(|(_, container)| container.start.ids.is_empty());
    let lost: Units = lost.filter_map(|(name, _)| recorded.get(name)).flat_map(Given::units).collect();
    truth.containers_of(pod).any(|(_, container)| !container.units.is_disjoint(&lost))
}

/// What a container is given under each name, as cores. None where nobody says what.
#[derive(Default)]
pub(crate) struct Given {
    devices: Option<Units>,
    cores: Option<Units>,
}

impl Given {
    /// What kubelet gave a container.
    fn by_ids(machine: &Machine, ids: &BTreeMap<String, BTreeSet<String>>) -> Self {
        let of = |resource: Resource| {
            let (name, ids) = ids.iter().find(|(name, _)| Resource::named(name) == Some(resource))?;
            units_of_ids(machine, name, ids).ok()
        };
        Self { devices: of(Resource::Device), cores: of(Resource::Core) }
    }

    /// All of it.
    pub(crate) fn units(&self) -> Units {
        self.devices.iter().chain(&self.cores).flatten().copied().collect()
    }

    fn of(&self, resource: Resource) -> Option<&Units> {
        match resource {
            Resource::Device => self.devices.as_ref(),
            Resource::Core => self.cores.as_ref(),
        }
    }

    /// Whether a core is given under both names.
    fn overlaps(&self) -> bool {
        self.devices.iter().any(|devices| self.cores.iter().any(|cores| !devices.is_disjoint(cores)))
    }
}

/// Every container has a candidate set of as many as it asks for.
fn judge_sets(machine: &Machine, truth: &Truth, pod: &PodTruth) -> Option<(String, String)> {
    let mut given = truth.containers_of(pod).filter(|(_, container)| !container.start.ids.is_empty());
    given.find_map(|(name, container)| {
        let by_ids = Given::by_ids(machine, &container.start.ids);
        judge_set(machine, &pod.object, name, &container.units, &by_ids)
    })
}

/// What is wrong with what a container of a pod has. One that asks under both names is judged by what it is given under each.
pub(crate) fn judge_set(
    machine: &Machine,
    pod: &Value,
    name: &str,
    units: &Units,
    given: &Given,
) -> Option<(String, String)> {
    let spec = ["/spec/containers", "/spec/initContainers"].into_iter().find_map(|pointer| {
        let mut all = pod.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
        all.find(|container| container.pointer("/name").and_then(Value::as_str) == Some(name))
    });
    let asked = spec.map(counts).unwrap_or_default();
    if let [one] = asked.as_slice() {
        return judge_resource(machine, name, *one, units);
    }
    let wrong = asked.iter().find_map(|one| judge_resource(machine, name, *one, given.of(one.0)?));
    wrong.or_else(|| {
        let text = format!("container {name} has {:?} and {:?}", given.devices, given.cores);
        given.overlaps().then(|| ("a container has a core under both names".to_owned(), text))
    })
}

/// What is wrong with what a container has of a resource of which it asks for so many.
fn judge_resource(
    machine: &Machine,
    name: &str,
    (resource, count): (Resource, u32),
    units: &Units,
) -> Option<(String, String)> {
    let as_devices = resource == Resource::Device;
    let has = if as_devices { machine.devices_of(units).len() } else { units.len() };
    if usize::try_from(count) != Ok(has) {
        let text = format!("container {name} asks for {count} and has {units:?}");
        return Some(("a container has another number than it asks for".to_owned(), text));
    }
    if !machine.is_candidate(units, as_devices) {
        return Some((
            "a container has no candidate set".to_owned(),
            format!("container {name} has {units:?}"),
        ));
    }
    None
}

/// What a pod's record gives it, of all containers; nothing where there is none that can be read.
pub(crate) fn recorded_of(machine: &Machine, pod: &Value) -> Units {
    let record = pod.pointer("/metadata/annotations").and_then(|all| all.get(ALLOCATION)?.as_str());
    let recorded = record.and_then(|record| recorded(machine, record).ok()).unwrap_or_default();
    recorded.values().flat_map(Given::units).collect()
}

/// What a record says that each container has.
pub(crate) fn recorded(machine: &Machine, record: &str) -> Result<BTreeMap<String, Given>, String> {
    let record: Value = serde_json::from_str(record).map_err(|error| error.to_string())?;
    let containers = record.pointer("/containers").and_then(Value::as_object);
    let containers = containers.ok_or("it has no containers")?;
    let numbers = |given: &Value, key: &str| {
        let numbers = given.get(key).and_then(Value::as_array).into_iter().flatten();
        numbers.filter_map(Value::as_u64).filter_map(|number| u32::try_from(number).ok()).collect::<Units>()
    };
    let given = |given: &Value| {
        let devices = numbers(given, "devices").into_iter().flat_map(|device| machine.cores_of(device));
        Given { devices: Some(devices.collect()), cores: Some(numbers(given, "cores")) }
    };
    Ok(containers.iter().map(|(name, said)| (name.clone(), given(said))).collect())
}

#[cfg(test)]
mod tests {
    use neuron_core::names::{NEURON, NEURONCORE};
    use serde_json::json;
    use simulated_cluster::plan::NodePlan;

    use super::*;
    use crate::test_truth::{container, key, pod};

    #[test]
    fn a_container_that_asks_under_both_names_has_a_candidate_set_of_each() {
        let machine = Machine::of(&NodePlan { machine: "trn1.32xlarge".to_owned() }).unwrap();
        let limits = json!({NEURON: "4", NEURONCORE: "2"});
        let main = json!({"name": "main", "resources": {"limits": limits}});
        let pod = json!({"spec": {"containers": [main]}});
        let wrong = |devices: &[u32], cores: &[u32]| {
            let record = json!({"containers": {"main": {"devices": devices, "cores": cores}}}).to_string();
            let given = recorded(&machine, &record).unwrap().remove("main").unwrap();
            judge_set(&machine, &pod, "main", &given.units(), &given).map(|(cause, _)| cause)
        };
        assert_eq!(wrong(&[0, 1, 2, 3], &[8, 9]), None);
        let count = Some("a container has another number than it asks for".to_owned());
        assert_eq!(wrong(&[0, 1, 2], &[6, 7, 8, 9]), count, "as many cores in all");
        assert_eq!(wrong(&[0, 1, 2, 3], &[]), count);
        let set = Some("a container has no candidate set".to_owned());
        assert_eq!(wrong(&[0, 1, 2, 9], &[8, 9]), set);
        assert_eq!(wrong(&[0, 1, 2, 3], &[9, 12]), set);
        let twice = Some("a container has a core under both names".to_owned());
        assert_eq!(wrong(&[0, 1, 2, 3], &[6, 7]), twice);
    }

    #[test]
    fn what_kubelet_gave_under_each_name_is_told_apart() {
        let machine = Machine::of(&NodePlan { machine: "trn1.32xlarge".to_owned() }).unwrap();
        let ids = BTreeMap::from([(NEURON.to_owned(), BTreeSet::from(["neuron1".to_owned()]))]);
        let given = Given::by_ids(&machine, &ids);
        assert_eq!(
            (given.of(Resource::Device), given.of(Resource::Core)),
            (Some(&Units::from([2, 3])), None)
        );
    }

    /// Seed 318 of twenty nodes.
    #[test]
    fn no_record_is_right_where_one_container_has_what_another_without_hardware_is_recorded_with() {
        let machine = Machine::of(&NodePlan { machine: "trn1.32xlarge".to_owned() }).unwrap();
        let record = |side: u32| {
            json!({"containers": {"side": {"cores": [side, side + 1]}, "main": {"cores": [20, 21]}}})
                .to_string()
        };
        let judged = |side: u32| {
            let limits = json!({NEURONCORE: "2"});
            let containers =
                ["side", "main"].map(|name| json!({"name": name, "resources": {"limits": limits}}));
            let annotations = json!({ALLOCATION: record(side)});
            let object =
                json!({"metadata": {"annotations": annotations}, "spec": {"containers": containers}});
            let pod = pod("p", "u", "Running", object);
            let ids = BTreeMap::from([(NEURONCORE, vec!["neuroncore4", "neuroncore5"])]);
            let main = container("p", "u", &ids, Units::from([4, 5]));
            let side = container("p", "u", &BTreeMap::new(), Units::new());
            let containers = [(key("u", "side"), side), (key("u", "main"), main)].into();
            let truth = Truth { containers, ..Truth::default() };
            judge_pod(&machine, &truth, &pod).map(|(cause, _)| cause)
        };
        assert_eq!(judged(4), None);
        assert_eq!(judged(8).as_deref(), Some("a record is not what a container has"));
    }
}
