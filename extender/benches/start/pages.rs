//! Lists in pages, which the API server in memory does not have: it answers everything at once, more than the extender takes. Each page
//! is a list of its own there: the pods of a namespace, the nodes of a label.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use fake_cluster::api::with_continue_token;
use http::Uri;
use http::header::CONTENT_LENGTH;
use tower::ServiceExt as _;

use crate::objects::{NODES, PAGE, PAGE_LABEL, PODS, namespace};

/// The API server's routes, with pages for whoever asks for them.
pub(crate) fn in_pages(api: Router) -> Router {
    Router::new().fallback(answer).with_state(api)
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
    let body = with_continue_token(&body, token).expect("a list in protobuf");
    Response::from_parts(head, Body::from(body))
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
