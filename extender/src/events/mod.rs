//! Sends the explanations as events on pods, each once. Started by [`crate::serve`].

mod explain;
mod pending_events;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use self::explain::{Explanation, about_nodes, about_waiting};
use self::pending_events::{About, Passing, Unsent};
use crate::index::{Cluster, Fresh, Index};

/// The API server refuses longer notes, in bytes.
const LONGEST_NOTE: usize = 1024;
/// How long changes are gathered before they are looked at: pods placed by the hundred a second are no reason to look
/// as often.
const GATHER: Duration = Duration::from_millis(100);
/// kube repeats refused requests for minutes; an event is not worth that.
const EVENT_DEADLINE: Duration = Duration::from_secs(10);

/// Sends explanations until the future is dropped; those about a node's books once they have held for `settles_in`, and
/// what nobody took again after that time, and ever later.
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
        let mut is_away = false;
        for explanation in passing.sift(&nodes, found, now) {
            let key = (explanation.uid.clone(), explanation.said_once());
            if said.contains(&key) {
                continue;
            }
            let about = About::of(&explanation);
            // Where one was not answered the next will not be either, most likely, and each may take until its deadline.
            if is_away {
                unsent.put_off(about, Instant::now());
                continue;
            }
            match send(&client, explanation).await {
                Sent::Yes => {
                    said.insert(key);
                    unsent.done(&about);
                }
                Sent::Refused => unsent.done(&about),
                Sent::Unanswered => {
                    is_away = true;
                    unsent.failed(about, Instant::now());
                }
            }
        }
        cluster.read(|index| {
            said.retain(|(uid, _)| index.pod(uid).is_some());
            unsent.retain(|uid| index.pod(uid).is_some());
        });
    }
}

/// What became of an event.
enum Sent {
    Yes,
    /// The API server does not want it, now or later.
    Refused,
    /// The API server, or what it asks, was away or busy.
    Unanswered,
}

async fn send(client: &Client, explanation: Explanation) -> Sent {
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
        Ok(Ok(())) => Sent::Yes,
        Ok(Err(error)) => {
            warn!("the event on pod {namespace}/{name} could not be sent: {error}");
            match error {
                kube::Error::Api(status) if (400..500).contains(&status.code) && status.code != 429 => {
                    Sent::Refused
                }
                _ => Sent::Unanswered,
            }
        }
        Err(_) => {
            warn!("the event on pod {namespace}/{name} could not be sent in time");
            Sent::Unanswered
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
