//! The pods and nodes whose explanations could not be sent, to be looked at again later. A pod may see no other change that
//! would have it looked at again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use runtime::reached;
use tokio::time::Instant;

use crate::events::explain::Explanation;

/// Longest wait before one is tried again.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// What an explanation is about: the node whose holders it is about, if there is one, and the pod's UID.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Subject {
    node: Option<String>,
    uid: String,
}

/// What to look at again, and when.
#[derive(Debug)]
pub(crate) struct Retries {
    /// The first wait; each failure doubles it.
    first_wait: Duration,
    /// When to look, none while it is looked at, and the wait that led there.
    waits: BTreeMap<Subject, (Option<Instant>, Duration)>,
}

impl Subject {
    /// Why a pod waits.
    pub(crate) fn waiting(uid: &str) -> Self {
        Self { node: None, uid: uid.to_owned() }
    }

    /// What the explanation is about.
    pub(crate) fn of(explanation: &Explanation) -> Self {
        Self { node: explanation.node.clone(), uid: explanation.uid.clone() }
    }
}

impl Retries {
    /// Nothing yet.
    pub(crate) fn new(first_wait: Duration) -> Self {
        Self { first_wait, waits: BTreeMap::new() }
    }

    /// It could not be sent. It waits twice as long each time, so that one that always fails delays the others less each time.
    pub(crate) fn failed(&mut self, subject: Subject, now: Instant) {
        let before = self.waits.get(&subject).map(|(_, wait)| *wait);
        let wait = before.map_or(self.first_wait, |wait| (wait * 2).min(LONGEST_WAIT));
        self.waits.insert(subject, (Some(now + wait), wait));
    }

    /// It was not tried, as another one had just not been answered.
    pub(crate) fn put_off(&mut self, subject: Subject, now: Instant) {
        self.hold_back(subject, now + self.first_wait);
    }

    /// It may not be sent until then.
    pub(crate) fn hold_back(&mut self, subject: Subject, until: Instant) {
        self.waits.entry(subject).or_insert((None, self.first_wait)).0 = Some(until);
    }

    /// Whether it is to be looked at only later.
    pub(crate) fn is_later(&self, subject: &Subject, now: Instant) -> bool {
        self.waits.get(subject).and_then(|(until, _)| *until).is_some_and(|until| now < until)
    }

    /// It was sent, or never can be.
    pub(crate) fn remove(&mut self, subject: &Subject) {
        self.waits.remove(subject);
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.waits.len()
    }

    /// Waits until there is something to look at again; without end if there is nothing.
    pub(crate) async fn due(&self) {
        match self.waits.values().filter_map(|(until, _)| *until).min() {
            Some(until) => tokio::time::sleep_until(until).await,
            None => std::future::pending().await,
        }
    }

    /// Adds what is due to what is looked at; it may have set itself right meanwhile.
    pub(crate) fn take_due(
        &mut self,
        now: Instant,
        nodes: &mut BTreeSet<String>,
        pods: &mut BTreeSet<String>,
    ) {
        for (Subject { node, uid }, (until, _)) in &mut self.waits {
            if until.take_if(|until| now >= *until).is_none() {
                continue;
            }
            reached("extender: explanation tried again");
            match node {
                Some(node) => nodes.insert(node.clone()),
                None => pods.insert(uid.clone()),
            };
        }
    }

    /// Forgets the pods that are gone.
    pub(crate) fn retain(&mut self, exists: impl Fn(&str) -> bool) {
        self.waits.retain(|subject, _| exists(&subject.uid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(10);

    fn subject(node: Option<&str>, uid: &str) -> Subject {
        Subject { node: node.map(str::to_owned), uid: uid.to_owned() }
    }

    /// The nodes and pods to look at so much later.
    fn taken(retries: &mut Retries, at: Instant) -> String {
        let (mut nodes, mut pods) = (BTreeSet::new(), BTreeSet::new());
        retries.take_due(at, &mut nodes, &mut pods);
        nodes.into_iter().chain(pods).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_failed_waits_twice_as_long_each_time_and_what_was_put_off_does_not() {
        let (start, mut retries) = (Instant::now(), Retries::new(WAIT));
        retries.failed(subject(None, "fails"), start);
        retries.put_off(subject(Some("n1"), "other"), start);
        assert_eq!(taken(&mut retries, start + WAIT / 2), "");
        assert_eq!(taken(&mut retries, start + WAIT), "n1 fails");
        retries.failed(subject(None, "fails"), start);
        retries.put_off(subject(Some("n1"), "other"), start);
        assert_eq!(taken(&mut retries, start + WAIT), "n1");
        assert_eq!(taken(&mut retries, start + WAIT * 2), "fails");
        assert_eq!(taken(&mut retries, start + WAIT * 2), "", "it is looked at once");
    }

    #[test]
    fn what_was_sent_or_is_gone_is_forgotten() {
        let (start, mut retries) = (Instant::now(), Retries::new(WAIT));
        for uid in ["sent", "gone", "stays"] {
            retries.failed(subject(None, uid), start);
        }
        retries.remove(&subject(None, "sent"));
        retries.retain(|uid| uid != "gone");
        assert_eq!(taken(&mut retries, start + WAIT), "stays");
    }
}
