//! Which device plugins live, by the Leases that they renew. Kept by the index, fed by the watch of Leases.
//!
//! A Lease's times are its plugin's clock, which may differ from this machine's: what counts is when a change of it was seen.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::Change;

/// What the watch shows of the Lease of a node's plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObservedLease {
    /// The node.
    pub(crate) node: String,
    /// When it was renewed, by the plugin's clock, as written.
    pub(crate) renewed: String,
    /// How long it lasts from then on.
    pub(crate) lasts: Duration,
}

/// The Leases of all nodes that have one.
#[derive(Debug, Default)]
pub(super) struct Leases {
    /// How long after its end a plugin still counts as living.
    pub(super) grace: Duration,
    by_node: BTreeMap<String, Seen>,
    is_disconnected: bool,
}

#[derive(Debug)]
struct Seen {
    lease: ObservedLease,
    /// When this renewal was seen first.
    at: Instant,
}

impl Leases {
    /// Takes in what the watch shows; the nodes whose Lease ends at another time now.
    pub(super) fn change(&mut self, change: Change<ObservedLease>, now: Instant) -> Vec<String> {
        match change {
            Change::ListBegins => Vec::new(),
            Change::Applied(lease) => {
                let node = lease.node.clone();
                self.apply(lease, now);
                vec![node]
            }
            Change::Gone(node) => {
                self.by_node.remove(&node);
                vec![node]
            }
            Change::Listed(leases) => {
                let before: Vec<String> = self.by_node.keys().cloned().collect();
                self.by_node.retain(|node, _| leases.iter().any(|lease| lease.node == *node));
                leases.into_iter().for_each(|lease| self.apply(lease, now));
                self.is_disconnected = false;
                self.by_node.keys().cloned().chain(before).collect()
            }
            // Renewals are not seen any more: nothing expires.
            Change::Disconnected => {
                self.is_disconnected = true;
                self.by_node.keys().cloned().collect()
            }
        }
    }

    /// When the plugin of the node counts as gone unless a renewal is seen; none without a Lease, or while renewals are not seen.
    pub(super) fn ends(&self, node: &str) -> Option<Instant> {
        let seen = self.by_node.get(node).filter(|_| !self.is_disconnected)?;
        Some(seen.at + seen.lease.lasts + self.grace)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.by_node.len()
    }

    fn apply(&mut self, lease: ObservedLease, now: Instant) {
        match self.by_node.get_mut(&lease.node) {
            Some(known) if known.lease.renewed == lease.renewed => known.lease = lease,
            _ => drop(self.by_node.insert(lease.node.clone(), Seen { lease, at: now })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(node: &str, renewed: &str) -> ObservedLease {
        let (node, renewed) = (node.to_owned(), renewed.to_owned());
        ObservedLease { node, renewed, lasts: Duration::from_secs(40) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_lasts_from_when_its_renewal_was_seen_first() {
        let (mut leases, begin) = (Leases::default(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        assert_eq!(leases.ends("n1"), None, "a node that never had one");
        // A clock that is a year behind renews all the same.
        leases.change(Change::Listed(vec![lease("n1", "2025"), lease("n2", "2025")]), at(0));
        leases.change(Change::Applied(lease("n1", "2025.1")), at(10));
        leases.change(Change::Applied(lease("n2", "2025")), at(10));
        assert_eq!((leases.ends("n1"), leases.ends("n2")), (Some(at(50)), Some(at(40))));
        leases.grace = Duration::from_secs(5);
        assert_eq!(leases.ends("n1"), Some(at(55)));
        leases.change(Change::Gone("n2".to_owned()), at(20));
        assert_eq!(leases.ends("n2"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_expires_while_renewals_are_not_seen() {
        let (mut leases, begin) = (Leases::default(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        leases.change(Change::Listed(vec![lease("n1", "a"), lease("n2", "a"), lease("n3", "a")]), at(0));
        leases.change(Change::Disconnected, at(10));
        assert_eq!(leases.ends("n1"), None);
        // Meanwhile n1 has renewed its own, n2 has not, and n3 is gone.
        let changed = leases.change(Change::Listed(vec![lease("n1", "b"), lease("n2", "a")]), at(100));
        assert!(["n1", "n2", "n3"].iter().all(|node| changed.iter().any(|one| one == node)), "{changed:?}");
        assert_eq!(leases.ends("n1"), Some(at(140)));
        assert_eq!(leases.ends("n2"), Some(at(40)));
        assert_eq!(leases.ends("n3"), None);
    }
}
