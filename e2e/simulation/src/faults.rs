//! Which faults the devices of the simulated nodes have, and which had one until lately: a program may not have seen yet that a
//! device was mended. Kept by the suite, read by what judges refusals.

use std::collections::BTreeMap;
use std::time::Duration;

use simulated_cluster::suite::Units;
use tokio::time::Instant;

use crate::machine::Machine;

/// When the last fault of each device that ever had one ended, by node and device; nothing while it is broken.
#[derive(Default)]
pub(crate) struct DeviceFaults(BTreeMap<(String, u32), Option<Instant>>);

impl DeviceFaults {
    /// A device breaks, or is mended. One that is broken does not break again.
    pub(crate) fn change(&mut self, node: &str, device: u32, breaks: bool) {
        let ended = if breaks { None } else { Some(Instant::now()) };
        self.0.insert((node.to_owned(), device), ended);
    }

    /// A node has another machine.
    pub(crate) fn replaced(&mut self, node: &str) {
        for (_, ended) in self.0.iter_mut().filter(|((on, _), _)| on == node) {
            ended.get_or_insert_with(Instant::now);
        }
    }

    /// The cores of a node whose devices have a fault, or had one within so long.
    pub(crate) fn lately(&self, node: &str, machine: &Machine, within: Duration) -> Units {
        let here = self.0.iter().filter(|((on, _), _)| on == node);
        let is_broken = |ended: &Option<Instant>| ended.is_none_or(|ended| ended.elapsed() <= within);
        let broken = here.filter(|(_, ended)| is_broken(ended));
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
        let mut faults = DeviceFaults::default();
        let lately = |faults: &DeviceFaults, node| faults.lately(node, &machine, Duration::from_secs(60));
        faults.change("n1", 1, true);
        tokio::time::advance(Duration::from_secs(100)).await;
        assert_eq!((lately(&faults, "n1"), lately(&faults, "n2")), (Units::from([2, 3]), Units::new()));
        faults.change("n1", 1, false);
        faults.change("n2", 1, true);
        faults.replaced("n2");
        assert_eq!(lately(&faults, "n1"), Units::from([2, 3]), "somebody may still think so");
        assert_eq!(lately(&faults, "n2"), Units::from([2, 3]));
        tokio::time::advance(Duration::from_secs(61)).await;
        assert_eq!((lately(&faults, "n1"), lately(&faults, "n2")), (Units::new(), Units::new()));
    }
}
