//! Lists of pods that come in pages, each of which takes its time, as those of 150,000 pods do. Used by tests of two replicas.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use fake_cluster::api::with_continue_token;
use http::header::CONTENT_LENGTH;
use tokio::time::sleep;

/// How long each page takes.
const PAGE: Duration = Duration::from_secs(20);

/// The pages of a list.
const PAGES: u32 = 3;

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
    Response::from_parts(head, Body::from(with_continue_token(&body, (page + 1).to_string()).unwrap()))
}
