//! Whether the texts by which the extender says why a pod waits are true, of a cluster that nothing has changed for a while: those
//! that say how much is free. The others are in `reasons`.

use std::sync::Arc;

use neuron_core::names::{NEURON, NEURONCORE, Resource};
use serde_json::Value;
use simulated_cluster::suite::Units;

use crate::judge::counts;
use crate::machine::Machine;
use crate::naive::{Step, can_be_placed, steps};

/// What is so on a node.
pub(crate) struct Facts {
    pub(crate) machine: Arc<Machine>,
    /// Cores that pods hold.
    pub(crate) held: Units,
    /// Cores of devices that are broken.
    pub(crate) broken: Units,
}

/// What is wrong with the text, if anything is: kube-scheduler joins the reasons of all nodes, so each must be true of one.
pub(crate) fn judge(nodes: &[Facts], pod: &Value, message: &str) -> Option<String> {
    let is_true_of_one = |is_true: &dyn Fn(&Facts) -> bool| nodes.iter().any(is_true);
    for (unit, as_devices) in [("device", true), ("core", false)] {
        for rest in after(message, &format!("not enough free: Neuron {unit}s asked ")) {
            let alone = numbers(rest, ["", ", free ", " of "]).map(|[asked, free, of]| [asked, 0, free, of]);
            let with = |devices| numbers(rest, ["", " beside ", devices, " of "]);
            let figures = alone.or_else(|| with(" device, free ")).or_else(|| with(" devices, free "));
            let Some([asked, beside, free, total]) = figures else { return Some(not_understood(rest)) };
            if asked != fresh(pod, as_devices) || (beside > 0 && beside != fresh(pod, true)) {
                return Some(format!("the pod does not ask for so many {unit}s"));
            }
            let is_so = |facts: &Facts| {
                let too_many = asked + facts.cores_of_devices(beside) > free;
                too_many && facts.free(as_devices) == free && facts.all(as_devices) == total
            };
            if !is_true_of_one(&is_so) {
                return Some(format!("not so many {unit}s are free"));
            }
        }
        for rest in after(message, "no linked set of ") {
            // The other name is looked at in its turn.
            let other = if as_devices { "core" } else { "device" };
            let after_count = rest.trim_start_matches(|character: char| character.is_ascii_digit());
            if after_count.starts_with(&format!(" free Neuron {other}s: ")) {
                continue;
            }
            let middle = format!(" free Neuron {unit}s: ");
            let end = " free, the largest linked set has ";
            let Some([asked, free, largest]) = numbers(rest, ["", &middle, end]) else {
                return Some(not_understood(rest));
            };
            if !asks(pod, as_devices, asked) {
                return Some(format!("no container asks for so many {unit}s"));
            }
            let asked = Asked { container: container_before(message, rest), as_devices, count: asked };
            let is_so =
                |facts: &Facts| facts.free(as_devices) == free && facts.is_largest(pod, &asked, largest);
            if !is_true_of_one(&is_so) {
                return Some(format!("not so many {unit}s are free, or linked"));
            }
        }
    }
    judge_types(nodes, pod, message)
}

/// What is wrong with what the text says of instance types, which does not depend on what is free.
pub(crate) fn judge_types(nodes: &[Facts], pod: &Value, message: &str) -> Option<String> {
    let is_true_of_one = |is_true: &dyn Fn(&Facts) -> bool| nodes.iter().any(is_true);
    for (unit, as_devices) in [("device", true), ("core", false)] {
        for rest in after(message, "Instance type ") {
            let Some((name, rest)) = rest.split_once(' ') else { return Some(not_understood(rest)) };
            // `reasons` says what a cluster at rest has no reason for.
            if rest.starts_with("is not in the catalog ") {
                continue;
            }
            let Some(rest) = rest.strip_prefix("does not support requests for ") else {
                return Some(not_understood(rest));
            };
            // The other name is looked at in its turn.
            let Some(rest) = rest.strip_prefix(&format!("{unit}: ")) else {
                if ["device: ", "core: "].iter().any(|other| rest.starts_with(other)) {
                    continue;
                }
                return Some(not_understood(rest));
            };
            let Some([count]) = numbers(rest, [""]) else { return Some(not_understood(rest)) };
            if !asks(pod, as_devices, count) {
                return Some(format!("no container asks for so many {unit}s"));
            }
            let is_so =
                |facts: &Facts| facts.machine.model.name == name && !facts.machine.gives(count, as_devices);
            if !is_true_of_one(&is_so) {
                return Some(format!("the type gives so many {unit}s"));
            }
        }
    }
    None
}

impl Facts {
    /// Cores that are held or broken.
    pub(crate) fn taken(&self) -> Units {
        self.held.union(&self.broken).copied().collect()
    }

