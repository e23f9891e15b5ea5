//! Events under both of their APIs.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Event, ObjectReference};
use k8s_openapi::api::events::v1::Event as EventsEvent;
use kube::api::{ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::runtime::events::{Event as Report, EventType, Recorder, Reporter};
use kube::{Api, ResourceExt};
use serde_json::json;
use testkit_support::within;

use super::start;

#[tokio::test]
async fn what_a_recorder_reports_is_read_through_both_apis_and_repeats_are_counted() {
    let (_server, client) = start();
    let recorder = Recorder::new(client.clone(), Reporter { controller: "tester".into(), instance: None });
    let about = ObjectReference {
        kind: Some("Pod".into()),
        name: Some("a".into()),
        namespace: Some("default".into()),
        uid: Some("1".into()),
        ..ObjectReference::default()
    };
    let report = Report {
        type_: EventType::Warning,
        reason: "Refused".into(),
        note: Some("too few devices".into()),
        action: "Scheduling".into(),
        secondary: None,
    };
    for _ in 0..2 {
        recorder.publish(&report, &about).await.unwrap();
    }

    let core: Api<Event> = Api::default_namespaced(client.clone());
    let found =
        core.list(&ListParams::default().fields("involvedObject.name=a,reason=Refused")).await.unwrap();
    let event = &found.items[0];
    assert_eq!(found.items.len(), 1);
    assert_eq!(event.message.as_deref(), Some("too few devices"));
    assert_eq!(event.reporting_component.as_deref(), Some("tester"));
    assert_eq!(event.series.as_ref().unwrap().count, Some(2));

    let new: Api<EventsEvent> = Api::default_namespaced(client);
    let found = new.list(&ListParams::default().fields("regarding.name=a")).await.unwrap();
    assert_eq!(found.items[0].note.as_deref(), Some("too few devices"));
    assert_eq!(found.items[0].reporting_controller.as_deref(), Some("tester"));
    assert_eq!(found.items[0].uid(), event.uid());
}

#[tokio::test]
async fn a_core_event_shows_its_old_fields_as_deprecated_ones() {
    let (_server, client) = start();
    let event: Event = serde_json::from_value(json!({
        "metadata": {"name": "e"}, "involvedObject": {"name": "a"}, "message": "hello", "count": 3,
        "source": {"component": "kubelet"}, "lastTimestamp": "2026-01-01T00:00:00Z",
    }))
    .unwrap();
    let core: Api<Event> = Api::default_namespaced(client.clone());
    core.create(&PostParams::default(), &event).await.unwrap();
    let new: Api<EventsEvent> = Api::default_namespaced(client);
    let event = new.get("e").await.unwrap();
    assert_eq!(event.note.as_deref(), Some("hello"));
    assert_eq!(event.deprecated_count, Some(3));
    assert_eq!(event.deprecated_source.unwrap().component.as_deref(), Some("kubelet"));
    assert!(event.deprecated_last_timestamp.is_some());
}

#[tokio::test]
async fn an_event_ends_an_hour_after_its_last_write_and_watches_are_told() {
    let (server, client) = start();
    let events: Api<Event> = Api::default_namespaced(client);
    let minutes = |minutes: u64| server.clock().advance(Duration::from_secs(60 * minutes));
    for name in ["once", "again"] {
        let event = json!({"metadata": {"name": name}, "involvedObject": {"name": "a"}});
        events.create(&PostParams::default(), &serde_json::from_value(event).unwrap()).await.unwrap();
    }
    minutes(30);
    let patch = Patch::Merge(json!({"count": 2}));
    events.patch("again", &PatchParams::default(), &patch).await.unwrap();
    let version = events.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut watch = events.watch(&WatchParams::default(), &version).await.unwrap().boxed();
    minutes(29);
    assert_eq!(events.list(&ListParams::default()).await.unwrap().items.len(), 2);
    for (advance, gone) in [(1, "once"), (30, "again")] {
        minutes(advance);
        let told = within("the end of an event", watch.try_next()).await.unwrap().unwrap();
        let WatchEvent::Deleted(event) = told else { panic!("{told:?}") };
        assert_eq!(event.name_any(), gone);
    }
    assert!(events.get_opt("again").await.unwrap().is_none());
}
