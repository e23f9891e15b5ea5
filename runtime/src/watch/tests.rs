//! The list-and-watch against an API server that answers from a script, in JSON and in protobuf. Time stands still but for
//! what is waited for.

mod silence;

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use futures::stream;
use http::Response;
use k8s_openapi::api::core::v1::Node;
use prost::Message;
use rstest::rstest;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::timeouts::LONGEST_PAGE;
use super::*;
use crate::encoding::protobuf::{List, ListMeta, Object, RawEvent, RawExtension, Status, wrap};
use crate::{Json, Protobuf};

/// What the API server speaks.
#[derive(Clone, Copy, Debug)]
enum Form {
    Json,
    Protobuf,
}
use Form::{Json as InJson, Protobuf as InProtobuf};

/// A node with nothing but a name and a version.
#[derive(Clone, PartialEq, Message)]
struct SmallNode {
    #[prost(message, required, tag = "1")]
    metadata: Metadata,
}

#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "6")]
    resource_version: String,
}

impl Object for SmallNode {
    fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }
}

impl Form {
    fn page(self, names: &[&str], version: &str, continue_token: &str) -> Body {
        let items = names.iter().map(|name| (*name, "1"));
        Body::from(match self {
            Form::Json => {
                let items: Vec<_> = items.map(|(name, version)| json_node(name, version)).collect();
                let metadata = json!({"resourceVersion": version, "continue": continue_token});
                json!({"kind": "NodeList", "apiVersion": "v1", "metadata": metadata, "items": items})
                    .to_string()
                    .into_bytes()
            }
            Form::Protobuf => {
                let items = items.map(|(name, version)| small_node(name, version).encode_to_vec().into());
                let (resource_version, continue_token) = (version.to_owned(), continue_token.to_owned());
                let metadata = Some(ListMeta { resource_version, continue_token });
                wrap("NodeList", &List { metadata, items: items.collect() })
            }
        })
    }

    fn frame(self, kind: &str, name: &str, version: &str) -> Vec<u8> {
        match self {
            // A bookmark has nothing else, so it is not a Node that serde would take.
            Form::Json if kind == "BOOKMARK" => {
                let object = json!({"kind": "Node", "metadata": {"resourceVersion": version}});
                format!("{}\n", json!({"type": kind, "object": object})).into_bytes()
            }
            Form::Json => {
                format!("{}\n", json!({"type": kind, "object": json_node(name, version)})).into_bytes()
            }
            Form::Protobuf => protobuf_frame(kind, wrap("Node", &small_node(name, version))),
        }
    }

    fn gone(self) -> Vec<u8> {
        let message = "too old resource version";
        match self {
            Form::Json => {
                let status = json!({"kind": "Status", "status": "Failure", "message": message, "code": 410});
                format!("{}\n", json!({"type": "ERROR", "object": status})).into_bytes()
            }
            Form::Protobuf => {
                protobuf_frame("ERROR", wrap("Status", &Status { message: message.into(), code: 410 }))
            }
        }
    }

    /// The watch's events: names, and what is between them.
    fn watch(self, client: Client, nodes: Collection) -> BoxStream<'static, String> {
        match self {
            Form::Json => {
                let name = |node: Node| node.metadata.name.unwrap_or_default();
                watch(&System::real(), client, nodes, Json).map(move |event| told(event, name)).boxed()
            }
            Form::Protobuf => {
                let name = |node: SmallNode| node.metadata.name;
                watch(&System::real(), client, nodes, Protobuf).map(move |event| told(event, name)).boxed()
            }
        }
    }
}

fn json_node(name: &str, version: &str) -> serde_json::Value {
    json!({"metadata": {"name": name, "resourceVersion": version}})
}

fn small_node(name: &str, version: &str) -> SmallNode {
    SmallNode { metadata: Metadata { name: name.to_owned(), resource_version: version.to_owned() } }
}

