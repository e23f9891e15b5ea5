//! Keeps the cluster's index fed: one watch of pods, one of nodes. Started by [`crate::serve`].
//!
//! Only the fields that decide are kept; the list after a cut watch frees what went away meanwhile. Lists and watches are
//! in protobuf, which kube's own cannot read: an event as JSON costs the API server, which has it in protobuf for
//! kube-scheduler anyway, more than kube-scheduler's (docs/performance.md).

use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{ListParams, WatchParams};
use kube::core::{Request, Resource as _};
use tokio::time::{Instant, sleep};
use tracing::warn;

use crate::api::{self, ApiError, Event};
use crate::cluster::Cluster;
use crate::objects::{seen_node, seen_pod};
use crate::protobuf::{self, List, NotRead, Object};
use crate::seen::{Change, SeenPod};

/// First and longest wait before a watch that was cut is taken up again. Pods that end meanwhile still count as
/// holders, so the longest is short.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// How many objects are listed at a time.
const PAGE: u32 = 500;

/// Watches pods until the future is dropped.
pub(crate) async fn watch_pods(client: Client, cluster: Arc<Cluster>) {
    let pods = Watched {
        what: "pods",
        path: Pod::url_path(&(), None),
        // A pod that ends leaves the selection, which the watch reports as a deletion: it holds nothing any more.
        selector: Some("status.phase!=Succeeded,status.phase!=Failed"),
        key: |pod: &protobuf::Pod| pod.metadata.uid.clone(),
        seen: |pod| Some(seen_pod(pod)).filter(decides),
    };
    follow(&client, &pods, |change| cluster.write(|index| index.pods(change))).await;
}

/// Watches nodes until the future is dropped.
pub(crate) async fn watch_nodes(client: Client, cluster: Arc<Cluster>) {
    let nodes = Watched {
        what: "nodes",
        path: Node::url_path(&(), None),
        selector: None,
        key: |node: &protobuf::Node| node.metadata.name.clone(),
        seen: |node| Some(seen_node(node)),
    };
    follow(&client, &nodes, |change| cluster.write(|index| index.nodes(change))).await;
}

/// Whether the pod asks for Neuron hardware or carries a record.
fn decides(seen: &SeenPod) -> bool {
    !seen.pod.annotations.is_empty() || !seen.pod.request.as_ref().is_ok_and(|request| request.is_empty())
}

/// What is watched, and what is kept of it.
struct Watched<K, T> {
    /// As the log calls it.
    what: &'static str,
    /// Its collection.
    path: String,
    /// Which of them, by their fields.
    selector: Option<&'static str>,
    /// What [`Change::Gone`] calls an object.
    key: fn(&K) -> String,
    /// What is kept of an object, if anything.
    seen: fn(K) -> Option<T>,
}

/// Why a watch has to begin anew with a list.
#[derive(Debug, thiserror::Error)]
enum Cut {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("the API server ended it as soon as it had begun")]
    Ended,
}

async fn follow<K: Object, T>(client: &Client, watched: &Watched<K, T>, change: impl Fn(Change<T>)) {
    let mut wait = RETRY.0;
    loop {
        change(Change::ListBegins);
        let cut = match list(client, watched).await {
            Ok((listed, version)) => {
                change(Change::Listed(listed));
                wait = RETRY.0;
                watch(client, watched, version, &change).await
            }
            Err(error) => error.into(),
        };
        // Taken up where it was cut, a watch would not say when it has caught up; a list does.
        warn!("the watch of {} was cut and is taken up again: {cut}", watched.what);
        change(Change::Cut);
        sleep(wait).await;
        wait = (wait * 2).min(RETRY.1);
    }
}

/// All of it, and the version of which that is true.
async fn list<K: Object, T>(
    client: &Client,
    watched: &Watched<K, T>,
) -> Result<(Vec<T>, String), ApiError> {
    let mut parameters = ListParams::default().limit(PAGE);
    parameters.field_selector = watched.selector.map(str::to_owned);
    let mut listed = Vec::new();
    loop {
        let request = Request::new(&watched.path).list(&parameters).map_err(kube::Error::BuildRequest)?;
        let List { metadata, items } = api::read(client, request).await?;
        for item in items {
            listed.extend((watched.seen)(K::decode(item).map_err(NotRead::from)?));
        }
        let metadata = metadata.unwrap_or_default();
        if metadata.continue_token.is_empty() {
            return Ok((listed, metadata.resource_version));
        }
        parameters.continue_token = Some(metadata.continue_token);
    }
}

/// Reports the changes since the version until the watch is cut.
async fn watch<K: Object, T>(
    client: &Client,
    watched: &Watched<K, T>,
    mut version: String,
    change: impl Fn(Change<T>),
) -> Cut {
    loop {
        let began = Instant::now();
        if let Err(error) = watch_once(client, watched, &mut version, &change).await {
            return error.into();
        }
        // The API server ends every watch after some minutes; it goes on where it was.
        if began.elapsed() < RETRY.0 {
            return Cut::Ended;
        }
    }
}

/// Reports the changes since the version, which it moves on, until the API server ends the watch.
async fn watch_once<K: Object, T>(
    client: &Client,
    watched: &Watched<K, T>,
    version: &mut String,
    change: impl Fn(Change<T>),
) -> Result<(), ApiError> {
    let parameters = WatchParams {
        field_selector: watched.selector.map(str::to_owned),
        bookmarks: true,
        ..WatchParams::default()
    };
    let request = Request::new(&watched.path).watch(&parameters, version);
    let mut events = api::watch::<K>(client, request.map_err(kube::Error::BuildRequest)?).await?;
    while let Some(event) = events.try_next().await? {
        match event {
            Event::Applied(object) => {
                version.clone_from(&object.metadata().resource_version);
                let key = (watched.key)(&object);
                change((watched.seen)(object).map_or(Change::Gone(key), Change::Applied));
            }
            Event::Deleted(object) => {
                version.clone_from(&object.metadata().resource_version);
                change(Change::Gone((watched.key)(&object)));
            }
            Event::Bookmark(object) => version.clone_from(&object.metadata().resource_version),
        }
    }
    Ok(())
}
