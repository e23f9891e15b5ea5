//! Every answer on its way out, turned into protobuf if that was asked for. Called by the routes.

use axum::body::{Body, Bytes, HttpBody as _, to_bytes};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::TryStreamExt;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use http::response::Parts;
use http::{HeaderMap, HeaderValue};
use serde::Deserialize;
use serde_json::Value;

use super::write;
use crate::api::error::ApiError;

/// Answers in protobuf where nothing else is accepted, else in JSON. An object that cannot be written so is a 406.
pub(in crate::api) async fn answer_as_asked(request: Request, next: Next) -> Response {
    let accepts = request.headers().get(ACCEPT).is_some_and(|kind| kind == super::CONTENT_TYPE);
    let answer = next.run(request).await;
    if !accepts || !is(answer.headers(), "application/json") {
        return answer;
    }
    let (head, body) = answer.into_parts();
    // A watch has no length.
    if body.size_hint().exact().is_none() {
        let frames = body.into_data_stream().map_ok(|lines| frames(&lines)).map_err(std::io::Error::other);
        return labelled(head, "application/vnd.kubernetes.protobuf;stream=watch", Body::from_stream(frames));
    }
    let read = to_bytes(body, usize::MAX).await.ok().and_then(|body| serde_json::from_slice(&body).ok());
    match read.as_ref().and_then(write::object) {
        Some(object) => labelled(head, super::CONTENT_TYPE, Body::from(object)),
        None => ApiError::not_acceptable().into_response(),
    }
}

fn is(headers: &HeaderMap, kind: &str) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|found| found == kind)
}

fn labelled(mut head: Parts, kind: &'static str, body: Body) -> Response {
    head.headers.remove(CONTENT_LENGTH);
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Response::from_parts(head, body)
}

/// The events of a watch, a line each, as frames.
fn frames(lines: &[u8]) -> Bytes {
    #[derive(Deserialize)]
    struct Line {
        r#type: String,
        object: Value,
    }
    let mut frames = Vec::new();
    for line in serde_json::Deserializer::from_slice(lines).into_iter::<Line>().flatten() {
        let frame = match write::object(&line.object) {
            Some(object) => write::frame(&line.r#type, &object),
            None => {
                let status = write::object(&ApiError::not_acceptable().to_status()).unwrap_or_default();
                write::frame("ERROR", &status)
            }
        };
        frames.extend(frame);
    }
    Bytes::from(frames)
}