fn protobuf_frame(kind: &str, object: Vec<u8>) -> Vec<u8> {
    let event = RawEvent { kind: kind.to_owned(), object: Some(RawExtension { raw: object.into() }) };
    let event = event.encode_to_vec();
    [u32::try_from(event.len()).unwrap().to_be_bytes().as_slice(), &event].concat()
}

fn told<K>(event: Result<Event<K>, Disconnected>, name: impl Fn(K) -> String) -> String {
    match event {
        Ok(Event::Init) => "list".to_owned(),
        Ok(Event::InitApply(object)) => name(object),
        Ok(Event::InitDone) => "listed".to_owned(),
        Ok(Event::Apply(object)) => format!("+{}", name(object)),
        Ok(Event::Delete(object)) => format!("-{}", name(object)),
        Err(_) => "disconnected".to_owned(),
    }
}

/// The shortest time that a watch is asked for, in seconds: the API server ends it no later than it was asked to.
const ENDS: u64 = 48;

/// A watch that says this, in pieces that end anywhere, and ends after so many seconds.
fn events(seconds: u64, frames: &[Vec<u8>]) -> Body {
    let pieces: Vec<Vec<u8>> = frames.concat().chunks(7).map(<[u8]>::to_vec).collect();
    let end = stream::once(async move { sleep(Duration::from_secs(seconds)).await }).map(|()| Vec::new());
    Body::from_stream(stream::iter(pieces).chain(end).map(Ok::<_, io::Error>))
}

/// What was asked, each with the time since the beginning, while the API server gave these answers, one after the other
/// and then no more, and all that was told in an hour.
async fn follow_timed(form: Form, answers: Vec<Body>) -> (Vec<(Duration, String)>, String) {
    let (asked, mut all_asked) = mpsc::unbounded_channel();
    let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
    let began = Instant::now();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let answer = answers.lock().unwrap().pop_front();
        if answer.is_some() {
            asked.send((began.elapsed(), request.uri().to_string())).unwrap();
        }
        async move {
            match answer {
                Some(answer) => Ok::<_, tower::BoxError>(Response::new(answer)),
                None => std::future::pending().await,
            }
        }
    });
    let nodes = Collection { path: "/nodes".to_owned(), ..Collection::of::<Node>().only("a!=b") };
    let mut told = Vec::new();
    let mut stream = form.watch(Client::new(service, "default"), nodes);
    let all = async {
        while let Some(text) = stream.next().await {
            told.push(text);
        }
    };
    assert!(timeout(Duration::from_secs(3600), all).await.is_err(), "a watch has no end");
    drop(stream);
    let mut asked = Vec::new();
    while let Some(request) = all_asked.recv().await {
        asked.push(request);
    }
    (asked, told.join(" "))
}

