//! Explanations of what mostly sets itself right: for a moment a pod's record, its node's report and kubelet's choice may
//! disagree, and nobody should be frightened by that. They are sent once they have held for a while.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use runtime::reached;
use tokio::time::Instant;

use crate::events::explain::Explanation;

/// What has been found about nodes and has not held long enough yet.
#[derive(Debug)]
pub(crate) struct Unsettled {
    /// How long an explanation must hold before it is sent.
    event_delay: Duration,
    /// Since when, and the node that must be looked at again, by the pod's UID and the explanation's key.
    found: BTreeMap<(String, u64), (Instant, String)>,
}

impl Unsettled {
    /// Nothing found yet.
    pub(crate) fn new(event_delay: Duration) -> Self {
        Self { event_delay, found: BTreeMap::new() }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.found.len()
    }

    /// Waits until something has held long enough; without end if nothing was found.
    pub(crate) async fn due(&self) {
        match self.found.values().map(|(since, _)| *since).min() {
            Some(since) => tokio::time::sleep_until(since + self.event_delay).await,
            None => std::future::pending().await,
        }
    }

    /// The nodes to look at again: what was found about them has held long enough, if it is still so.
    pub(crate) fn nodes_due(&self, now: Instant) -> impl Iterator<Item = String> {
        let due = self.found.values().filter(move |(since, _)| now >= *since + self.event_delay);
        due.map(|(_, node)| node.clone())
    }

    /// The explanations about a node that can be sent now. What was found about it before and no longer is has set itself right.
    pub(crate) fn settled(&mut self, node: &str, found: Vec<Explanation>, now: Instant) -> Vec<Explanation> {
        let key = |explanation: &Explanation| (explanation.uid.clone(), explanation.key());
        let still: BTreeSet<_> = found.iter().map(key).collect();
        self.found.retain(|key, (_, of)| {
            let stays = of != node || still.contains(key);
            if !stays {
                reached("extender: explanation no longer needed");
            }
            stays
        });
        let mut settled = Vec::new();
        for explanation in found {
            let key = key(&explanation);
            let (since, _) = self.found.entry(key.clone()).or_insert_with(|| (now, node.to_owned()));
            if now >= *since + self.event_delay {
                self.found.remove(&key);
                settled.push(explanation);
            }
        }
        settled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT_DELAY: Duration = Duration::from_secs(10);

    fn about(node: &str) -> Explanation {
        Explanation {
            uid: "u".into(),
            namespace: "default".into(),
            name: "p".into(),
            node: Some(node.into()),
            reason: "Reason",
            note: "Note.".into(),
        }
    }

    #[test]
    fn what_holds_is_sent_and_what_sets_itself_right_is_not() {
        let (start, n1) = (Instant::now(), "n1");
        let mut unsettled = Unsettled::new(EVENT_DELAY);
        assert_eq!(unsettled.settled(n1, vec![about("n1")], start), []);
        let almost = start + EVENT_DELAY - Duration::from_millis(1);
        assert_eq!(unsettled.nodes_due(almost).count(), 0);
        assert_eq!(unsettled.nodes_due(start + EVENT_DELAY).collect::<Vec<_>>(), ["n1"]);
        assert_eq!(unsettled.settled(n1, vec![about("n1")], start + EVENT_DELAY), [about("n1")]);

        assert_eq!(unsettled.settled(n1, vec![about("n1")], start), []);
        assert_eq!(unsettled.settled(n1, Vec::new(), almost), []);
        assert_eq!(unsettled.settled(n1, vec![about("n1")], start + EVENT_DELAY), []);
    }

    #[test]
    fn a_look_at_another_node_drops_nothing() {
        let start = Instant::now();
        let (n1, n2) = ("n1", "n2");
        let mut unsettled = Unsettled::new(EVENT_DELAY);
        assert_eq!(unsettled.settled(n1, vec![about("n1")], start), []);
        assert_eq!(unsettled.settled(n2, Vec::new(), start), []);
        assert_eq!(unsettled.settled(n1, vec![about("n1")], start + EVENT_DELAY).len(), 1);
    }
}
