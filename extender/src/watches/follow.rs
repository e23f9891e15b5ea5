//! Lists and then watches one kind of object, and again when the watch is cut: the list after it frees what went away
//! meanwhile. Called by the watches.
//!
//! Lists and watches are in protobuf, which kube's own cannot read. An event as JSON costs the API server more than one in
//! protobuf, which it has ready for kube-scheduler anyway (docs/performance.md).

use std::time::Duration;

use futures::TryStreamExt;
use kube::Client;
use kube::api::WatchParams;
use kube::core::Request;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::warn;

use super::list::{LONGEST_ANSWER, list, set};
use crate::api::{self, ApiError, Event};
use crate::protobuf::Object;
use crate::seen::Change;

/// First and longest wait before a watch that was cut is taken up again. Pods that end meanwhile still count as
/// holders, so the longest is short.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// How long the API server is asked to let a watch last, in seconds: so long nothing may be seen where the connection
/// leads nowhere any more. To take a watch up again costs little.
const WATCH_SECONDS: u32 = 60;
/// How long it may be overdue with that.
const OVERDUE: Duration = Duration::from_secs(5);

/// What is watched, and what is kept of it.
pub(super) struct Watched<K, T> {
    /// As the log calls it.
    pub(super) what: &'static str,
    /// Its collection.
    pub(super) path: String,
    /// Which of them, by their fields.
    pub(super) selector: Option<&'static str>,
    /// What [`Change::Gone`] calls an object.
    pub(super) key: fn(&K) -> String,
    /// What is kept of an object, if anything.
    pub(super) seen: fn(K) -> Option<T>,
}

/// Why a watch has to begin anew with a list.
#[derive(Debug, thiserror::Error)]
enum Cut {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("it ended as soon as it had begun")]
    Ended,
}

/// Tells `change` of all there is and of what becomes of it, until the future is dropped.
pub(super) async fn follow<K: Object, T>(
    client: &Client,
    watched: &Watched<K, T>,
    change: impl Fn(Change<T>),
) {
    let mut wait = RETRY.0;
    loop {
        let began = Instant::now();
        change(Change::ListBegins);
        let cut = match list(client, watched).await {
            Ok((listed, version)) => {
                change(Change::Listed(listed));
                watch(client, watched, version, &change).await
            }
            Err(error) => error.into(),
        };
        // Taken up where it was cut, a watch would not say when it has caught up; a list does.
        warn!("the watch of {} was cut and is taken up again: {cut}", watched.what);
        change(Change::Cut);
        // Where lists succeed and watches never do, whole lists are not asked for without pause.
        if began.elapsed() > RETRY.1 {
            wait = RETRY.0;
        }
        sleep(wait).await;
        wait = (wait * 2).min(RETRY.1);
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
        match watch_once(client, watched, &mut version, &change).await {
            // It goes on where it was, if only it can begin.
            Ok(()) | Err(ApiError::BrokeOff(_)) if began.elapsed() < RETRY.0 => return Cut::Ended,
            Ok(()) | Err(ApiError::BrokeOff(_)) => {}
            Err(error) => return error.into(),
        }
    }
}

