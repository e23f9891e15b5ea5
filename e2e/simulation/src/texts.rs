//! Whether the texts by which the extender says why a pod waits are true, of a cluster that nothing has changed for a while: those
//! that say how much is free. The others are in `reasons`.

use std::sync::Arc;

use simulated_cluster::suite::Units;

use crate::machine::Machine;

/// What is so on a node.
pub(crate) struct Facts {
    pub(crate) machine: Arc<Machine>,
    /// Cores that pods hold.
    pub(crate) held: Units,
    /// Cores of devices that are broken.
    pub(crate) broken: Units,
}

/// What is wrong with the text, if anything is: kube-scheduler joins the reasons of all nodes, so each must be true of one.
pub(crate) fn judge(nodes: &[Facts], message: &str) -> Option<String> {
    let is_true_of_one = |is_true: &dyn Fn(&Facts) -> bool| nodes.iter().any(is_true);
    for (unit, as_devices) in [("device", true), ("core", false)] {
        for rest in after(message, &format!("not enough free: Neuron {unit}s asked ")) {
            let alone = numbers(rest, ["", ", free ", " of "]).map(|[asked, free, of]| [asked, 0, free, of]);
            let with = |devices| numbers(rest, ["", " beside ", devices, " of "]);
            let figures = alone.or_else(|| with(" device, free ")).or_else(|| with(" devices, free "));
            let Some([asked, beside, free, total]) = figures else { continue };
            let is_so = |facts: &Facts| {
                let too_many = asked + facts.cores_of_devices(beside) > free;
                too_many && facts.free(as_devices) == free && facts.all(as_devices) == total
            };
            if !is_true_of_one(&is_so) {
                return Some(format!("not so many {unit}s are free"));
            }
        }
        for rest in after(message, "no linked set of ") {
            let middle = format!(" free Neuron {unit}s: ");
            let end = " free, the largest linked set has ";
            let Some([_, free, largest]) = numbers(rest, ["", &middle, end]) else { continue };
            let is_so =
                |facts: &Facts| facts.free(as_devices) == free && facts.largest(as_devices) >= largest;
            if !is_true_of_one(&is_so) {
                return Some(format!("not so many {unit}s are free, or linked"));
            }
        }
    }
    judge_types(nodes, message)
}

/// What is wrong with what the text says of instance types, which does not depend on what is free.
pub(crate) fn judge_types(nodes: &[Facts], message: &str) -> Option<String> {
    let is_true_of_one = |is_true: &dyn Fn(&Facts) -> bool| nodes.iter().any(is_true);
    for (unit, as_devices) in [("device", true), ("core", false)] {
        for rest in after(message, "Instance type ") {
            let Some((name, rest)) = rest.split_once(" does not support requests for ") else { continue };
            let Some([count]) = numbers(rest, [&format!("{unit}: ")]) else { continue };
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

    /// The most devices or cores that a free candidate set has.
    fn largest(&self, as_devices: bool) -> u32 {
        let counts = if as_devices { self.machine.device_counts() } else { self.machine.core_counts() };
        let taken = self.taken();
        let has_free = |count: &u32| {
            let sets =
                if as_devices { self.machine.device_sets(*count) } else { self.machine.core_sets(*count) };
            sets.iter().any(|set| set.is_disjoint(&taken))
        };
        counts.into_iter().filter(has_free).max().unwrap_or_default()
    }
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
    use simulated_cluster::plan::NodePlan;

    use super::*;

    /// What is wrong with a text where these cores of a trn1.32xlarge (16 devices, 32 cores) are taken.
    fn wrong(taken: std::ops::Range<u32>, message: &str) -> Option<String> {
        let machine = Machine::of(&NodePlan { machine: "trn1.32xlarge".to_owned() }).unwrap();
        judge(&[Facts { machine, held: taken.collect(), broken: Units::new() }], message)
    }

    #[test]
    fn texts_are_true_or_not() {
        let told =
            |text: &str| format!("0/1 nodes are available: 1 {text}. preemption: 0/1 nodes are available");
        for (taken, text, is_true) in [
            (0..8, "not enough free: Neuron devices asked 16, free 12 of 16", true),
            (0..8, "not enough free: Neuron devices asked 16, free 11 of 16", false),
            (0..1, "not enough free: Neuron cores asked 32, free 31 of 32", true),
            (0..1, "not enough free: Neuron cores asked 32, free 32 of 32", false),
            (0..8, "not enough free: Neuron cores asked 10 beside 8 devices, free 24 of 32", true),
            (0..8, "not enough free: Neuron cores asked 8 beside 1 device, free 24 of 32", false),
            (0..8, "not enough free: Neuron cores asked 10 beside 8 devices, free 23 of 32", false),
            (0..2, "no linked set of 16 free Neuron devices: 15 free, the largest linked set has 8", true),
            (0..2, "no linked set of 16 free Neuron devices: 16 free, the largest linked set has 8", false),
            (
                0..0,
                "Instance type trn1.32xlarge does not support requests for device: 7. Please request ..",
                true,
            ),
            (
                0..0,
                "Instance type trn1.32xlarge does not support requests for device: 8. Please request ..",
                false,
            ),
            (0..0, "Insufficient aws.amazon.com/neuron", true),
        ] {
            assert_eq!(wrong(taken, &told(text)).is_none(), is_true, "{text}");
        }
    }
}
