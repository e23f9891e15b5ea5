//! Explains pods to their users by events, each sent once. Started by [`crate::serve`].

mod explain;
mod freeing;
mod outbox;
mod pending_events;
mod rate;
mod send;
#[cfg(test)]
mod tests;
mod told;
mod waiting;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kube::Client;
use runtime::System;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

use self::explain::explain_node;
use self::outbox::Outbox;
use self::pending_events::{Subject, Unsettled};
use self::waiting::Answers;
use crate::index::{Audience, Cluster, Index, Unexplained};
use crate::leadership::Leadership;

/// How long changes are gathered before they are looked at: pods placed by the hundred a second are no reason to look
/// as often.
const GATHER: Duration = Duration::from_millis(100);

/// How much the explainer remembers, as of its last look.
#[derive(Debug, Default)]
pub(crate) struct EventSizes {
    sent: AtomicUsize,
    waiting: AtomicUsize,
}

impl EventSizes {
    /// They are these now.
    fn of(&self, unsettled: &Unsettled, outbox: &Outbox) {
        self.sent.store(outbox.told(), Ordering::Relaxed);
        self.waiting.store(unsettled.len() + outbox.retries.len(), Ordering::Relaxed);
    }

    /// Events that were sent.
    pub(crate) fn sent(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }

    /// Events that may not be needed, and those that could not be sent.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

/// Sends events until the future is dropped, while this extender leads. Those about a node's holders are sent once they have held
/// for `event_delay`; what could not be sent is tried again after as long, and ever later. One is sent before the next is made, so
/// that many that wait take no memory.
pub(crate) async fn explain(
    system: System,
    client: Client,
    cluster: Arc<Cluster>,
    leadership: Arc<Leadership>,
    event_delay: Duration,
    sizes: Arc<EventSizes>,
) {
    let mut unsettled = Unsettled::new(event_delay);
    let mut outbox = Outbox::new(system, client, event_delay);
    loop {
        if !leadership.leads() {
            // The leader tells it. What is so then is looked at once this one leads, as if for the first time.
            unsettled = Unsettled::new(event_delay);
            outbox.retries.retain(|_| false);
            let _told_by_another = cluster.write(Index::take_unexplained);
            outbox.end(&cluster);
            sizes.of(&unsettled, &outbox);
            let changed = async {
                cluster.changed().await;
                sleep(GATHER).await;
            };
            tokio::select! {
                // However much changes: what was let go is looked at by nobody else.
                biased;
                () = leadership.leads_at_last() => cluster.write(Index::explain_all),
                () = changed => continue,
            }
        }
        tokio::select! {
            // Whichever it is, everything is looked at below: none can keep another waiting.
            biased;
            () = cluster.changed() => {}
            () = unsettled.due() => {}
            () = outbox.retries.due() => {}
        }
        sleep(GATHER).await;
        // Waiting may have lasted longer than the lead.
        if !leadership.leads() {
            continue;
        }
        // Before the first lists a node may look empty, and a pod as if nothing could serve it.
        if !cluster.is_listed() {
            continue;
        }
        let Unexplained { mut nodes, mut pods, .. } = cluster.write(Index::take_unexplained);
        let now = Instant::now();
        outbox.retries.take_due(now, &mut nodes, &mut pods);
        nodes.extend(unsettled.nodes_due(now));
        outbox.begin();
        for node in &nodes {
            // As below: a leader begins with all of them.
            yield_now().await;
            let found = cluster.read(|index| explain_node(index, node));
            for explanation in unsettled.settled(node, found, Instant::now()) {
                let (subject, key) = (Subject::of(&explanation), explanation.key());
                let audience = Audience::Pod(explanation.uid.clone());
                outbox.offer(subject, audience, key, || Some(explanation)).await;
            }
        }
        let mut answers = Answers::default();
        for uid in &pods {
            // One pod after the other: each is checked on every node, and calls that have come meanwhile do not wait for
            // all of them.
            yield_now().await;
            let subject = Subject::waiting(uid);
            let Some((audience, reason)) = answers.of(&cluster, uid).await else {
                outbox.retries.remove(&subject);
                continue;
            };
            let make = || cluster.read(|index| Some(reason.explanation(index, index.unschedulable(uid)?)));
            if outbox.offer(subject, audience, reason.key(), make).await {
                answers = Answers::default();
            }
        }
        outbox.end(&cluster);
        sizes.of(&unsettled, &outbox);
    }
}
