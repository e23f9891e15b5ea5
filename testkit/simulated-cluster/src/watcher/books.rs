//! What kubelets' books say: which container was given what hardware. Asked by whoever judges.

use fake_cluster::Kubelet;

use super::{Watcher, locked};
use crate::observer::{PodTruth, Truth};
use crate::suite::Books;
use crate::units::Units;

impl Watcher {
    /// A node's kubelet has started, whose books are looked at from now on.
    pub(crate) fn kubelet_starts(&self, node: &str, kubelet: Kubelet) {
        kubelet.ignore_preferences(locked(&self.preferences_ignored).contains(node));
        locked(&self.kubelets).insert(node.to_owned(), kubelet);
    }

    /// Has a node's kubelet, and those that come after it, give other ids than plugins prefer, or no longer. Whether it has one.
    pub(crate) fn ignore_preferences(&self, node: &str, ignore: bool) -> bool {
        let mut ignored = locked(&self.preferences_ignored);
        ignored.remove(node);
        let kubelets = locked(&self.kubelets);
        let Some(kubelet) = kubelets.get(node) else { return false };
        kubelet.ignore_preferences(ignore);
        if ignore {
            ignored.insert(node.to_owned());
        }
        true
    }

    /// What kubelet's books give each container of a node, by pod UID and name.
    pub(crate) fn books(&self, node: &str) -> Books {
        let mut books = Books::new();
        let Some(plan) = self.nodes.get(node) else { return books };
        let assignments = locked(&self.kubelets).get(node).map(Kubelet::assignments).unwrap_or_default();
        for given in assignments {
            let units = self.suite.units_of_ids(plan, &given.resource, &given.ids).unwrap_or_default();
            books.entry((given.pod_uid, given.container)).or_default().extend(units);
        }
        books
    }

    /// Whether kubelet's books name every container of the pod that asks for something. They may have lost what one had that has ended
    /// since, or that was started without: only the pod's record says it then.
    pub(crate) fn names_all_of(&self, pod: &PodTruth) -> bool {
        let books = self.books(&pod.node);
        pod.asking().all(|name| books.contains_key(&(pod.uid.clone(), name.to_owned())))
    }

    /// The units that pods of a node hold, but one: what their containers have that run, and what kubelet keeps for them until
    /// they end.
    pub(crate) fn held(&self, truth: &Truth, node: &str, but_for: &str) -> Units {
        let mut held = truth.held(node, but_for);
        let lives = |uid: &String| truth.pods.get(uid).is_some_and(|pod| !pod.has_ended());
        let kept = self.books(node).into_iter().filter(|((uid, _), _)| uid != but_for && lives(uid));
        held.extend(kept.flat_map(|(_, units)| units));
        held
    }
}
