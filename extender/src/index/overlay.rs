//! Reservations: what binds have chosen and the watch has not shown yet, by pod UID and node. Kept by the index.
//!
//! The watch lags the Binding, so a reservation counts like a holder until the watch shows its pod bound or gone. How long
//! a Binding whose answer was lost keeps its devices is decided in `config` (`binding_timeout`, 60 s); `verbs::bind` then
//! releases them unless the pod is bound here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use neuron_core::ids::CoreSet;
use neuron_core::topology::Topology;
use tokio::time::Instant;

/// How long it may be open what became of a Binding before its reservation counts like any other, so that pods which it keeps out are
/// refused, and autoscalers and preemption do something. That is mostly known within a minute, by nothing that kube-scheduler sees; where
/// each bind of a pod fails, as for an admission webhook that is down, it is not for as long as they do.
const UNCLEAR_AT_MOST: Duration = Duration::from_secs(180);

/// One pod's hardware on one node.
#[derive(Clone, Debug)]
pub(crate) struct Reservation {
    /// Every logical core that the pod takes under either name, by the Binding that is sent next.
    pub(crate) chosen: CoreSet,
    /// Those, and the ones of Bindings sent before that may still be carried out.
    pub(crate) cores: CoreSet,
    /// What the node was when they were chosen; none if that was not known. On a node with other devices or cores they are others.
    pub(crate) topology: Option<Arc<Topology>>,
    /// The annotations that its Binding carries; a repeated bind sends the same again.
    pub(crate) annotations: Arc<BTreeMap<String, String>>,
    /// Tells it from every other one: a bind that ends late must not release what a later bind has made.
    pub(crate) id: ReservationId,
    /// Binds under way with it: kube-scheduler may repeat a call before the first has ended.
    binds: u32,
    /// Since when it is open what became of a Binding that was sent with it, so that time alone may end it.
    unclear_since: Option<Instant>,
    /// How many lists of all pods had begun when it was made.
    lists_begun: u64,
    /// Whether the list that had begun then did not show its pod, and nothing has since.
    is_unlisted: bool,
}

/// The logical cores that are reserved on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reserved {
    /// All of them.
    pub(crate) all: CoreSet,
    /// Those without which a Binding under way would fail: not the ones of Bindings of which it has been open for less than
    /// [`UNCLEAR_AT_MOST`] what became of them.
    pub(crate) clear: CoreSet,
}

/// Which reservation; never given twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReservationId(u64);

/// All reservations.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    by_pod: BTreeMap<String, BTreeMap<String, Reservation>>,
    lists_begun: u64,
    last_id: ReservationId,
}

impl Overlay {
    /// The reservation of the pod on the node, which one more bind now uses.
    pub(super) fn join(&mut self, uid: &str, node: &str) -> Option<Reservation> {
        let reservations = self.by_pod.get_mut(uid)?;
        // Planted: a pod that is tried on another node is bound there with a record for the first one.
        #[cfg(planted)]
        if runtime::is_planted("reservation-of-another-node") {
            return reservations.values().next().cloned();
        }
        let reservation = reservations.get_mut(node)?;
        reservation.binds += 1;
        Some(reservation.clone())
    }

    /// Adds a reservation that one bind uses.
    pub(super) fn add(
        &mut self,
        uid: &str,
        node: &str,
        cores: CoreSet,
        topology: Option<Arc<Topology>>,
        annotations: Arc<BTreeMap<String, String>>,
    ) -> ReservationId {
        self.last_id.0 += 1;
        let id = self.last_id;
        let lists_begun = self.lists_begun;
        let reservation = Reservation {
            chosen: cores,
            cores,
            topology,
            annotations,
            id,
            binds: 1,
            unclear_since: None,
            lists_begun,
            is_unlisted: false,
        };
        self.by_pod.entry(uid.to_owned()).or_default().insert(node.to_owned(), reservation);
        id
    }

