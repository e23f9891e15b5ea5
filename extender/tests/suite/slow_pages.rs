//! Lists of pods that come in pages, each of which takes its time, as those of 150,000 pods do. Used by tests of two replicas.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::header::CONTENT_LENGTH;
use prost::Message;
use prost::bytes::Bytes;
use tokio::time::sleep;

/// How long each page takes.
const PAGE: Duration = Duration::from_secs(20);

/// The pages of a list.
const PAGES: u32 = 3;

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

/// Whether the call asks for a page of a list of all pods.
pub(crate) fn is_asked(call: &Request) -> bool {
    call.uri().path() == "/api/v1/pods" && !call.uri().query().unwrap_or_default().contains("watch=")
}

/// Answers with the page; each has all pods, and all but the last say that others follow.
pub(crate) async fn answer(call: Request, next: Next) -> Response {
    let token =
        call.uri().query().and_then(|query| query.split('&').find_map(|pair| pair.strip_prefix("continue=")));
    let page: u32 = token.map_or(1, |token| token.parse().unwrap());
    sleep(PAGE).await;
    let (mut head, body) = next.run(call).await.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    if page == PAGES {
        return Response::from_parts(head, Body::from(body));
    }
    head.headers.remove(CONTENT_LENGTH);
    Response::from_parts(head, Body::from(with_token(&body, (page + 1).to_string())))
}

/// The page with what asks for the next one. Of a message that comes twice all fields are read.
fn with_token(body: &Bytes, continue_token: String) -> Vec<u8> {
    let Unknown { type_meta, raw } = Unknown::decode(body.slice(MAGIC..)).unwrap();
    let more = List { metadata: Some(ListMeta { continue_token }) };
    let raw = [&raw[..], &more.encode_to_vec()].concat().into();
    [&body[..MAGIC], &Unknown { type_meta, raw }.encode_to_vec()].concat()
}
