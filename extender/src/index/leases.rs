//! Which device plugins live, by the Leases that they renew. Kept by the index, fed by the watch of Leases.
//!
//! A Lease's times are its plugin's clock, which may differ from this machine's: what counts is when a change of it was seen. Only of one
//! that nobody has looked at before the clocks say whether it is long over.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use runtime::reached;
use tokio::time::Instant;

use super::{Change, Index, NodeRefusal, NodeView, Watched};

/// A watch on which nothing was heard for so long, not even that it ends, may lead nowhere. Its watches last for 20 s
/// ([`crate::watches`]), and a plugin renews its Lease of 40 s every 10 s: that its renewals are not seen is noticed before the last one
/// that was is over.
const SILENCE: Duration = Duration::from_secs(25);

/// How far a plugin's clock may be from this machine's before a Lease counts as over that is not. Its next renewal, within ten seconds, ends
/// that in any case.
const CLOCKS_APART: Duration = Duration::from_secs(300);

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
    /// Whether they are watched.
    pub(super) is_followed: bool,
    /// How long after its end a plugin still counts as living.
    pub(super) grace: Duration,
    by_node: BTreeMap<String, Seen>,
    /// How far the watch of Leases has come.
    pub(super) watch: Watched,
    /// When the watch was last heard before it was disconnected: renewals up to then were seen. None while it is connected.
    heard_until: Option<Instant>,
}

#[derive(Debug)]
struct Seen {
    lease: ObservedLease,
    /// When this renewal was seen first.
    at: Instant,
    /// When its plugin began to count as gone, kept where that was before the watch broke or long before the Lease was first seen. Only a
    /// renewal clears it.
    over_since: Option<Instant>,
}

impl Leases {
    /// Takes in what the watch shows, at this time; the nodes whose plugin counts as gone at another time now.
    pub(super) fn change(
        &mut self,
        change: Change<ObservedLease>,
        now: Instant,
        time: SystemTime,
    ) -> Vec<String> {
        match change {
            Change::ListBegins => Vec::new(),
            Change::Applied(lease) => {
                let node = lease.node.clone();
                self.apply(lease, now, None);
                vec![node]
            }
            Change::Gone(node) => {
                self.by_node.remove(&node);
                vec![node]
            }
            // A list after a disconnection gives each Lease its whole time again, except those that were over before: nobody saw, or could
            // send, renewals meanwhile.
            Change::Listed(leases) => {
                let mut before = std::mem::take(&mut self.by_node);
                self.heard_until = None;
                // The list may be taken in a little after it was heard, and the watch break in between.
                let over_since = self.watch.gap.heard_at().map_or(now, |heard| heard.min(now));
                if self.watch.complete_list() {
                    reached("extender: leases listed again");
                    before.values_mut().for_each(|seen| seen.at = now);
                }
                for lease in leases {
                    let seen = before.remove(&lease.node);
                    let is_over = seen.is_none() && lease.is_long_over(self.grace, time);
                    if let Some(seen) = seen {
                        self.by_node.insert(lease.node.clone(), seen);
                    }
                    self.apply(lease, now, is_over.then_some(over_since));
                }
                self.by_node.keys().cloned().chain(before.into_keys()).collect()
            }
            Change::Disconnected => {
                reached("extender: lease watch disconnected");
                if self.watch.disconnected.is_none() {
                    self.keep_over(self.watch.gap.heard_at().unwrap_or(now));
                }
                self.watch.disconnect();
                Vec::new()
            }
        }
    }

    /// Marks the Leases that were over when the watch was last heard, so that the next list does not give them time again.
    fn keep_over(&mut self, heard_until: Instant) {
        self.heard_until = Some(heard_until);
        let grace = self.grace;
        for seen in self.by_node.values_mut().filter(|seen| seen.over_since.is_none()) {
            seen.over_since = seen.ends(grace).filter(|end| *end <= heard_until);
        }
    }

    /// When the plugin of the node counts as gone unless a renewal is seen; none without a Lease.
    pub(super) fn ends(&self, node: &str) -> Option<Instant> {
        self.by_node.get(node)?.ends(self.grace)
    }

    /// Until when renewals would have been seen if there were any, at most now; none before the first list. By the watch, not by what it
    /// tells: where all plugins of a namespace are dead nothing is renewed there.
    pub(super) fn seen_until(&self, now: Instant) -> Option<Instant> {
        let heard_at = self.watch.gap.heard_at()?;
        if !self.watch.is_listed {
            return None;
        }
        let is_heard = self.watch.is_connected() && now < heard_at + SILENCE;
        Some(if is_heard { now } else { self.heard_until.unwrap_or(heard_at) })
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.by_node.len()
    }

