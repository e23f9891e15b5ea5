//! Which faults the devices of the simulated nodes have, and which had one until lately: a program may not have seen yet that a
//! device was mended. Kept by the suite, read by what judges refusals.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use simulated_cluster::suite::Units;
use tokio::time::Instant;

use crate::machine::Machine;

/// The fault that is no file, and stays when a machine is replaced.
const HANGS: &str = "hangs";

/// The faults of all devices that ever had one, by node and device.
#[derive(Default)]
pub(crate) struct DeviceFaults(BTreeMap<(String, u32), Faults>);

#[derive(Default)]
struct Faults {
    now: BTreeSet<String>,
    /// When one of them ended last.
    ended: Option<Instant>,
}

impl DeviceFaults {
    /// A device breaks, or is mended.
    pub(crate) fn change(&mut self, node: &str, device: u32, fault: &str, breaks: bool) {
        let faults = self.0.entry((node.to_owned(), device)).or_default();
        if breaks {
            faults.now.insert(fault.to_owned());
        } else {
            faults.now.remove(fault);
            // A lost device comes back with the files of a healthy one.
            faults.now.retain(|other| fault != "lost" || other == HANGS);
            faults.ended = Some(Instant::now());
        }
    }

    /// A node has another machine.
    pub(crate) fn replaced(&mut self, node: &str) {
        for (_, faults) in self.0.iter_mut().filter(|((on, _), _)| on == node) {
            faults.now.retain(|fault| fault == HANGS);
            faults.ended = Some(Instant::now());
        }
    }

    /// The cores of a node whose devices have a fault, or had one within so long.
    pub(crate) fn lately(&self, node: &str, machine: &Machine, within: Duration) -> Units {
        let here = self.0.iter().filter(|((on, _), _)| on == node);
        let is_broken = |faults: &Faults| {
            !faults.now.is_empty() || faults.ended.is_some_and(|ended| ended.elapsed() <= within)
        };
        let broken = here.filter(|(_, faults)| is_broken(faults));
        broken.flat_map(|((_, device), _)| machine.cores_of(*device)).collect()
    }
}

#[cfg(test)]
mod tests {
    use simulated_cluster::plan::NodePlan;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_device_is_broken_until_its_last_fault_has_ended_for_a_while() {
        let machine = Machine::of(&NodePlan { machine: "trn1.32xlarge".to_owned() }).unwrap();
        let mut faults = DeviceFaults::default();
        faults.change("n1", 1, "unhealthy", true);
        faults.change("n1", 1, HANGS, true);
        faults.change("n1", 1, HANGS, false);
        tokio::time::advance(Duration::from_secs(100)).await;
        let lately = |faults: &DeviceFaults, node| faults.lately(node, &machine, Duration::from_secs(60));
        assert_eq!(lately(&faults, "n1"), Units::from([2, 3]));
        assert_eq!(lately(&faults, "n2"), Units::new());
        faults.change("n1", 1, "lost", true);
        faults.change("n1", 1, "lost", false);
        assert_eq!(lately(&faults, "n1"), Units::from([2, 3]), "somebody may still think so");
        tokio::time::advance(Duration::from_secs(61)).await;
        assert_eq!(lately(&faults, "n1"), Units::new());
    }
}
