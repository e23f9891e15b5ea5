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
async fn list<K: Object, T>(client: &Client, watched: &Watched<K, T>) -> Result<(Vec<T>, String), ApiError> {
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

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use axum::body::Body;
    use axum::http::{self, Response};
    use futures::{StreamExt, stream};
    use prost::Message;
    use tokio::sync::mpsc;
    use tokio::time::timeout;

    use super::*;
    use crate::protobuf::meta::{ListMeta, RawExtension};
    use crate::protobuf::{ObjectMeta, Status, WatchEvent, wrap};
    use crate::seen::SeenNode;

    /// An API server that answers this, one after the other, and then nothing more.
    struct Scripted {
        answers: Mutex<VecDeque<Body>>,
        asked: mpsc::UnboundedSender<String>,
    }

    fn node(name: &str, version: &str) -> protobuf::Node {
        let (name, resource_version) = (name.to_owned(), version.to_owned());
        protobuf::Node { metadata: ObjectMeta { name, resource_version, ..ObjectMeta::default() } }
    }

    fn page(names: &[&str], version: &str, continue_token: &str) -> Body {
        let items = names.iter().map(|name| node(name, "1").encode_to_vec().into()).collect();
        let (resource_version, continue_token) = (version.to_owned(), continue_token.to_owned());
        let list = List { metadata: Some(ListMeta { resource_version, continue_token }), items };
        Body::from(wrap("NodeList", &list))
    }

    fn frame(kind: &str, object: Vec<u8>) -> Vec<u8> {
        let event = WatchEvent { kind: kind.to_owned(), object: Some(RawExtension { raw: object.into() }) };
        let event = event.encode_to_vec();
        [u32::try_from(event.len()).unwrap().to_be_bytes().as_slice(), &event].concat()
    }

    /// A watch that says this, in pieces that end anywhere, and ends after its time.
    fn events(frames: &[Vec<u8>]) -> Body {
        let pieces: Vec<Vec<u8>> = frames.concat().chunks(7).map(<[u8]>::to_vec).collect();
        let end = stream::once(async { sleep(Duration::from_secs(300)).await }).map(|()| Vec::new());
        Body::from_stream(stream::iter(pieces).chain(end).map(Ok::<_, ApiError>))
    }

    /// What the follower of nodes asks and what it says until the API server has nothing more to answer.
    async fn follow_nodes(answers: Vec<Body>) -> (Vec<String>, Vec<String>) {
        let (asked, mut all_asked) = mpsc::unbounded_channel();
        let (said, mut all_said) = mpsc::unbounded_channel();
        let script = Arc::new(Scripted { answers: Mutex::new(answers.into()), asked });
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let answer = script.answers.lock().unwrap().pop_front();
            if answer.is_some() {
                script.asked.send(request.uri().to_string()).unwrap();
            }
            async move {
                match answer {
                    Some(answer) => Ok::<_, tower::BoxError>(Response::new(answer)),
                    None => std::future::pending().await,
                }
            }
        });
        let nodes = Watched {
            what: "nodes",
            path: "/nodes".to_owned(),
            selector: Some("a!=b"),
            key: |node: &protobuf::Node| node.metadata.name.clone(),
            seen: |node| Some(seen_node(node)),
        };
        let client = Client::new(service, "default");
        let say = |change: Change<SeenNode>| {
            let name = |node: &SeenNode| node.name.clone();
            let text = match change {
                Change::ListBegins => "a list begins".to_owned(),
                Change::Listed(nodes) => nodes.iter().map(name).collect::<Vec<_>>().join(" "),
                Change::Applied(node) => format!("+{}", node.name),
                Change::Gone(key) => format!("-{key}"),
                Change::Cut => "cut".to_owned(),
            };
            said.send(text).unwrap();
        };
        // Time stands still but for what is waited for, so that this is no wait.
        let end = timeout(Duration::from_secs(3600), follow(&client, &nodes, say)).await;
        assert!(end.is_err());
        drop((client, said));
        let gather = async |from: &mut mpsc::UnboundedReceiver<String>| {
            let mut all = Vec::new();
            while let Some(text) = from.recv().await {
                all.push(text);
            }
            all
        };
        (gather(&mut all_asked).await, gather(&mut all_said).await)
    }

    #[tokio::test(start_paused = true)]
    async fn pages_are_listed_to_the_end_and_a_watch_goes_on_where_it_ended() {
        let (asked, said) = follow_nodes(vec![
            page(&["n1", "n2"], "5", "more"),
            page(&["n3"], "5", ""),
            events(&[
                frame("MODIFIED", wrap("Node", &node("n2", "6"))),
                frame("DELETED", wrap("Node", &node("n1", "7"))),
                frame("BOOKMARK", wrap("Node", &node("", "9"))),
            ]),
            events(&[frame("ADDED", wrap("Node", &node("n4", "10")))]),
        ])
        .await;
        let list = "/nodes?&fieldSelector=a%21%3Db&limit=500";
        let watch = "/nodes?&watch=true&timeoutSeconds=290&fieldSelector=a%21%3Db&allowWatchBookmarks=true";
        assert_eq!(
            asked,
            [
                list.to_owned(),
                format!("{list}&continue=more"),
                format!("{watch}&resourceVersion=5"),
                format!("{watch}&resourceVersion=9")
            ]
        );
        assert_eq!(said, ["a list begins", "n1 n2 n3", "+n2", "-n1", "+n4"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_cannot_go_on_begins_anew_with_a_list() {
        let gone = Status { message: "too old resource version".to_owned(), code: 410 };
        let cut_short = frame("ADDED", wrap("Node", &node("n9", "9")));
        let (_, said) = follow_nodes(vec![
            page(&["n1"], "5", ""),
            events(&[frame("ERROR", wrap("Status", &gone))]),
            page(&["n2"], "8", ""),
            // Ends as soon as it has begun.
            Body::empty(),
            page(&["n3"], "8", ""),
            Body::from(cut_short[..20].to_vec()),
            page(&["n4"], "8", ""),
            Body::from("{}".to_owned()),
            Body::from("{}".to_owned()),
            page(&["n5"], "8", ""),
        ])
        .await;
        let rounds = ["n1", "n2", "n3", "n4"].map(|listed| ["a list begins", listed, "cut"].join(", "));
        let wanted = [rounds.join(", "), "a list begins, cut, a list begins, n5".to_owned()].join(", ");
        assert_eq!(said.join(", "), wanted);
    }
}
