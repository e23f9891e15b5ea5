//! What the index knows of pods that may have to go for another one. Asked by `/preempt`.

use std::collections::BTreeSet;

use neuron_core::ids::CoreSet;
use neuron_core::placement::{EqualNodes, Refusal};

use super::{Index, NodeRefusal};

impl Index {
    /// Whether the pod fits the node once these pods, by UID, are gone; none where the search was given up.
    pub(crate) fn fits_without(
        &self,
        node: &str,
        gone: &BTreeSet<&str>,
        pod: &mut EqualNodes,
    ) -> Option<bool> {
        let reserved = self.overlay.reserved_on(node).all;
        match self.view(node).map(|view| view.fits_without(gone, reserved, pod)) {
            Some(Err(NodeRefusal::Placement(Refusal::NotDecided { .. }))) => None,
            fits => Some(matches!(fits, Some(Ok(())))),
        }
    }

    /// The cores of the node that are not free once all its pods have ended: what is reserved, and what is unhealthy.
    pub(crate) fn cores_kept(&self, node: &str) -> CoreSet {
        let reserved = self.overlay.reserved_on(node).all;
        let settled = self.view(node).and_then(|view| view.settled());
        settled.map_or(reserved, |settled| {
            let occupancy = &settled.occupancy;
            reserved.union(occupancy.topology().cores_of(occupancy.unhealthy()))
        })
    }

    /// Priority and UID of the pods that hold devices of the node and are less important than that.
    pub(crate) fn holders_below(&self, node: &str, priority: i32) -> Vec<(i32, &str)> {
        let below = self.bound.on(node).iter().filter(|pod| pod.priority < priority);
        below.map(|pod| (pod.priority, &*pod.uid)).collect()
    }

    /// The priority of a pod on the node that holds devices there.
    pub(crate) fn priority(&self, node: &str, uid: &str) -> Option<i32> {
        self.bound.on(node).iter().find(|pod| *pod.uid == *uid).map(|pod| pod.priority)
    }
}
