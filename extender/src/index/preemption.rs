//! What the index knows of pods that may have to go for another one. Asked by `/preempt`.

use std::collections::BTreeSet;
use std::sync::Arc;

use neuron_core::ids::CoreSet;
use neuron_core::placement::{EqualNodes, Refusal};
use neuron_core::pod::BoundPod;

use super::{Index, NodeRefusal, Reserved};

impl Index {
    /// Whether the pod fits the node once these pods, by UID, are gone. None where that is not known: the search was given up, or nothing says
    /// yet what one that stays holds, or what became of a Binding that may be in the way.
    pub(crate) fn fits_without(
        &self,
        node: &str,
        gone: &BTreeSet<Arc<str>>,
        pod: &mut EqualNodes,
    ) -> Option<bool> {
        let Some(view) = self.view(node) else { return Some(false) };
        let Reserved { all, clear } = self.overlay.reserved_on(node);
        let is_new = view.has_new_unknown_holder(gone);
        let mut fits = |reserved| match view.fits_without(gone, reserved, pod) {
            Ok(()) => Some(true),
            Err(NodeRefusal::Placement(Refusal::NotDecided { .. })) => None,
            Err(NodeRefusal::UnknownHolder { .. }) if is_new => None,
            Err(_) => Some(false),
        };
        match fits(all) {
            Some(false) if all != clear && fits(clear) != Some(false) => None,
            answer => answer,
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

    /// The pods that hold devices of the node.
    pub(crate) fn holders(&self, node: &str) -> &[Arc<BoundPod>] {
        self.bound.on(node)
    }
}