    /// How many cores so many devices have.
    fn cores_of_devices(&self, devices: u32) -> u32 {
        devices * u32::from(self.machine.cores()) / u32::from(self.machine.devices())
    }

    fn free(&self, as_devices: bool) -> u32 {
        let taken = self.taken();
        let is_free = |units: &Units| units.is_disjoint(&taken);
        let sets = if as_devices { self.machine.device_sets(1) } else { self.machine.core_sets(1) };
        u32::try_from(sets.iter().filter(|set| is_free(set)).count()).unwrap_or(u32::MAX)
    }

    /// How many devices or cores the machine has.
    pub(crate) fn all(&self, as_devices: bool) -> u32 {
        if as_devices { self.machine.devices().into() } else { self.machine.cores().into() }
    }

    /// Whether `largest` is the most, below what is asked, that the container could get beside those before it, and it cannot get what
    /// it asks for; as far as a short search tells.
    fn is_largest(&self, pod: &Value, asked: &Asked<'_>, largest: u32) -> bool {
        let taken = self.taken();
        let fits = |count: u32| {
            let until = up_to(pod, asked, count)?;
            can_be_placed(&self.machine, &until, &taken)
        };
        let is_right =
            largest == 0 || self.machine.gives(largest, asked.as_devices) && fits(largest) != Some(false);
        let more = (largest + 1..=asked.count).filter(|count| self.machine.gives(*count, asked.as_devices));
        let is_there = up_to(pod, asked, asked.count).is_some();
        is_there
            && largest < asked.count
            && is_right
            && more.into_iter().all(|count| fits(count) != Some(true))
    }
}

/// What no linked set is found for.
struct Asked<'a> {
    /// The container, where several of the pod ask.
    container: Option<&'a str>,
    as_devices: bool,
    count: u32,
}

/// The name in `container NAME: no linked set of `, of which `rest` is what follows.
fn container_before<'a>(message: &'a str, rest: &str) -> Option<&'a str> {
    let before = message[..message.len() - rest.len()].strip_suffix(": no linked set of ")?;
    before.rsplit_once("container ").map(|(_, name)| name)
}

/// The pod up to the container, which asks for `count` instead and, as devices, for no cores. None if it has no such container.
fn up_to(pod: &Value, asked: &Asked<'_>, count: u32) -> Option<Value> {
    let mut pod = pod.clone();
    for list in ["initContainers", "containers"] {
        let Some(containers) = pod.pointer_mut(&format!("/spec/{list}")).and_then(Value::as_array_mut) else {
            continue;
        };
        let is_asked = |container: &Value| match asked.container {
            Some(name) => container.get("name").and_then(Value::as_str) == Some(name),
            None => !counts(container).is_empty(),
        };
        let Some(place) = containers.iter().position(is_asked) else { continue };
        containers.truncate(place + 1);
        let limits = containers[place].pointer_mut("/resources/limits")?.as_object_mut()?;
        if asked.as_devices {
            limits.remove(NEURONCORE);
        }
        limits
            .insert(if asked.as_devices { NEURON } else { NEURONCORE }.to_owned(), count.to_string().into());
        if list == "initContainers" {
            pod.get_mut("spec")?.as_object_mut()?.remove("containers");
        }
        return Some(pod);
    }
    None
}

/// How many devices or cores a pod needs that no init container hands down.
pub(crate) fn fresh(pod: &Value, as_devices: bool) -> u32 {
    let of_unit = |step: &&Step| (step.resource == Resource::Device) == as_devices;
    steps(pod).iter().filter(of_unit).map(|step| step.count.saturating_sub(step.handed_down)).sum()
}

/// Whether a container asks for so many devices or cores.
fn asks(pod: &Value, as_devices: bool, count: u32) -> bool {
    steps(pod).iter().any(|step| (step.resource == Resource::Device) == as_devices && step.count == count)
}

/// A text that says something in words that are not known here would never be judged.
pub(crate) fn not_understood(rest: &str) -> String {
    format!("its words are not understood: {:?}", rest.chars().take(80).collect::<String>())
}

/// What follows each time that `words` stand in the text.
pub(crate) fn after<'a>(text: &'a str, words: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices(words).map(move |(at, _)| &text[at + words.len()..])
}

