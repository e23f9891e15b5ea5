//! Explains pods to their users by events, each sent once. Started by [`crate::serve`].

mod explain;
mod pending_events;
mod send;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kube::Client;
use runtime::{System, reached};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

use self::explain::{explain_nodes, explain_pending_pod};
use self::pending_events::{Retries, Subject, Unsettled};
use self::send::{Sent, send};
use crate::index::{Cluster, Index, Unexplained};

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
    /// Events that were sent.
    pub(crate) fn sent(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }

    /// Events that may not be needed, and those that could not be sent.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

/// Sends events until the future is dropped. Those about a node's holders are sent once they have held for `event_delay`;
/// what could not be sent is tried again after as long, and ever later.
pub(crate) async fn explain(
    system: System,
    client: Client,
    cluster: Arc<Cluster>,
    event_delay: Duration,
    sizes: Arc<EventSizes>,
) {
    // Each is known by the pod's UID and the explanation's key.
    let mut sent: BTreeSet<(String, String)> = BTreeSet::new();
    let mut unsettled = Unsettled::new(event_delay);
    let mut retries = Retries::new(event_delay);
    loop {
        tokio::select! {
            // Whichever it is, everything is looked at below: none can keep another waiting.
            biased;
            () = cluster.changed() => {}
            () = unsettled.due() => {}
            () = retries.due() => {}
        }
        sleep(GATHER).await;
        // Before the first lists a node may look empty, and a pod as if nothing could serve it.
        if !cluster.is_listed() {
            continue;
        }
        let Unexplained { mut nodes, mut pods, .. } = cluster.write(Index::take_unexplained);
        let now = Instant::now();
        retries.take_due(now, &mut nodes, &mut pods);
        nodes.extend(unsettled.nodes_due(now));
        let mut found = cluster.read(|index| explain_nodes(index, &nodes));
        for uid in &pods {
            // One pod after the other: each is checked on every node, and calls that have come meanwhile do not wait for
            // all of them.
            yield_now().await;
            found.extend(cluster.read(|index| explain_pending_pod(index, uid)));
        }
        let mut is_api_server_away = false;
        for explanation in unsettled.settled(&nodes, found, now) {
            let key = (explanation.uid.clone(), explanation.sent_once_by());
            if sent.contains(&key) {
                continue;
            }
            let subject = Subject::of(&explanation);
            // A send without an answer is most likely followed by another, and each may take until its timeout.
            if is_api_server_away {
                reached("extender: event put off");
                retries.put_off(subject, Instant::now());
                continue;
            }
            match send(&system, &client, explanation).await {
                Sent::Yes => {
                    sent.insert(key);
                    retries.remove(&subject);
                }
                Sent::Refused => {
                    reached("extender: event refused");
                    retries.remove(&subject);
                }
                Sent::NotAnswered => {
                    reached("extender: event not answered");
                    is_api_server_away = true;
                    retries.failed(subject, Instant::now());
                }
            }
        }
        // Planted: whoever waits is told so again and again.
        #[cfg(planted)]
        if runtime::is_planted("explains-without-end") {
            let told = std::mem::take(&mut sent);
            cluster.write(|index| index.explain_again(told.into_iter().map(|(uid, _)| uid)));
        }
        cluster.read(|index| {
            sent.retain(|(uid, _)| index.pod(uid).is_some());
            retries.retain(|uid| index.pod(uid).is_some());
        });
        sizes.sent.store(sent.len(), Ordering::Relaxed);
        sizes.waiting.store(unsettled.len() + retries.len(), Ordering::Relaxed);
    }
}