    fn apply(&mut self, lease: ObservedLease, now: Instant, over_since: Option<Instant>) {
        match self.by_node.get_mut(&lease.node) {
            Some(known) if known.lease.renewed == lease.renewed => known.lease = lease,
            _ => drop(self.by_node.insert(lease.node.clone(), Seen { lease, at: now, over_since })),
        }
    }
}

impl Seen {
    fn ends(&self, grace: Duration) -> Option<Instant> {
        self.over_since.or_else(|| self.at.checked_add(self.lease.lasts.checked_add(grace)?))
    }
}

impl ObservedLease {
    /// Whether it was over, and the grace after it, long before this time, even if the plugin's clock is behind.
    fn is_long_over(&self, grace: Duration, time: SystemTime) -> bool {
        let Ok(renewed) = self.renewed.parse::<Timestamp>() else { return false };
        let end = self.lasts.checked_add(grace).and_then(|lasts| lasts.checked_add(CLOCKS_APART));
        let end = end.and_then(|lasts| SystemTime::from(renewed).checked_add(lasts));
        end.is_some_and(|end| end < time)
    }
}

impl Index {
    /// This index, by which plugins count as living for so long after the end of their Lease; none: Leases are not looked at.
    pub(crate) fn with_lease_grace(mut self, grace: Option<Duration>) -> Self {
        self.leases.is_followed = grace.is_some();
        self.leases.grace = grace.unwrap_or_default();
        self
    }

    /// Takes in what the watch of the plugins' Leases shows, at this time.
    pub(crate) fn change_leases(&mut self, change: Change<ObservedLease>, now: Instant, time: SystemTime) {
        for node in self.leases.change(change, now, time) {
            let ends = self.leases.ends(&node);
            if let Some(view) = self.views.get_mut(&node) {
                view.lease_ends = ends;
            }
        }
    }

    /// Until when renewals of the plugins' Leases would have been seen, at most now; none before the first list.
    pub(crate) fn leases_seen_until(&self, now: Instant) -> Option<Instant> {
        self.leases.seen_until(now)
    }

