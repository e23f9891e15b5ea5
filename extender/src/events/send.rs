//! One event on its way to the API server. Called by [`super::outbox`].

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use runtime::{System, event_name};
use tokio::time::timeout;
use tracing::{info, warn};

use super::explain::Explanation;
use crate::note::{LONGEST_NOTE, shortened};

/// kube repeats refused requests for minutes; an event is not worth that.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Who says so.
const CONTROLLER: &str = "neuron-extender";

/// What became of an event.
pub(super) enum Sent {
    Yes,
    /// The API server does not want it, now or later.
    Refused,
    /// This extender may not send it now: it has not the rights, the namespace takes no more, or is about to be deleted.
    NotAllowed,
    /// The API server, or what it asks, was away or busy.
    NotAnswered,
}

/// Sends the explanation as an event on its pod.
pub(super) async fn send(system: &System, client: &Client, explanation: Explanation) -> Sent {
    let Explanation { namespace, name, reason, note, .. } = &explanation;
    let pod = format!("{namespace}/{name}");
    info!(pod, event = reason, note, "sending an event");
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    let reason = *reason;
    let event = event(system, explanation);
    match timeout(TIMEOUT, events.create(&PostParams::default(), &event)).await {
        Ok(Ok(_)) => Sent::Yes,
        Ok(Err(error)) => {
            warn!(pod, event = reason, reason = error.to_string(), "event not sent");
            match error {
                kube::Error::Api(status) if [401, 403].contains(&status.code) => Sent::NotAllowed,
                kube::Error::Api(status) if (400..500).contains(&status.code) && status.code != 429 => {
                    Sent::Refused
                }
                _ => Sent::NotAnswered,
            }
        }
        Err(_) => {
            warn!(pod, event = reason, reason = "no answer in time", "event not sent");
            Sent::NotAnswered
        }
    }
}

/// The event.
fn event(system: &System, explanation: Explanation) -> Event {
    let Explanation { uid, namespace, name, reason, note, .. } = explanation;
    let now = Timestamp::try_from(system.now()).unwrap_or(Timestamp::MAX);
    Event {
        metadata: ObjectMeta {
            name: Some(event_name(&name, system.random())),
            namespace: Some(namespace.clone()),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(now)),
        type_: Some("Warning".to_owned()),
        reason: Some(reason.to_owned()),
        note: Some(shortened(note, LONGEST_NOTE)),
        action: Some("Scheduling".to_owned()),
        regarding: Some(ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(namespace),
            name: Some(name),
            uid: Some(uid),
            ..ObjectReference::default()
        }),
        reporting_controller: Some(CONTROLLER.to_owned()),
        reporting_instance: Some(CONTROLLER.to_owned()),
        ..Event::default()
    }
}
