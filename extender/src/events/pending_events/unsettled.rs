//! Explanations of what mostly sets itself right: for a moment a pod's record, its node's report and kubelet's choice may
//! disagree, and nobody should be frightened by that. They are sent once they have held for a while.

use std::collections::BTreeMap;
use std::time::Duration;

use runtime::reached;
use tokio::time::Instant;

use crate::events::explain::Explanation;

/// What has been found about nodes.
#[derive(Debug)]
pub(crate) struct Unsettled {
    /// How long an explanation must hold before it is sent.
    event_delay: Duration,
    /// By the node that it is about.
    found: BTreeMap<String, OfNode>,
}

/// Since when each explanation holds, by the pod's UID and the explanation's key; none once it has held for long enough.
type OfNode = BTreeMap<(String, u64), Option<Instant>>;

impl Unsettled {
    /// Nothing found yet.
    pub(crate) fn new(event_delay: Duration) -> Self {
        Self { event_delay, found: BTreeMap::new() }
    }

    /// How many have not held long enough yet.
    pub(crate) fn len(&self) -> usize {
        self.waiting().count()
    }

    /// Waits until something has held long enough; without end if nothing waits for that.
    pub(crate) async fn due(&self) {
        match self.waiting().map(|(_, since)| since).min() {
            Some(since) => tokio::time::sleep_until(since + self.event_delay).await,
            None => std::future::pending().await,
        }
    }

    /// The nodes to look at again: what was found about them has held long enough, if it is still so.
    pub(crate) fn nodes_due(&self, now: Instant) -> impl Iterator<Item = String> {
        let due = self.waiting().filter(move |(_, since)| now >= *since + self.event_delay);
        due.map(|(node, _)| node.clone())
    }

    /// The explanations about a node that can be sent now, also those that were sent. What was found about it before and no longer is has set
    /// itself right.
    pub(crate) fn settled(&mut self, node: &str, found: Vec<Explanation>, now: Instant) -> Vec<Explanation> {
        let mut before = self.found.remove(node).unwrap_or_default();
        let (mut still, mut settled) = (OfNode::new(), Vec::new());
        for explanation in found {
            let key = (explanation.uid.clone(), explanation.key());
            let since = before.remove(&key).unwrap_or(Some(now));
            let since = since.filter(|since| now < *since + self.event_delay);
            if since.is_none() {
                settled.push(explanation);
            }
            still.insert(key, since);
        }
        if before.values().any(Option::is_some) {
            reached("extender: explanation no longer needed");
        }
        if !still.is_empty() {
            self.found.insert(node.to_owned(), still);
        }
        settled
    }

    /// The nodes of what has not held long enough yet, and since when it holds.
    fn waiting(&self) -> impl Iterator<Item = (&String, Instant)> {
        self.found
            .iter()
            .flat_map(|(node, found)| found.values().filter_map(move |since| Some((node, (*since)?))))
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
        // It may not have been sent, as for the rate.
        assert_eq!(unsettled.settled(n1, vec![about("n1")], start + EVENT_DELAY), [about("n1")]);
        assert_eq!((unsettled.len(), unsettled.nodes_due(start + 2 * EVENT_DELAY).count()), (0, 0));
        assert_eq!(unsettled.settled(n1, Vec::new(), start + EVENT_DELAY), []);

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