    /// Whether the node's plugin renews its Lease, as far as that is seen. A node without one is served.
    ///
    /// # Errors
    /// It does not.
    pub(crate) fn has_a_living_plugin(&self, view: &NodeView) -> Result<(), NodeRefusal> {
        view.has_a_living_plugin(self.leases_seen_until(Instant::now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(node: &str, renewed: &str) -> ObservedLease {
        let (node, renewed) = (node.to_owned(), renewed.to_owned());
        ObservedLease { node, renewed, lasts: Duration::from_secs(40) }
    }

    fn change(leases: &mut Leases, change: Change<ObservedLease>, now: Instant) -> Vec<String> {
        leases.change(change, now, "2025-01-01T01:00:00Z".parse::<Timestamp>().unwrap().into())
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_lasts_from_when_its_renewal_was_seen_first() {
        let (mut leases, begin) = (Leases::default(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        assert_eq!(leases.ends("n1"), None, "a node that never had one");
        // A clock that is a year behind renews all the same.
        change(&mut leases, Change::Listed(vec![lease("n1", "2025"), lease("n2", "2025")]), at(0));
        change(&mut leases, Change::Applied(lease("n1", "2025.1")), at(10));
        change(&mut leases, Change::Applied(lease("n2", "2025")), at(10));
        assert_eq!((leases.ends("n1"), leases.ends("n2")), (Some(at(50)), Some(at(40))));
        leases.grace = Duration::from_secs(5);
        assert_eq!(leases.ends("n1"), Some(at(55)));
        leases.grace = Duration::MAX;
        assert_eq!(leases.ends("n1"), None, "never");
        leases.grace = Duration::ZERO;
        // A list that follows a watch which has just ended is one more look.
        change(&mut leases, Change::Listed(vec![lease("n1", "2025.1"), lease("n2", "2025")]), at(15));
        assert_eq!((leases.ends("n1"), leases.ends("n2")), (Some(at(50)), Some(at(40))));
        change(&mut leases, Change::Gone("n2".to_owned()), at(20));
        assert_eq!(leases.ends("n2"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_was_long_over_when_it_was_seen_first_is_over_until_it_is_renewed() {
        let (mut leases, begin) = (Leases::default(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        leases.grace = Duration::from_secs(20);
        // Over for six minutes; and for less than clocks may be apart.
        let listed = vec![lease("n1", "2025-01-01T00:53:00Z"), lease("n2", "2025-01-01T00:54:30Z")];
        change(&mut leases, Change::Listed(listed.clone()), at(0));
        assert_eq!((leases.ends("n1"), leases.ends("n2")), (Some(at(0)), Some(at(60))));
        // A list after the watch was cut says no more of it, nor where nothing was heard between the two.
        leases.watch.gap.heard();
        change(&mut leases, Change::Disconnected, at(10));
        change(&mut leases, Change::Listed(listed), at(20));
        assert_eq!((leases.ends("n1"), leases.ends("n2")), (Some(at(0)), Some(at(80))));
        // By a clock that is behind.
        change(&mut leases, Change::Applied(lease("n1", "2025-01-01T00:53:10Z")), at(30));
        assert_eq!(leases.ends("n1"), Some(at(90)));
        leases.grace = Duration::MAX;
        change(&mut leases, Change::Listed(vec![lease("n3", "2001-01-01T00:00:00Z")]), at(40));
        assert_eq!(leases.ends("n3"), None, "never");
    }

    /// The index takes a list in a little after its last page was heard.
    #[tokio::test(start_paused = true)]
    async fn a_lease_that_was_long_over_is_so_though_the_watch_breaks_before_it_is_heard() {
        let (mut leases, began) = (Leases::default(), Instant::now());
        leases.watch.gap.heard();
        let taken_in = began + Duration::from_millis(1);
        change(&mut leases, Change::Listed(vec![lease("n1", "2024-01-01T00:00:00Z")]), taken_in);
        change(&mut leases, Change::Disconnected, taken_in);
        assert!(leases.seen_until(taken_in) >= leases.ends("n1"), "{leases:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn renewals_are_seen_while_the_watch_is_heard_whatever_it_tells() {
        let (mut leases, begin) = (Leases::default(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        leases.watch.gap.heard();
        let seen_until = |leases: &Leases, seconds| leases.seen_until(at(seconds));
        assert_eq!(seen_until(&leases, 0), None, "they have not been listed");
        change(&mut leases, Change::Listed(vec![lease("n1", "a")]), at(0));
        assert_eq!(seen_until(&leases, 24), Some(at(24)));
        assert_eq!(seen_until(&leases, 25), Some(at(0)), "it may lead nowhere");
        // A bookmark, after a minute in which nobody renewed anything.
        tokio::time::advance(Duration::from_secs(60)).await;
        leases.watch.gap.heard();
        assert_eq!(seen_until(&leases, 84), Some(at(84)));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_expires_while_renewals_are_not_seen() {
        let (mut leases, begin) = (Leases::default(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        leases.watch.gap.heard();
        change(
            &mut leases,
            Change::Listed(vec![lease("n1", "a"), lease("n2", "a"), lease("n3", "a")]),
            at(0),
        );
        assert_eq!(leases.seen_until(at(10)), Some(at(10)));
        change(&mut leases, Change::Disconnected, at(10));
        assert_eq!(leases.seen_until(at(10)), Some(at(0)), "when the watch was heard");
        // n3 is gone; that n2 has not renewed its own may be for the same reason for which nothing was seen.
        let changed = change(&mut leases, Change::Listed(vec![lease("n1", "b"), lease("n2", "a")]), at(100));
        assert!(["n1", "n2", "n3"].iter().all(|node| changed.iter().any(|one| one == node)), "{changed:?}");
        assert_eq!((leases.ends("n1"), leases.ends("n2")), (Some(at(140)), Some(at(140))));
        assert_eq!(leases.ends("n3"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_over_before_the_watch_broke_is_over_meanwhile_and_after_it() {
        let mut leases = Leases::default();
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        assert_eq!(leases.seen_until(at(0)), None, "they have not been listed");
        change(
            &mut leases,
            Change::Listed(vec![lease("n1", "a"), lease("n2", "a"), lease("n3", "a")]),
            at(0),
        );
        tokio::time::advance(Duration::from_secs(60)).await;
        leases.watch.gap.heard();
        change(&mut leases, Change::Applied(lease("n2", "b")), at(60));
        assert_eq!(leases.seen_until(at(61)), Some(at(61)));
        tokio::time::advance(Duration::from_secs(60)).await;
        // Twice, and a page of a list between: what the first said of renewals counts.
        change(&mut leases, Change::Disconnected, at(70));
        leases.watch.gap.heard();
        change(&mut leases, Change::Disconnected, at(120));
        assert_eq!(leases.seen_until(at(121)), Some(at(60)), "n2 may have renewed its own since");
        assert_eq!((leases.ends("n1"), leases.ends("n2")), (Some(at(40)), Some(at(100))));
        let listed = vec![lease("n1", "a"), lease("n2", "b"), lease("n3", "b")];
        change(&mut leases, Change::Listed(listed), at(130));
        assert_eq!((leases.ends("n1"), leases.ends("n2")), (Some(at(40)), Some(at(170))));
        assert_eq!(leases.ends("n3"), Some(at(170)), "it has been renewed");
    }
}