async fn follow(form: Form, answers: Vec<Body>) -> (Vec<String>, String) {
    let (asked, told) = follow_timed(form, answers).await;
    (asked.into_iter().map(|(_, uri)| uri).collect(), told)
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn pages_are_listed_to_the_end_and_a_watch_goes_on_where_it_ended(
    #[values(InJson, InProtobuf)] form: Form,
) {
    let (asked, told) = follow(
        form,
        vec![
            form.page(&["n1", "n2"], "5", "more"),
            form.page(&["n3"], "5", ""),
            events(
                ENDS,
                &[
                    form.frame("MODIFIED", "n2", "6"),
                    form.frame("DELETED", "n1", "7"),
                    form.frame("BOOKMARK", "", "9"),
                ],
            ),
            events(ENDS, &[form.frame("ADDED", "n4", "10")]),
        ],
    )
    .await;
    let list = "/nodes?&fieldSelector=a%21%3Db&limit=500";
    assert_eq!(asked[..2], [list.to_owned(), format!("{list}&continue=more")]);
    for (asked, version) in asked[2..].iter().zip(["5", "9"]) {
        let (begin, rest) = asked.split_once("&timeoutSeconds=").unwrap();
        let (seconds, rest) = rest.split_once('&').unwrap();
        assert_eq!(begin, "/nodes?&watch=true");
        assert!((48..=60).contains(&seconds.parse().unwrap()), "{seconds}");
        assert_eq!(
            rest,
            format!("fieldSelector=a%21%3Db&allowWatchBookmarks=true&resourceVersion={version}")
        );
    }
    assert_eq!(asked.len(), 4);
    assert!(told.starts_with("list n1 n2 n3 listed +n2 -n1 +n4 disconnected list "), "{told}");
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn a_page_that_is_too_long_is_asked_for_with_fewer_objects(#[values(InJson, InProtobuf)] form: Form) {
    let too_long = || Body::from(vec![0; LONGEST_PAGE + 1]);
    let page = |name, token| form.page(&[name], "5", token);
    let (asked, told) = follow(form, vec![too_long(), page("n1", "more"), too_long(), page("n2", "")]).await;
    let limits: Vec<_> = asked.iter().filter_map(|uri| Some(uri.split_once("limit=")?.1)).collect();
    assert_eq!(limits, ["500", "62", "62&continue=more", "7&continue=more"]);
    assert!(told.starts_with("list n1 n2 listed "), "{told}");
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn a_watch_that_breaks_is_taken_up_where_it_was(#[values(InJson, InProtobuf)] form: Form) {
    let half = stream::once(async { sleep(Duration::from_secs(9)).await });
    let half = half.map(move |()| Ok(form.frame("ADDED", "n9", "9")[..20].to_vec()));
    let broken = half.chain(stream::once(async { Err(io::Error::other("connection reset by peer")) }));
    let (asked, told) = follow(
        form,
        vec![
            form.page(&["n1"], "5", ""),
            events(ENDS, &[form.frame("ADDED", "n2", "6")]),
            Body::from_stream(broken),
            events(ENDS, &[form.frame("ADDED", "n3", "7")]),
        ],
    )
    .await;
    let versions: Vec<_> = asked.iter().filter_map(|uri| Some(uri.split_once("Version=")?.1)).collect();
    assert_eq!(versions, ["5", "6", "6"]);
    assert!(told.starts_with("list n1 listed +n2 +n3 "), "{told}");
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn a_watch_or_a_list_that_is_never_answered_is_given_up(#[values(InJson, InProtobuf)] form: Form) {
    let (_, told) = follow(form, vec![form.page(&["n1"], "5", "")]).await;
    assert!(told.starts_with("list n1 listed disconnected list disconnected list disconnected "), "{told}");
    let lists = told.matches("list ").count();
    assert!((100..=120).contains(&lists), "{lists} lists in an hour, each given up after 30 s");
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn a_watch_that_cannot_go_on_begins_again_with_a_list(#[values(InJson, InProtobuf)] form: Form) {
    let (_, told) = follow(
        form,
        vec![
            form.page(&["n1"], "5", ""),
            events(60, &[form.gone()]),
            form.page(&["n2"], "8", ""),
            // Ends as soon as it has begun.
            Body::empty(),
            form.page(&["n3"], "8", ""),
            Body::from(form.frame("ADDED", "n9", "9")[..20].to_vec()),
            form.page(&["n4"], "8", ""),
            // Its object has no version.
            events(60, &[form.frame("ADDED", "n9", "")]),
            Body::from("no list".to_owned()),
            form.page(&["n5"], "", ""),
            form.page(&["n6"], "8", ""),
        ],
    )
    .await;
    let wanted = "list n1 listed disconnected list n2 listed disconnected list n3 listed disconnected \
                  list n4 listed disconnected list disconnected list disconnected list n6 listed ";
    assert!(told.starts_with(wanted), "{told}");
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn lists_that_succeed_while_watches_do_not_are_asked_for_ever_more_rarely(
    #[values(InJson, InProtobuf)] form: Form,
) {
    let ends_at_once = || [form.page(&[], "5", ""), Body::empty()];
    let late = stream::once(async move {
        sleep(Duration::from_secs(20)).await;
        Ok::<_, io::Error>(form.gone())
    });
    let lasts = [form.page(&[], "5", ""), Body::from_stream(late)];
    let rounds: Vec<_> = (0..8).map(|_| ends_at_once()).chain([lasts]).chain([ends_at_once()]).collect();
    let (asked, _) = follow_timed(form, rounds.into_iter().flatten().collect()).await;
    let lists: Vec<_> = asked.iter().filter(|(_, uri)| !uri.contains("watch")).collect();
    let pauses: Vec<_> = lists.windows(2).map(|two| (two[1].0 - two[0].0).as_millis()).collect();
    for (pause, longest) in pauses.iter().zip([200, 400, 800, 1600, 3200, 5000, 5000, 5000, 20_200]) {
        assert!((longest * 8 / 10..=longest + 20).contains(pause), "{pauses:?}");
    }
    assert_eq!(pauses.len(), 9);
}

#[tokio::test(start_paused = true)]
async fn the_error_names_the_collection_and_the_reason() {
    let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
        let refusal = Response::builder().status(403).body(Body::from("told so"));
        Ok::<_, tower::BoxError>(refusal.unwrap())
    });
    let pods = Collection::of::<k8s_openapi::api::core::v1::Pod>();
    assert_eq!(pods.path, "/api/v1/pods");
    let mut events = watch::<Node, _>(&System::real(), Client::new(service, "default"), pods, Json);
    assert!(matches!(events.next().await, Some(Ok(Event::Init))));
    let error = events.next().await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the watch of pods is disconnected, a list follows: told so (403)");
}

#[tokio::test(start_paused = true)]
async fn a_gap_is_open_from_the_end_of_a_watch_until_the_next_has_told_what_happened() {
    // A watch that begins two seconds after it was asked for, and tells at once what has happened since the first one's end.
    let answers =
        [InJson.page(&["n1"], "5", ""), events(ENDS, &[]), events(ENDS, &[InJson.frame("ADDED", "n2", "6")])];
    let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
    let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
        let (answer, is_last) = {
            let mut answers = answers.lock().unwrap();
            (answers.pop_front(), answers.is_empty())
        };
        async move {
            sleep(Duration::from_secs(if is_last { 2 } else { 0 })).await;
            match answer {
                Some(answer) => Ok::<_, tower::BoxError>(Response::new(answer)),
                None => std::future::pending().await,
            }
        }
    });
    let gap = Gap::default();
    let (client, nodes) = (Client::new(service, "default"), Collection::of::<Node>());
    let mut stream = watch_with_gap::<Node, _>(&System::real(), client, nodes, Json, gap.clone());
    let began = Instant::now();
    let looks = async {
        let mut changes = Vec::new();
        loop {
            let is_open = gap.is_open();
            if changes.last().is_none_or(|(_, before)| *before != is_open) {
                changes.push((began.elapsed().as_millis(), is_open));
            }
            if began.elapsed() > Duration::from_secs(70) {
                return changes;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    let mut told = Vec::new();
    let follow = async {
        while let Some(event) = stream.next().await {
            if let Ok(Event::Apply(node)) = event {
                told.push((gap.is_open(), node.metadata.name.unwrap_or_default()));
            }
        }
    };
    let changes = tokio::select! { changes = looks => changes, () = follow => unreachable!() };
    assert_eq!(told, [(true, "n2".to_owned())]);
    let is_open: Vec<bool> = changes.iter().map(|(_, is_open)| *is_open).collect();
    assert_eq!(is_open, [false, true, false, true, false], "{changes:?}");
    let lasted = changes[4].0 - changes[3].0;
    assert!((2000..=2200).contains(&lasted), "{changes:?}");
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_gap_is_woken_when_it_closes() {
    let gap = Gap::default();
    gap.closed().await;
    gap.open();
    let (began, other) = (Instant::now(), gap.clone());
    let closes = async {
        sleep(Duration::from_secs(3)).await;
        other.close();
    };
    tokio::join!(gap.closed(), gap.closed(), closes);
    assert_eq!(began.elapsed(), Duration::from_secs(3));
}
