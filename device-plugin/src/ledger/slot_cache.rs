//! The slots of this node, made anew only where what they follow from has changed: every answer to kubelet needs them. Kept by `engine`.

use std::sync::Arc;

use neuron_core::report::NodeReport;
use neuron_core::topology::Topology;

use crate::ledger::slot::{NodePod, Slot, slots};

/// The slots made last, with what they were made of.
#[derive(Debug, Default)]
pub struct SlotCache(Option<Made>);

#[derive(Debug)]
struct Made {
    topology: Arc<Topology>,
    report: Option<Arc<NodeReport>>,
    pods: Vec<Arc<NodePod>>,
    slots: Arc<[Slot]>,
}

impl SlotCache {
    /// The slots of these pods, as [`slots`] has them, and whether they were made anew.
    pub fn slots(
        &mut self,
        node: &str,
        topology: &Arc<Topology>,
        report: Option<&Arc<NodeReport>>,
        pods: Vec<Arc<NodePod>>,
    ) -> (Arc<[Slot]>, bool) {
        if let Some(made) = self.0.as_ref().filter(|made| made.is_of(topology, report, &pods)) {
            return (Arc::clone(&made.slots), false);
        }
        let new = slots(node, topology, report.map(Arc::as_ref), pods.iter().map(Arc::as_ref));
        let slots: Arc<[Slot]> = new.into();
        let (topology, report) = (Arc::clone(topology), report.cloned());
        self.0 = Some(Made { topology, report, pods, slots: Arc::clone(&slots) });
        (slots, true)
    }
}

impl Made {
    /// Whether nothing has been replaced since.
    fn is_of(
        &self,
        topology: &Arc<Topology>,
        report: Option<&Arc<NodeReport>>,
        pods: &[Arc<NodePod>],
    ) -> bool {
        let is_same_report = match (&self.report, report) {
            (Some(before), Some(now)) => Arc::ptr_eq(before, now),
            (before, now) => before.is_none() && now.is_none(),
        };
        is_same_report
            && Arc::ptr_eq(&self.topology, topology)
            && self.pods.len() == pods.len()
            && self.pods.iter().zip(pods).all(|(before, now)| Arc::ptr_eq(before, now))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use neuron_core::catalog::Catalog;
    use neuron_core::pod::BoundPod;
    use neuron_core::topology::Policy;
    use serde_json::json;

    use super::*;

    fn pod(uid: &str, devices: u32) -> Arc<NodePod> {
        let limits = json!({"aws.amazon.com/neuron": devices});
        let spec = json!({"containers": [{"name": "main", "resources": {"limits": limits}}]});
        let spec = serde_json::from_value(spec).unwrap();
        Arc::new(NodePod::of(BoundPod::new("ns", uid, uid, BTreeMap::new(), &spec, None), 1))
    }

    #[test]
    fn slots_are_made_anew_where_a_pod_the_report_or_the_machine_is_another_one() {
        let model = Catalog::embedded().find("inf2.24xlarge").unwrap();
        let topology = || Arc::new(Topology::of(model, 1, Policy::Documented).unwrap());
        let report = || {
            let report =
                json!({"v": 1, "instanceType": "inf2.24xlarge", "lnc": 1, "devices": [], "holders": []});
            Arc::new(serde_json::from_value::<NodeReport>(report).unwrap())
        };
        let mut cache = SlotCache::default();
        let (first, machine) = (vec![pod("p", 1), pod("q", 2)], topology());
        let mut made = |machine: &Arc<Topology>, report: Option<&Arc<NodeReport>>, pods: &[Arc<NodePod>]| {
            let (slots, is_new) = cache.slots("n1", machine, report, pods.to_vec());
            (slots.iter().map(|slot| slot.count).collect::<Vec<_>>(), is_new)
        };
        assert_eq!(made(&machine, None, &first), (vec![1, 2], true));
        assert_eq!(made(&machine, None, &first), (vec![1, 2], false));

        let changed = [Arc::clone(&first[0]), pod("q", 3)];
        assert_eq!(made(&machine, None, &changed), (vec![1, 3], true));
        assert_eq!(made(&machine, None, &first[..1]), (vec![1], true));
        let with_report = report();
        assert!(made(&machine, Some(&with_report), &first).1);
        assert!(!made(&machine, Some(&with_report), &first).1);
        assert!(made(&machine, Some(&report()), &first).1);
        assert!(made(&machine, None, &first).1);
        assert!(made(&topology(), None, &first).1);
    }
}