/// The numbers that follow on these words, one after the other from the beginning on.
pub(crate) fn numbers<const N: usize>(mut text: &str, words: [&str; N]) -> Option<[u32; N]> {
    let mut numbers = [0; N];
    for (number, words) in numbers.iter_mut().zip(words) {
        text = text.strip_prefix(words)?;
        let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
        *number = text[..end].parse().ok()?;
        text = &text[end..];
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use simulated_cluster::plan::NodePlan;

    use super::*;

    /// What is wrong with a text about a pod that asks for so many devices and cores where these cores of a trn1.32xlarge (16 devices,
    /// 32 cores) are taken.
    fn wrong(taken: std::ops::Range<u32>, (devices, cores): (u32, u32), message: &str) -> Option<String> {
        let machine = Machine::of(&NodePlan { machine: "trn1.32xlarge".to_owned() }).unwrap();
        let limits = json!({NEURON: devices.to_string(), NEURONCORE: cores.to_string()});
        let pod = json!({"spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]}});
        judge(&[Facts { machine, held: taken.collect(), broken: Units::new() }], &pod, message)
    }

    #[test]
    fn texts_are_true_or_not() {
        let told =
            |text: &str| format!("0/1 nodes are available: 1 {text}. preemption: 0/1 nodes are available");
        let not_enough = "not enough free: Neuron";
        let unlinked = "no linked set of 16 free Neuron devices";
        let no_type = "Instance type trn1.32xlarge does not support requests for";
        for (taken, asked, text, is_true) in [
            (0..8, (16, 0), format!("{not_enough} devices asked 16, free 12 of 16"), true),
            (0..8, (16, 0), format!("{not_enough} devices asked 16, free 11 of 16"), false),
            (0..8, (15, 0), format!("{not_enough} devices asked 16, free 12 of 16"), false),
            (0..8, (16, 0), format!("{not_enough} devices asked many, free 12"), false),
            (0..1, (0, 32), format!("{not_enough} cores asked 32, free 31 of 32"), true),
            (0..1, (0, 32), format!("{not_enough} cores asked 32, free 32 of 32"), false),
            (0..8, (8, 10), format!("{not_enough} cores asked 10 beside 8 devices, free 24 of 32"), true),
            (0..8, (4, 10), format!("{not_enough} cores asked 10 beside 8 devices, free 24 of 32"), false),
            (0..8, (1, 8), format!("{not_enough} cores asked 8 beside 1 device, free 24 of 32"), false),
            (0..8, (8, 10), format!("{not_enough} cores asked 10 beside 8 devices, free 23 of 32"), false),
            (0..2, (16, 0), format!("{unlinked}: 15 free, the largest linked set has 8"), true),
            (0..2, (16, 0), format!("{unlinked}: 15 free, the largest linked set has 4"), false),
            (0..2, (16, 0), format!("{unlinked}: 15 free, the largest linked set has 12"), false),
            (0..0, (16, 0), format!("{unlinked}: 16 free, the largest linked set has 8"), false),
            (0..2, (16, 0), format!("{unlinked}: 16 free, the largest linked set has 8"), false),
            (0..2, (8, 0), format!("{unlinked}: 15 free, the largest linked set has 8"), false),
            (0..2, (16, 0), format!("{unlinked}: 15 are free"), false),
            (0..0, (7, 0), format!("{no_type} device: 7. Please request .."), true),
            (0..0, (8, 0), format!("{no_type} device: 8. Please request .."), false),
            (0..0, (6, 0), format!("{no_type} device: 7. Please request .."), false),
            (0..0, (7, 0), format!("{no_type} device: seven. Please request .."), false),
            (0..0, (1, 0), "Insufficient aws.amazon.com/neuron".to_owned(), true),
        ] {
            assert_eq!(wrong(taken, asked, &told(&text)).is_none(), is_true, "{text}");
        }
    }

    #[test]
    fn the_largest_set_is_the_one_that_is_left_beside_the_containers_before() {
        let machine = Machine::of(&NodePlan { machine: "trn1.32xlarge".to_owned() }).unwrap();
        let asking = |name: &str, count: u32| json!({"name": name, "resources": {"limits": {NEURON: count.to_string()}}});
        let pod = json!({"spec": {"containers": [asking("a", 8), asking("b", 8), asking("c", 1)]}});
        let facts = [Facts { machine, held: Units::from([0]), broken: Units::new() }];
        let told = |container: &str, largest: u32| {
            let text = "no linked set of 8 free Neuron devices: 15 free, the largest linked set has";
            judge(
                &facts,
                &pod,
                &format!("0/1 nodes are available: 1 container {container}: {text} {largest}."),
            )
        };
        assert_eq!(told("b", 4), None);
        for (container, largest) in [("b", 1), ("b", 8), ("a", 4), ("nobody", 4)] {
            assert!(told(container, largest).is_some(), "{container} {largest}");
        }
    }

    #[test]
    fn what_is_handed_down_is_not_asked_for_again() {
        let asking = |count: u32| json!({"resources": {"limits": {NEURON: count.to_string()}}});
        let pod = json!({"spec": {"initContainers": [asking(4)], "containers": [asking(8), asking(1)]}});
        assert_eq!((fresh(&pod, true), fresh(&pod, false)), (9, 0));
    }
}
