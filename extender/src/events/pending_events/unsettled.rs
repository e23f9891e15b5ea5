//! Explanations of what mostly passes by itself: for a moment a pod's record, its node's report and kubelet's choice may
//! disagree, and nobody should be frightened by that. Kept by `events` until they have held long enough.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use crate::events::explain::Explanation;

/// What has been found about nodes and not said yet.
#[derive(Debug)]
pub(crate) struct Passing {
    /// How long it must hold before it is said.
    settles_in: Duration,
    /// By the pod's UID and the note: since when, and the node that must be looked at again.
    found: HashMap<(String, String), (Instant, String)>,
}

impl Passing {
    /// Nothing found yet.
    pub(crate) fn new(settles_in: Duration) -> Self {
        Self { settles_in, found: HashMap::new() }
    }

    /// Waits until something has held long enough; for ever if nothing was found.
    pub(crate) async fn ripe(&self) {
        match self.found.values().map(|(since, _)| *since).min() {
            Some(since) => tokio::time::sleep_until(since + self.settles_in).await,
            None => std::future::pending().await,
        }
    }

    /// The nodes to look at again, as something about them has held long enough if it is still so.
    pub(crate) fn nodes_to_look_at(&self, now: Instant) -> impl Iterator<Item = String> {
        let ripe = self.found.values().filter(move |(since, _)| now >= *since + self.settles_in);
        ripe.map(|(_, node)| node.clone())
    }

    /// Of what was found looking at `nodes`, what can be said now. What was found there before and no longer is has
    /// passed.
    pub(crate) fn sift(
        &mut self,
        nodes: &BTreeSet<String>,
        found: Vec<Explanation>,
        now: Instant,
    ) -> Vec<Explanation> {
        let key = |explanation: &Explanation| (explanation.uid.clone(), explanation.note.clone());
        let still: BTreeSet<_> = found.iter().map(key).collect();
        self.found.retain(|key, (_, node)| !nodes.contains(node) || still.contains(key));
        let mut sayable = Vec::new();
        for explanation in found {
            let Some(node) = explanation.node.clone() else {
                sayable.push(explanation);
                continue;
            };
            let key = key(&explanation);
            let (since, _) = self.found.entry(key.clone()).or_insert((now, node));
            if now >= *since + self.settles_in {
                self.found.remove(&key);
                sayable.push(explanation);
            }
        }
        sayable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTLES_IN: Duration = Duration::from_secs(10);

    fn about(node: Option<&str>) -> Explanation {
        Explanation {
            uid: "u".into(),
            namespace: "default".into(),
            name: "p".into(),
            node: node.map(str::to_owned),
            reason: "Reason",
            note: "Note.".into(),
        }
    }

    #[test]
    fn what_holds_is_said_and_what_passes_is_not() {
        let (start, n1) = (Instant::now(), BTreeSet::from(["n1".to_owned()]));
        let mut passing = Passing::new(SETTLES_IN);
        assert_eq!(passing.sift(&n1, vec![about(Some("n1"))], start), []);
        let almost = start + SETTLES_IN - Duration::from_millis(1);
        assert_eq!(passing.nodes_to_look_at(almost).count(), 0);
        assert_eq!(passing.nodes_to_look_at(start + SETTLES_IN).collect::<Vec<_>>(), ["n1"]);
        assert_eq!(passing.sift(&n1, vec![about(Some("n1"))], start + SETTLES_IN), [about(Some("n1"))]);

        assert_eq!(passing.sift(&n1, vec![about(Some("n1"))], start), []);
        assert_eq!(passing.sift(&n1, Vec::new(), almost), []);
        assert_eq!(passing.sift(&n1, vec![about(Some("n1"))], start + SETTLES_IN), []);
    }

    #[test]
    fn a_look_at_another_node_lets_nothing_pass() {
        let start = Instant::now();
        let (n1, n2) = (BTreeSet::from(["n1".to_owned()]), BTreeSet::from(["n2".to_owned()]));
        let mut passing = Passing::new(SETTLES_IN);
        assert_eq!(passing.sift(&n1, vec![about(Some("n1"))], start), []);
        assert_eq!(passing.sift(&n2, Vec::new(), start), []);
        assert_eq!(passing.sift(&n1, vec![about(Some("n1"))], start + SETTLES_IN).len(), 1);
    }

    #[test]
    fn why_a_pod_waits_is_said_at_once() {
        let mut passing = Passing::new(SETTLES_IN);
        let now = Instant::now();
        assert_eq!(passing.sift(&BTreeSet::new(), vec![about(None)], now), [about(None)]);
    }
}
