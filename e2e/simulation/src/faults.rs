//! What is wrong with the simulated nodes: which faults their devices have, and which they had until lately, since a program may not
//! have seen yet that a device was mended; and what is wrong with whole machines. Kept by the suite, read by what judges refusals.

use std::collections::BTreeMap;
use std::time::Duration;

use simulated_cluster::suite::Units;
use tokio::time::Instant;

use crate::hardware::OF_ALL_DEVICES;
use crate::machine::Machine;

/// What is wrong with devices and machines.
#[derive(Default)]
pub(crate) struct Faults {
    /// By node and device.
    devices: BTreeMap<(String, u32), Fault>,
    /// By node and name.
    machines: BTreeMap<(String, String), Fault>,
}

/// The last fault of something that ever had one.
struct Fault {
    /// What it was.
    what: String,
    /// When it ended; nothing while it is there.
    ended: Option<Instant>,
}

impl Fault {
    fn new(what: &str, breaks: bool) -> Self {
        Self { what: what.to_owned(), ended: if breaks { None } else { Some(Instant::now()) } }
    }

    fn is_there(&self, within: Duration) -> bool {
        self.ended.is_none_or(|ended| ended.elapsed() <= within)
    }
}

impl Faults {
    /// A device breaks, or is mended. One that is broken does not break again.
    pub(crate) fn change(&mut self, node: &str, device: u32, fault: &str, breaks: bool) {
        self.devices.insert((node.to_owned(), device), Fault::new(fault, breaks));
    }

    /// Something about a machine goes wrong, or is put right.
    pub(crate) fn change_machine(&mut self, node: &str, fault: &str, breaks: bool) {
        self.machines.insert((node.to_owned(), fault.to_owned()), Fault::new(fault, breaks));
    }

    /// A node has another machine.
    pub(crate) fn replaced(&mut self, node: &str) {
        let devices = self.devices.iter_mut().filter(|((on, _), _)| on == node).map(|(_, fault)| fault);
        let machines = self.machines.iter_mut().filter(|((on, _), _)| on == node).map(|(_, fault)| fault);
        for fault in devices.chain(machines) {
            fault.ended.get_or_insert_with(Instant::now);
        }
    }

    /// The devices of a node that are broken now, each with its fault.
    pub(crate) fn broken(&self, node: &str) -> Vec<(u32, String)> {
        let here = self.devices.iter().filter(|((on, _), fault)| on == node && fault.ended.is_none());
        here.map(|((_, device), fault)| (*device, fault.what.clone())).collect()
    }

    /// Whether a machine has a fault now.
    pub(crate) fn is_there(&self, node: &str, fault: &str) -> bool {
        let known = self.machines.get(&(node.to_owned(), fault.to_owned()));
        known.is_some_and(|fault| fault.ended.is_none())
    }

    /// Whether a machine has a fault, or had it within so long.
    pub(crate) fn has(&self, node: &str, fault: &str, within: Duration) -> bool {
        let known = self.machines.get(&(node.to_owned(), fault.to_owned()));
        known.is_some_and(|fault| fault.is_there(within))
    }

    /// The cores of a node whose devices have a fault, or had one within so long: all of them where none could be served.
    pub(crate) fn lately(&self, node: &str, machine: &Machine, within: Duration) -> Units {
        if OF_ALL_DEVICES.iter().any(|fault| self.has(node, fault, within)) {
            return (0..machine.cores().into()).collect();
        }
        let here = self.devices.iter().filter(|((on, _), _)| on == node);
        let broken = here.filter(|(_, fault)| fault.is_there(within));
        broken.flat_map(|((_, device), _)| machine.cores_of(*device)).collect()
    }
}

#[cfg(test)]
mod tests {
    use simulated_cluster::plan::NodePlan;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_device_is_broken_until_its_fault_has_ended_for_a_while() {
        let machine = Machine::of(&NodePlan { machine: "trn1.32xlarge".to_owned() }).unwrap();
        let mut faults = Faults::default();
        let lately = |faults: &Faults, node| faults.lately(node, &machine, Duration::from_secs(60));
        faults.change("n1", 1, "lost", true);
        tokio::time::advance(Duration::from_secs(100)).await;
        assert_eq!((lately(&faults, "n1"), lately(&faults, "n2")), (Units::from([2, 3]), Units::new()));
        faults.change("n1", 1, "lost", false);
        faults.change("n2", 1, "lost", true);
        faults.replaced("n2");
        assert_eq!(lately(&faults, "n1"), Units::from([2, 3]), "somebody may still think so");
        assert_eq!(lately(&faults, "n2"), Units::from([2, 3]));
        tokio::time::advance(Duration::from_secs(61)).await;
        assert_eq!((lately(&faults, "n1"), lately(&faults, "n2")), (Units::new(), Units::new()));
    }
}