    /// Has the pod's reservation on the node take these cores, too, and its next Binding carry other annotations.
    pub(super) fn replace(
        &mut self,
        uid: &str,
        node: &str,
        cores: CoreSet,
        topology: Option<Arc<Topology>>,
        annotations: Arc<BTreeMap<String, String>>,
    ) {
        if let Some(reservation) = self.by_pod.get_mut(uid).and_then(|nodes| nodes.get_mut(node)) {
            // What was sent before may still be carried out.
            reservation.cores = reservation.cores.union(cores);
            reservation.chosen = cores;
            reservation.topology = topology;
            reservation.annotations = annotations;
        }
    }

    /// It is open what became of a Binding of the pod to the node. Whether the reservation is still there.
    pub(super) fn mark_unclear(&mut self, uid: &str, node: &str, id: ReservationId) -> bool {
        let reservation = self.by_pod.get_mut(uid).and_then(|nodes| nodes.get_mut(node));
        let Some(reservation) = reservation.filter(|reservation| reservation.id == id) else { return false };
        reservation.unclear_since.get_or_insert_with(Instant::now);
        true
    }

    /// One bind ended without binding the pod: the reservation goes unless another bind uses it. Whether it went.
    pub(super) fn leave(&mut self, uid: &str, node: &str, id: ReservationId) -> bool {
        let Some(nodes) = self.by_pod.get_mut(uid) else { return false };
        let Some(reservation) = nodes.get_mut(node).filter(|reservation| reservation.id == id) else {
            return false;
        };
        reservation.binds = reservation.binds.saturating_sub(1);
        if reservation.binds > 0 {
            return false;
        }
        nodes.remove(node);
        if nodes.is_empty() {
            self.by_pod.remove(uid);
        }
        true
    }

    /// Removes the pod's reservations, as the watch has shown it bound or gone. Returns the nodes they were on.
    pub(super) fn remove(&mut self, uid: &str) -> Vec<String> {
        self.by_pod.remove(uid).unwrap_or_default().into_keys().collect()
    }

    /// Whether it is open of any what became of its Binding.
    pub(super) fn has_unclear(&self) -> bool {
        self.by_pod.values().flat_map(BTreeMap::values).any(|reservation| reservation.unclear_since.is_some())
    }

    /// A list of all pods begins: a pod that is reserved for from here on may be missing in it.
    pub(super) fn list_begins(&mut self) {
        self.lists_begun += 1;
    }

    /// The pod is there, and not bound.
    pub(super) fn mark_shown(&mut self, uid: &str) {
        let reservations = self.by_pod.get_mut(uid).into_iter().flat_map(BTreeMap::values_mut);
        reservations.for_each(|reservation| reservation.is_unlisted = false);
    }

    /// Whether a list of all pods lacks the pod of a reservation that was made since it began, and nothing was seen of it after either: a
    /// list is read later than it begins, and the pod may have come and gone by then.
    pub(super) fn has_unlisted(&self) -> bool {
        self.by_pod.values().flat_map(BTreeMap::values).any(|reservation| reservation.is_unlisted)
    }

    /// Removes the reservations, made before the last list began, of pods that are not in it. Returns the nodes they were
    /// on.
    pub(super) fn remove_unlisted(&mut self, is_listed: impl Fn(&str) -> bool) -> Vec<String> {
        let lists_begun = self.lists_begun;
        let mut nodes = Vec::new();
        self.by_pod.retain(|uid, by_node| {
            if !is_listed(uid) {
                by_node.retain(|node, reservation| {
                    let newer = reservation.lists_begun == lists_begun;
                    reservation.is_unlisted = newer;
                    if !newer {
                        nodes.push(node.clone());
                    }
                    newer
                });
            }
            !by_node.is_empty()
        });
        nodes
    }

    /// The pod's reservations by node.
    pub(super) fn of_pod(&self, uid: &str) -> Option<&BTreeMap<String, Reservation>> {
        self.by_pod.get(uid)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.by_pod.values().map(BTreeMap::len).sum()
    }

