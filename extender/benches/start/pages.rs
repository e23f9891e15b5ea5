//! Lists in pages, which the API server in memory does not have: it answers everything at once, more than the extender takes. Each page
//! is a list of its own there: the pods of a namespace, the nodes of a label.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use http::Uri;
use http::header::CONTENT_LENGTH;
use prost::Message;
use prost::bytes::Bytes;
use tower::ServiceExt as _;

use crate::objects::{NODES, PAGE, PAGE_LABEL, PODS, namespace};

/// What Kubernetes' protobuf begins with: `k8s` and a zero.
const MAGIC: usize = 4;

/// Any object.
#[derive(Clone, PartialEq, Message)]
struct Unknown {
    #[prost(bytes = "bytes", tag = "1")]
    type_meta: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    raw: Bytes,
}

/// A list without its items.
#[derive(Clone, PartialEq, Message)]
struct List {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ListMeta>,
}

#[derive(Clone, PartialEq, Message)]
struct ListMeta {
    #[prost(string, tag = "3")]
    continue_token: String,
}

/// The API server's routes, with pages for whoever asks for them.
pub(crate) fn in_pages(api: Router) -> Router {
    Router::new().fallback(answer).with_state(api)
}

/// Asks for the next page; none on the last one.
pub(crate) fn continue_token(page: &Bytes) -> Option<String> {
    let List { metadata } = List::decode(unwrapped(page).raw).expect("a list in protobuf");
    metadata.map(|metadata| metadata.continue_token).filter(|token| !token.is_empty())
}

async fn answer(State(api): State<Router>, mut request: Request) -> Response {
    let Some((uri, next)) = page(request.uri()) else { return pass(api, request).await };
    *request.uri_mut() = uri;
    let (mut head, body) = pass(api, request).await.into_parts();
    let body = to_bytes(body, usize::MAX).await.expect("a page");
    assert!(head.status.is_success(), "{}", String::from_utf8_lossy(&body));
    let Some(token) = next else { return Response::from_parts(head, Body::from(body)) };
    // It is longer with the token.
    head.headers.remove(CONTENT_LENGTH);
    Response::from_parts(head, Body::from(with_token(&body, token)))
}

async fn pass(api: Router, request: Request) -> Response {
    api.oneshot(request).await.unwrap_or_else(|never| match never {})
}

/// Where the page is that is asked for, and what asks for the next; none for anything else.
fn page(uri: &Uri) -> Option<(Uri, Option<String>)> {
    let query = uri.query()?;
    let parameter = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    parameter("limit")?;
    let page = parameter("continue").map_or(0, |token| token.parse().expect("a token of this server"));
    // What is said beside a selector is not looked at there.
    let (target, pages) = match uri.path() {
        "/api/v1/pods" => (format!("/api/v1/namespaces/{}/pods?{query}", namespace(page)), PODS / PAGE),
        "/api/v1/nodes" => {
            (format!("/api/v1/nodes?{query}&labelSelector={PAGE_LABEL}%3D{page}"), NODES / PAGE)
        }
        _ => return None,
    };
    let next = Some(page + 1).filter(|next| *next < pages).map(|next| next.to_string());
    Some((target.parse().expect("an address"), next))
}

fn unwrapped(body: &Bytes) -> Unknown {
    Unknown::decode(body.slice(MAGIC..)).expect("an object in protobuf")
}

/// The page with what asks for the next one. Of a message that comes twice all fields are read.
fn with_token(body: &Bytes, continue_token: String) -> Vec<u8> {
    let Unknown { type_meta, raw } = unwrapped(body);
    let more = List { metadata: Some(ListMeta { continue_token }) };
    let raw = [&raw[..], &more.encode_to_vec()].concat().into();
    [&body[..MAGIC], &Unknown { type_meta, raw }.encode_to_vec()].concat()
}
