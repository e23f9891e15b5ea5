//! One event on its way to the API server. Called by the loop of [`super`].

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::time::timeout;
use tracing::{info, warn};

use super::explain::Explanation;

/// Longest note that the API server takes, in bytes.
const LONGEST_NOTE: usize = 1024;
/// kube repeats refused requests for minutes; an event is not worth that.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What became of an event.
pub(super) enum Sent {
    Yes,
    /// The API server does not want it, now or later.
    Refused,
    /// The API server, or what it asks, was away or busy.
    NotAnswered,
}

/// Sends the explanation as an event on its pod.
pub(super) async fn send(client: &Client, explanation: Explanation) -> Sent {
    let Explanation { uid, namespace, name, reason, note, .. } = explanation;
    let full_name = format!("{namespace}/{name}");
    info!(pod = full_name, event = reason, note, "sending an event");
    let pod = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(namespace),
        name: Some(name),
        uid: Some(uid),
        ..ObjectReference::default()
    };
    let event = Event {
        type_: EventType::Warning,
        reason: reason.to_owned(),
        note: Some(shortened(note)),
        action: "Scheduling".to_owned(),
        secondary: None,
    };
    // Each event has a recorder of its own: a shared one counts events of one reason as repetitions of the first and drops
    // the later notes.
    let reporter = Reporter { controller: "neuron-extender".to_owned(), instance: None };
    let recorder = Recorder::new(client.clone(), reporter);
    match timeout(TIMEOUT, recorder.publish(&event, &pod)).await {
        Ok(Ok(())) => Sent::Yes,
        Ok(Err(error)) => {
            warn!(pod = full_name, event = event.reason, reason = error.to_string(), "event not sent");
            match error {
                kube::Error::Api(status) if (400..500).contains(&status.code) && status.code != 429 => {
                    Sent::Refused
                }
                _ => Sent::NotAnswered,
            }
        }
        Err(_) => {
            warn!(pod = full_name, event = event.reason, reason = "no answer in time", "event not sent");
            Sent::NotAnswered
        }
    }
}

fn shortened(mut note: String) -> String {
    if note.len() > LONGEST_NOTE {
        let mark = "...";
        let end =
            (0..=LONGEST_NOTE - mark.len()).rev().find(|&at| note.is_char_boundary(at)).unwrap_or_default();
        note.truncate(end);
        note.push_str(mark);
    }
    note
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_that_is_too_long_ends_with_dots_between_two_characters() {
        let note = shortened("ä".repeat(LONGEST_NOTE));
        assert_eq!(note.len(), LONGEST_NOTE - 1);
        assert!(note.ends_with("ä..."));
        let fits = "a".repeat(LONGEST_NOTE);
        assert_eq!(shortened(fits.clone()), fits);
    }
}
