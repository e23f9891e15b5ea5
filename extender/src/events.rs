//! Sends the explanations as events on pods, each once. Started by [`crate::serve`].

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{info, warn};

use crate::cluster::Cluster;
use crate::explain::{Explanation, about_nodes, about_waiting};
use crate::index::{Fresh, Index};
use crate::passing::Passing;

/// The API server refuses longer notes, in bytes.
const LONGEST_NOTE: usize = 1024;
/// How long changes are gathered before they are looked at: pods placed by the hundred a second are no reason to look
/// as often.
const GATHER: Duration = Duration::from_millis(100);
/// kube repeats refused requests for minutes; an event is not worth that.
const EVENT_DEADLINE: Duration = Duration::from_secs(10);

/// Sends explanations until the future is dropped; those about a node's books once they have held for `settles_in`, and
/// what could not be sent again after that time.
pub(crate) async fn explain(client: Client, cluster: Arc<Cluster>, settles_in: Duration) {
    let mut said: HashSet<(String, String)> = HashSet::new();
    let mut passing = Passing::new(settles_in);
    let mut unsent = Unsent::new(settles_in);
    loop {
        tokio::select! {
            () = cluster.changed() => {}
            () = passing.ripe() => {}
            () = unsent.ripe() => {}
        }
        sleep(GATHER).await;
        // Before the first lists a node may look empty and a pod unservable.
        if !cluster.is_listed() {
            continue;
        }
        let Fresh { mut nodes, mut pods, .. } = cluster.write(Index::take_fresh);
        let now = Instant::now();
        unsent.take(now, &mut nodes, &mut pods);
        nodes.extend(passing.nodes_to_look_at(now));
        let mut found = cluster.read(|index| about_nodes(index, &nodes));
        for uid in &pods {
            // One after the other: each is judged on every node, and calls that have come meanwhile do not wait for all.
            yield_now().await;
            found.extend(cluster.read(|index| about_waiting(index, uid)));
        }
        for explanation in passing.sift(&nodes, found, now) {
            let key = (explanation.uid.clone(), explanation.said_once());
            if said.contains(&key) {
                continue;
            }
            let about = (explanation.node.clone(), explanation.uid.clone());
            if send(&client, explanation).await {
                said.insert(key);
            } else {
                unsent.add(about);
            }
        }
        cluster.read(|index| said.retain(|(uid, _)| index.pod(uid).is_some()));
    }
}

/// What to look at again, as something about it could not be said: the API server or a webhook was away.
struct Unsent {
    /// After how long it is looked at again: nothing else may be a reason to.
    again_in: Duration,
    since: Option<Instant>,
    nodes: BTreeSet<String>,
    pods: BTreeSet<String>,
}

impl Unsent {
    fn new(again_in: Duration) -> Self {
        Self { again_in, since: None, nodes: BTreeSet::new(), pods: BTreeSet::new() }
    }

    /// An explanation about a node's books, if there is a node, else about a pod that waits.
    fn add(&mut self, about: (Option<String>, String)) {
        match about {
            (Some(node), _) => self.nodes.insert(node),
            (None, uid) => self.pods.insert(uid),
        };
        self.since.get_or_insert_with(Instant::now);
    }

    /// Waits until it is time to try again; for ever if there is nothing to say.
    async fn ripe(&self) {
        match self.since {
            Some(since) => sleep_until(since + self.again_in).await,
            None => std::future::pending().await,
        }
    }

    /// Adds it to what is looked at now, if it is time: it may have passed meanwhile.
    fn take(&mut self, now: Instant, nodes: &mut BTreeSet<String>, pods: &mut BTreeSet<String>) {
        if self.since.is_some_and(|since| now >= since + self.again_in) {
            self.since = None;
            nodes.append(&mut self.nodes);
            pods.append(&mut self.pods);
        }
    }
}

/// Whether it was sent.
async fn send(client: &Client, explanation: Explanation) -> bool {
    let Explanation { uid, namespace, name, reason, note, .. } = explanation;
    info!("event on pod {namespace}/{name}: {reason}: {note}");
    let pod = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(namespace.clone()),
        name: Some(name.clone()),
        uid: Some(uid),
        ..ObjectReference::default()
    };
    let event = Event {
        type_: EventType::Warning,
        reason: reason.to_owned(),
        note: Some(cut(note)),
        action: "Scheduling".to_owned(),
        secondary: None,
    };
    // A recorder of its own for each event: one that is shared counts events of one reason as repetitions of
    // the first and drops the later notes.
    let reporter = Reporter { controller: "neuron-extender".to_owned(), instance: None };
    let recorder = Recorder::new(client.clone(), reporter);
    match timeout(EVENT_DEADLINE, recorder.publish(&event, &pod)).await {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            warn!("the event on pod {namespace}/{name} could not be sent: {error}");
            false
        }
        Err(_) => {
            warn!("the event on pod {namespace}/{name} could not be sent in time");
            false
        }
    }
}

fn cut(mut note: String) -> String {
    if note.len() > LONGEST_NOTE {
        let mark = "...";
        let end =
            (0..=LONGEST_NOTE - mark.len()).rev().find(|&at| note.is_char_boundary(at)).unwrap_or_default();
        note.truncate(end);
        note.push_str(mark);
    }
    note
}