/// Reports the changes since the version, which it moves on, until the API server ends the watch as it was asked to, or
/// should have.
async fn watch_once<K: Object, T>(
    client: &Client,
    watched: &Watched<K, T>,
    version: &mut String,
    change: impl Fn(Change<T>),
) -> Result<(), ApiError> {
    let mut parameters = WatchParams::default().timeout(WATCH_SECONDS);
    parameters.field_selector = watched.selector.map(str::to_owned);
    let request =
        Request::new(&watched.path).watch(&parameters, version).map_err(kube::Error::BuildRequest)?;
    let events = timeout(LONGEST_ANSWER, api::watch::<K>(client, request)).await;
    let mut events = events.map_err(|_| ApiError::Silent)??;
    // Nothing comes over a connection that leads nowhere any more, not even its end.
    let end = Instant::now() + Duration::from_secs(WATCH_SECONDS.into()) + OVERDUE;
    while let Ok(event) = timeout_at(end, events.try_next()).await {
        let Some(event) = event? else { break };
        let (Event::Applied(object) | Event::Deleted(object) | Event::Bookmark(object)) = &event;
        version.clone_from(&set(object.metadata().resource_version.clone())?);
        match event {
            Event::Applied(object) => {
                let key = (watched.key)(&object);
                change((watched.seen)(object).map_or(Change::Gone(key), Change::Applied));
            }
            Event::Deleted(object) => change(Change::Gone((watched.key)(&object))),
            Event::Bookmark(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex};

    use axum::body::Body;
    use axum::http::{self, Response};
    use futures::{StreamExt, stream};
    use prost::Message;
    use tokio::sync::mpsc;

    use super::super::list::LONGEST_PAGE;
    use super::*;
    use crate::objects::seen_node;
    use crate::protobuf::meta::{ListMeta, RawExtension};
    use crate::protobuf::{List, Node, ObjectMeta, Status, WatchEvent, wrap};
    use crate::seen::SeenNode;

    /// An API server that answers this, one after the other, and then nothing more.
    struct Scripted {
        answers: Mutex<VecDeque<Body>>,
        asked: mpsc::UnboundedSender<String>,
    }

    fn node(name: &str, version: &str) -> Node {
        let (name, resource_version) = (name.to_owned(), version.to_owned());
        Node { metadata: ObjectMeta { name, resource_version, ..ObjectMeta::default() } }
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

    /// A watch that says this, in pieces that end anywhere, and ends after so many seconds.
    fn events(seconds: u64, frames: &[Vec<u8>]) -> Body {
        let pieces: Vec<Vec<u8>> = frames.concat().chunks(7).map(<[u8]>::to_vec).collect();
        let end = stream::once(async move { sleep(Duration::from_secs(seconds)).await }).map(|()| Vec::new());
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
            key: |node: &Node| node.metadata.name.clone(),
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
            events(
                60,
                &[
                    frame("MODIFIED", wrap("Node", &node("n2", "6"))),
                    frame("DELETED", wrap("Node", &node("n1", "7"))),
                    frame("BOOKMARK", wrap("Node", &node("", "9"))),
                ],
            ),
            events(60, &[frame("ADDED", wrap("Node", &node("n4", "10")))]),
        ])
        .await;
        let list = "/nodes?&fieldSelector=a%21%3Db&limit=500";
        let watch = "/nodes?&watch=true&timeoutSeconds=60&fieldSelector=a%21%3Db&allowWatchBookmarks=true";
        assert_eq!(
            asked,
            [
                list.to_owned(),
                format!("{list}&continue=more"),
                format!("{watch}&resourceVersion=5"),
                format!("{watch}&resourceVersion=9")
            ]
        );
        assert_eq!(said[..5], ["a list begins", "n1 n2 n3", "+n2", "-n1", "+n4"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_that_is_too_long_is_asked_for_with_fewer_objects() {
        let too_long = || Body::from(vec![0; LONGEST_PAGE + 1]);
        let (asked, said) =
            follow_nodes(vec![too_long(), page(&["n1"], "5", "more"), too_long(), page(&["n2"], "5", "")])
                .await;
        let limits: Vec<_> = asked.iter().filter_map(|uri| Some(uri.split_once("limit=")?.1)).collect();
        assert_eq!(limits, ["500", "62", "62&continue=more", "7&continue=more"]);
        assert_eq!(said[..2], ["a list begins", "n1 n2"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_over_a_connection_that_leads_nowhere_or_breaks_is_taken_up_where_it_was() {
        fn added(name: &str, version: &str) -> Vec<u8> {
            frame("ADDED", wrap("Node", &node(name, version)))
        }
        let half = stream::once(async { sleep(Duration::from_secs(9)).await });
        let half = half.map(|()| added("n9", "9")[..20].to_vec());
        let (asked, said) = follow_nodes(vec![
            page(&["n1"], "5", ""),
            events(1_000_000, &[added("n2", "6")]),
            Body::from_stream(half.map(Ok::<_, ApiError>)),
            events(60, &[added("n3", "7")]),
        ])
        .await;
        let versions: Vec<_> = asked.iter().filter_map(|uri| Some(uri.split_once("Version=")?.1)).collect();
        assert_eq!(versions, ["5", "6", "6"]);
        assert_eq!(said[..4], ["a list begins", "n1", "+n2", "+n3"]);
    }

    #[tokio::test(start_paused = true)]
    async fn where_nothing_answers_that_is_a_cut() {
        let (_, said) = follow_nodes(vec![page(&["n1"], "5", "")]).await;
        assert_eq!(said[..5], ["a list begins", "n1", "cut", "a list begins", "cut"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_cannot_go_on_begins_anew_with_a_list() {
        let gone = Status { message: b"too old resource version".to_vec(), code: 410 };
        let cut_short = frame("ADDED", wrap("Node", &node("n9", "9")));
        let (_, said) = follow_nodes(vec![
            page(&["n1"], "5", ""),
            events(60, &[frame("ERROR", wrap("Status", &gone))]),
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
        assert!(said.join(", ").starts_with(&wanted), "{said:?}");
    }
}
