//! Watches: order, selectors, bookmarks, versions that are gone, and kube's watcher and reflector on top.

use futures::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, PostParams, VersionMatch, WatchEvent, WatchParams};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Client, ResourceExt};
use testkit_support::within;

use super::{bind, create_pod, plain_node, pods, refusal, start};

/// The next event as "KIND name", "BOOKMARK version" or "ERROR code".
async fn next(watch: &mut (impl Stream<Item = kube::Result<WatchEvent<Pod>>> + Unpin)) -> Option<String> {
    Some(match within("the next event", watch.try_next()).await.unwrap()? {
        WatchEvent::Added(pod) => format!("ADDED {}", pod.name_any()),
        WatchEvent::Modified(pod) => format!("MODIFIED {}", pod.name_any()),
        WatchEvent::Deleted(pod) => format!("DELETED {}", pod.name_any()),
        WatchEvent::Bookmark(bookmark) => format!("BOOKMARK {}", bookmark.metadata.resource_version),
        WatchEvent::Error(status) => format!("ERROR {}", status.code),
    })
}

async fn watch_from(
    client: &Client,
    parameters: WatchParams,
    version: &str,
) -> impl Stream<Item = kube::Result<WatchEvent<Pod>>> + Unpin + use<> {
    Box::pin(pods(client).watch(&parameters, version).await.unwrap())
}

async fn list_version(client: &Client) -> String {
    pods(client).list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap()
}

#[tokio::test]
async fn changes_after_a_version_come_in_order() {
    let (_server, client) = start();
    create_pod(&client, "before").await;
    let version = list_version(&client).await;
    create_pod(&client, "a").await;
    let mut watch = watch_from(&client, WatchParams::default(), &version).await;
    assert_eq!(next(&mut watch).await.unwrap(), "ADDED a");
    bind(&client, "a", "n1").await.unwrap();
    assert_eq!(next(&mut watch).await.unwrap(), "MODIFIED a");
    pods(&client).delete("a", &DeleteParams::default().grace_period(0)).await.unwrap();
    assert_eq!(next(&mut watch).await.unwrap(), "DELETED a");
}

#[tokio::test]
async fn an_object_that_starts_or_ceases_to_match_is_added_or_deleted() {
    let (_server, client) = start();
    let version = list_version(&client).await;
    let unbound = WatchParams::default().fields("spec.nodeName=");
    let mut unbound = watch_from(&client, unbound, &version).await;
    let bound = WatchParams::default().fields("spec.nodeName=n1");
    let mut bound = watch_from(&client, bound, &version).await;
    create_pod(&client, "a").await;
    bind(&client, "a", "n1").await.unwrap();
    assert_eq!(next(&mut unbound).await.unwrap(), "ADDED a");
    let Some(WatchEvent::Deleted(last)) = within("the next event", unbound.try_next()).await.unwrap() else {
        panic!("a pod that is bound must leave the watch of unbound pods");
    };
    // As it was while it matched, at the version at which it ceased to.
    assert_eq!(last.spec.as_ref().unwrap().node_name, None);
    assert_eq!(last.resource_version().unwrap(), list_version(&client).await);
    assert_eq!(next(&mut bound).await.unwrap(), "ADDED a");
}

#[tokio::test]
async fn without_a_version_it_begins_with_what_is_there() {
    let (_server, client) = start();
    create_pod(&client, "a").await;
    let mut watch = watch_from(&client, WatchParams::default(), "0").await;
    assert_eq!(next(&mut watch).await.unwrap(), "ADDED a");
    let version = list_version(&client).await;
    let mut watch = watch_from(&client, WatchParams::streaming_lists(), "0").await;
    assert_eq!(next(&mut watch).await.unwrap(), "ADDED a");
    assert_eq!(next(&mut watch).await.unwrap(), format!("BOOKMARK {version}"));
}

#[tokio::test]
async fn it_ends_at_its_timeout_with_a_bookmark_past_changes_of_other_kinds() {
    let (_server, client) = start();
    let version = list_version(&client).await;
    let nodes = Api::all(client.clone());
    nodes.create(&PostParams::default(), &plain_node("n1")).await.unwrap();
    let newest = list_version(&client).await;
    assert_ne!(version, newest);
    let mut watch = watch_from(&client, WatchParams::default().timeout(1), &version).await;
    assert_eq!(next(&mut watch).await.unwrap(), format!("BOOKMARK {newest}"));
    assert_eq!(next(&mut watch).await, None);
    let silent = WatchParams::default().timeout(1).disable_bookmarks();
    assert_eq!(next(&mut watch_from(&client, silent, &version).await).await, None);
}

#[tokio::test]
async fn after_compaction_older_versions_are_gone() {
    let (server, client) = start();
    let version = list_version(&client).await;
    create_pod(&client, "a").await;
    let mut open = watch_from(&client, WatchParams::default(), &version).await;
    server.compact();
    assert_eq!(next(&mut open).await.unwrap(), "ADDED a");
    let mut late = watch_from(&client, WatchParams::default(), &version).await;
    assert_eq!(next(&mut late).await.unwrap(), "ERROR 410");
    assert_eq!(next(&mut late).await, None);
    let exact = ListParams::default().at(&version).matching(VersionMatch::Exact);
    let refused = refusal(pods(&client).list(&exact).await);
    assert_eq!((refused.code, refused.reason.as_str()), (410, "Expired"));
    let mut newest = watch_from(&client, WatchParams::default(), &list_version(&client).await).await;
    create_pod(&client, "b").await;
    assert_eq!(next(&mut newest).await.unwrap(), "ADDED b");
}

#[tokio::test]
async fn a_version_from_the_future_is_refused() {
    let (_server, client) = start();
    let mut watch = watch_from(&client, WatchParams::default(), "999999").await;
    assert_eq!(next(&mut watch).await.unwrap(), "ERROR 504");
}

#[tokio::test]
async fn a_reflector_follows_through_an_outage_in_which_its_version_is_lost() {
    let (server, client) = start();
    create_pod(&client, "a").await;
    let (reader, writer) = reflector::store();
    let stream = watcher(pods(&client), watcher::Config::default()).default_backoff();
    let mut following = Box::pin(reflector(writer, stream));
    let names = || reader.state().iter().map(|pod| pod.name_any()).collect::<Vec<_>>();
    within("the reflector to show a", async {
        while names() != ["a"] {
            following.next().await.unwrap().unwrap();
        }
    })
    .await;

    // The watcher's version is compacted before it reconnects, so it must list again.
    server.set_available(false);
    server.set_available(true);
    create_pod(&client, "b").await;
    pods(&client).delete("a", &DeleteParams::default()).await.unwrap();
    server.compact();
    let mut was_refused = false;
    within("the reflector to show b", async {
        while names() != ["b"] {
            // The refusal is part of the stream; the watcher goes on by itself.
            was_refused |= following.next().await.unwrap().is_err();
        }
    })
    .await;
    assert!(was_refused, "the old version should have been gone");
}
