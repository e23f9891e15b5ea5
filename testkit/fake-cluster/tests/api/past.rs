//! What is told of the past: lists and watches that begin at an older state, and every write, to an observer.

use std::sync::{Arc, Mutex};

use fake_cluster::ApiServer;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use testkit_support::within;

use super::{bind, create_pod, pods, start};

/// A client whose lists and watches with version 0 lag behind.
fn lagging(server: &ApiServer, lag: u64) -> Client {
    Client::new(server.lagging_router(lag), "default")
}

/// Names, and nodes where the pods have one.
async fn names(client: &Client, parameters: &ListParams) -> Vec<String> {
    let shown = |pod: Pod| match pod.spec.as_ref().and_then(|spec| spec.node_name.clone()) {
        Some(node) => format!("{} on {node}", pod.name_any()),
        None => pod.name_any(),
    };
    pods(client).list(parameters).await.unwrap().into_iter().map(shown).collect()
}

#[tokio::test]
async fn a_list_of_any_version_may_be_old_and_every_other_is_not() {
    let (server, client) = start();
    create_pod(&client, "a").await;
    create_pod(&client, "b").await;
    bind(&client, "a", "n1").await.unwrap();
    pods(&client).delete("b", &DeleteParams::default()).await.unwrap();
    let any = ListParams::default().match_any();
    for (lag, shown) in
        [(0, vec!["a on n1"]), (1, vec!["a on n1", "b"]), (2, vec!["a", "b"]), (3, vec!["a"]), (1000, vec![])]
    {
        assert_eq!(names(&lagging(&server, lag), &any).await, shown, "{lag} versions ago");
    }
    assert_eq!(names(&lagging(&server, 2), &ListParams::default()).await, ["a on n1"]);
    server.compact();
    assert_eq!(names(&lagging(&server, 2), &any).await, ["a on n1"], "a watch could not go on from before");
}

#[tokio::test]
async fn a_watch_that_begins_with_an_old_state_goes_on_from_there() {
    let (server, client) = start();
    create_pod(&client, "a").await;
    create_pod(&client, "b").await;
    pods(&client).delete("a", &DeleteParams::default()).await.unwrap();
    let client = lagging(&server, 1);
    let mut watch = pods(&client).watch(&WatchParams::default(), "0").await.unwrap().boxed();
    let mut told = Vec::new();
    while told.len() < 3 {
        told.push(match within("the next event", watch.try_next()).await.unwrap().unwrap() {
            WatchEvent::Added(pod) => format!("ADDED {}", pod.name_any()),
            WatchEvent::Deleted(pod) => format!("DELETED {}", pod.name_any()),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(told, ["ADDED a", "ADDED b", "DELETED a"]);
}

#[tokio::test]
async fn an_observer_sees_every_write_with_what_was_before() {
    let (server, client) = start();
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = seen.clone();
    server.observe(Box::new(move |write| {
        let node = |pod: &Arc<serde_json::Value>| pod["spec"]["nodeName"].as_str().unwrap_or("-").to_owned();
        let (before, after) = (write.before.map(node), write.after.map(node));
        if let Some(after) = write.after {
            assert_eq!(after["metadata"]["resourceVersion"].as_str(), Some(&*write.version.to_string()));
        }
        let line = format!("{} {}/{} {before:?} {after:?}", write.kind, write.namespace, write.name);
        log.lock().unwrap().push(line);
    }));
    create_pod(&client, "a").await;
    bind(&client, "a", "n1").await.unwrap();
    pods(&client).delete("a", &DeleteParams::default().grace_period(0)).await.unwrap();
    let seen = seen.lock().unwrap().clone();
    assert_eq!(
        seen,
        [
            r#"Pod default/a None Some("-")"#,
            r#"Pod default/a Some("-") Some("n1")"#,
            r#"Pod default/a Some("n1") None"#
        ]
    );
}
