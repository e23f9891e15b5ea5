//! Explanations that could not be sent, to be looked at again later: nothing else may ever be a reason to. Kept by
//! `events`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::events::explain::Explanation;

/// Longest wait before one is tried again.
const LONGEST_REST: Duration = Duration::from_secs(300);

/// What an explanation is about: the node whose books it is about, if there is one, and the pod's UID.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct About {
    node: Option<String>,
    uid: String,
}

/// What to look at again, and when.
#[derive(Debug)]
pub(crate) struct Unsent {
    /// The first wait; each failure doubles it.
    first_rest: Duration,
    /// When it is time, none while it is looked at, and the wait that led there.
    waits: BTreeMap<About, (Option<Instant>, Duration)>,
}

impl About {
    /// What this one is about.
    pub(crate) fn of(explanation: &Explanation) -> Self {
        Self { node: explanation.node.clone(), uid: explanation.uid.clone() }
    }
}

impl Unsent {
    /// Nothing yet.
    pub(crate) fn new(first_rest: Duration) -> Self {
        Self { first_rest, waits: BTreeMap::new() }
    }

    /// It was tried and failed: it waits longer each time, so that one that always fails holds up the others ever less.
    pub(crate) fn failed(&mut self, about: About, now: Instant) {
        let before = self.waits.get(&about).map(|(_, rest)| *rest);
        let rest = before.map_or(self.first_rest, |rest| (rest * 2).min(LONGEST_REST));
        self.waits.insert(about, (Some(now + rest), rest));
    }

    /// It was not tried, as another one had just failed.
    pub(crate) fn put_off(&mut self, about: About, now: Instant) {
        self.waits.entry(about).or_insert((None, self.first_rest)).0 = Some(now + self.first_rest);
    }

    /// It was sent, or never can be.
    pub(crate) fn done(&mut self, about: &About) {
        self.waits.remove(about);
    }

    /// Waits until it is time to look at something again; for ever if there is nothing.
    pub(crate) async fn ripe(&self) {
        match self.waits.values().filter_map(|(until, _)| *until).min() {
            Some(until) => tokio::time::sleep_until(until).await,
            None => std::future::pending().await,
        }
    }

    /// Adds what it is time for to what is looked at: it may have passed meanwhile.
    pub(crate) fn take(&mut self, now: Instant, nodes: &mut BTreeSet<String>, pods: &mut BTreeSet<String>) {
        for (About { node, uid }, (until, _)) in &mut self.waits {
            if until.take_if(|until| now >= *until).is_none() {
                continue;
            }
            match node {
                Some(node) => nodes.insert(node.clone()),
                None => pods.insert(uid.clone()),
            };
        }
    }

    /// Forgets the pods that are gone.
    pub(crate) fn retain(&mut self, exists: impl Fn(&str) -> bool) {
        self.waits.retain(|about, _| exists(&about.uid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: Duration = Duration::from_secs(10);

    fn about(node: Option<&str>, uid: &str) -> About {
        About { node: node.map(str::to_owned), uid: uid.to_owned() }
    }

    /// The nodes and pods to look at so much later.
    fn taken(unsent: &mut Unsent, at: Instant) -> String {
        let (mut nodes, mut pods) = (BTreeSet::new(), BTreeSet::new());
        unsent.take(at, &mut nodes, &mut pods);
        nodes.into_iter().chain(pods).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_failed_waits_twice_as_long_each_time_and_what_was_put_off_does_not() {
        let (start, mut unsent) = (Instant::now(), Unsent::new(REST));
        unsent.failed(about(None, "fails"), start);
        unsent.put_off(about(Some("n1"), "other"), start);
        assert_eq!(taken(&mut unsent, start + REST / 2), "");
        assert_eq!(taken(&mut unsent, start + REST), "n1 fails");
        unsent.failed(about(None, "fails"), start);
        unsent.put_off(about(Some("n1"), "other"), start);
        assert_eq!(taken(&mut unsent, start + REST), "n1");
        assert_eq!(taken(&mut unsent, start + REST * 2), "fails");
        assert_eq!(taken(&mut unsent, start + REST * 2), "", "it is looked at once");
    }

    #[test]
    fn what_was_sent_or_is_gone_is_forgotten() {
        let (start, mut unsent) = (Instant::now(), Unsent::new(REST));
        for uid in ["sent", "gone", "stays"] {
            unsent.failed(about(None, uid), start);
        }
        unsent.done(&about(None, "sent"));
        unsent.retain(|uid| uid != "gone");
        assert_eq!(taken(&mut unsent, start + REST), "stays");
    }
}
