//! How binds reserve hardware in the index, and what lets it go again. Called by `verbs::bind`; what is reserved stands in the overlay.

use std::collections::BTreeMap;
use std::sync::Arc;

use neuron_core::ids::CoreSet;
use neuron_core::topology::Topology;

use super::{Index, Reservation, ReservationId};

impl Index {
    /// Whether the pod has this reservation on the node.
    pub(crate) fn has_reservation(&self, uid: &str, node: &str, id: ReservationId) -> bool {
        self.reservations_of(uid).and_then(|nodes| nodes.get(node)).is_some_and(|one| one.id == id)
    }

    /// The pod's reservations by node; mostly there are none.
    pub(crate) fn reservations_of(&self, uid: &str) -> Option<&BTreeMap<String, Reservation>> {
        self.overlay.of_pod(uid)
    }

    /// The reservation that the pod already has on the node, which one more bind now uses.
    pub(crate) fn join_reservation(&mut self, uid: &str, node: &str) -> Option<Reservation> {
        self.overlay.join(uid, node)
    }

    /// Holds `cores` of the node for the pod until the watch shows it bound or gone, or the bind fails.
    pub(crate) fn reserve(
        &mut self,
        uid: &str,
        node: &str,
        cores: CoreSet,
        annotations: Arc<BTreeMap<String, String>>,
    ) -> ReservationId {
        let id = self.overlay.add(uid, node, cores, self.topology_of(node), annotations);
        self.apply_reservations(node);
        id
    }

    /// Has the pod's reservation on the node hold these `cores`, too, and its next Binding carry these annotations.
    pub(crate) fn reserve_instead(
        &mut self,
        uid: &str,
        node: &str,
        cores: CoreSet,
        annotations: Arc<BTreeMap<String, String>>,
    ) {
        self.overlay.replace(uid, node, cores, self.topology_of(node), annotations);
        self.apply_reservations(node);
    }

    fn topology_of(&self, node: &str) -> Option<Arc<Topology>> {
        self.view(node)?.topology().cloned()
    }

    /// It is open whether the pod was bound with the reservation, so that it may end without a change that anybody sees.
    pub(crate) fn mark_unclear(&mut self, uid: &str, node: &str, id: ReservationId) {
        if self.overlay.mark_unclear(uid, node, id) {
            self.apply_reservations(node);
        }
    }

    /// A bind ended without binding the pod.
    pub(crate) fn release(&mut self, uid: &str, node: &str, id: ReservationId) {
        if self.overlay.leave(uid, node, id) {
            // Planted: the devices stay taken until the node or one of its pods changes.
            #[cfg(planted)]
            if runtime::is_planted("release-not-applied") {
                return;
            }
            self.apply_reservations(node);
        }
    }

    /// Whether another list of all pods is needed to tell whether the pod of a reservation is there.
    pub(crate) fn has_unlisted_reservations(&self) -> bool {
        self.overlay.has_unlisted()
    }

    /// Whether it is open of any pod whether it was bound with its reservation.
    pub(crate) fn has_unclear_reservations(&self) -> bool {
        self.overlay.has_unclear()
    }

    /// Applies reservations to a node whose pods did not change.
    fn apply_reservations(&mut self, name: &str) {
        let reserved = self.overlay.reserved_on(name);
        if let Some(view) = self.views.get_mut(name) {
            view.reserve(reserved);
        }
    }
}