    /// What is reserved on the node.
    pub(super) fn reserved_on(&self, node: &str) -> Reserved {
        let mut reserved = Reserved::default();
        for reservation in self.by_pod.values().filter_map(|nodes| nodes.get(node)) {
            reserved.all = reserved.all.union(reservation.cores);
            if reservation.unclear_since.is_none_or(|since| since.elapsed() > UNCLEAR_AT_MOST) {
                reserved.clear = reserved.clear.union(reservation.cores);
            }
        }
        reserved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlay(reservations: &[(&str, &str, u8)]) -> Overlay {
        let mut overlay = Overlay::default();
        add(&mut overlay, reservations);
        overlay
    }

    /// Reserves one core for each pod on each node.
    fn add(overlay: &mut Overlay, reservations: &[(&str, &str, u8)]) {
        for (uid, node, core) in reservations {
            overlay.add(uid, node, CoreSet::run(*core, 1), None, Arc::default());
        }
    }

    fn id(overlay: &Overlay, uid: &str, node: &str) -> ReservationId {
        overlay.of_pod(uid).unwrap()[node].id
    }

    #[test]
    fn a_reservation_goes_with_the_last_bind_that_uses_it() {
        let mut overlay = overlay(&[("u", "n1", 0), ("u", "n2", 1), ("v", "n1", 2)]);
        let first = id(&overlay, "u", "n1");
        assert_eq!(overlay.join("u", "n1").unwrap().cores, CoreSet::run(0, 1));
        assert!(!overlay.leave("u", "n1", first), "one more bind uses it");
        assert!(overlay.leave("u", "n1", first));
        assert!(!overlay.leave("u", "n1", first), "it is gone");
        assert!(overlay.join("u", "n1").is_none() && overlay.join("w", "n1").is_none());
        assert_eq!(overlay.of_pod("u").unwrap().keys().collect::<Vec<_>>(), ["n2"]);
        assert!(overlay.leave("u", "n2", id(&overlay, "u", "n2")));
        assert!(overlay.of_pod("u").is_none() && overlay.of_pod("v").is_some());
    }

    #[test]
    fn a_bind_that_ends_late_leaves_alone_what_a_later_one_has_reserved() {
        let mut overlay = overlay(&[("u", "n1", 0)]);
        let first = id(&overlay, "u", "n1");
        assert_eq!(overlay.remove("u"), ["n1"]);
        add(&mut overlay, &[("u", "n1", 1)]);
        assert!(!overlay.leave("u", "n1", first) && !overlay.mark_unclear("u", "n1", first));
        assert!(overlay.of_pod("u").is_some());
    }

    #[test]
    fn the_cores_of_a_node_are_those_of_all_pods() {
        let mut overlay = overlay(&[("u", "n1", 0), ("u", "n2", 1), ("v", "n1", 2)]);
        assert_eq!(overlay.reserved_on("n1").all, CoreSet::run(0, 1).union(CoreSet::run(2, 1)));
        assert_eq!(overlay.reserved_on("n2").all, CoreSet::run(1, 1));
        assert_eq!(overlay.reserved_on("n3"), Reserved::default());
        let unclear = id(&overlay, "v", "n1");
        assert!(overlay.mark_unclear("v", "n1", unclear));
        assert!(overlay.has_unclear());
        assert_eq!(overlay.reserved_on("n1").clear, CoreSet::run(0, 1));
    }

    #[test]
    fn a_pod_that_was_seen_has_no_reservations() {
        let mut overlay = overlay(&[("u", "n1", 0), ("u", "n2", 1), ("v", "n1", 2)]);
        assert_eq!(overlay.remove("u"), ["n1", "n2"]);
        assert_eq!(overlay.remove("u"), [""; 0]);
        assert!(overlay.of_pod("u").is_none() && overlay.of_pod("v").is_some());
    }

    #[test]
    fn a_list_removes_what_is_older_than_itself_and_not_in_it() {
        let mut overlay = overlay(&[("u", "n1", 0), ("v", "n1", 2)]);
        overlay.list_begins();
        add(&mut overlay, &[("u", "n2", 1), ("w", "n1", 3)]);
        assert_eq!(overlay.remove_unlisted(|uid| uid == "v"), ["n1"]);
        assert_eq!(overlay.of_pod("u").unwrap().keys().collect::<Vec<_>>(), ["n2"]);
        assert!(overlay.of_pod("v").is_some() && overlay.of_pod("w").is_some());
        overlay.list_begins();
        assert_eq!(overlay.remove_unlisted(|_| false), ["n2", "n1", "n1"]);
        assert!(overlay.by_pod.is_empty());
    }
}
