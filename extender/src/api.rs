//! Calls of the API server in protobuf: an object, a page of a list, the frames of a watch, and what it is to do.
//! Called by the watches and by [`crate::binding`].

use std::io;

use axum::body::Bytes;
use axum::http::{HeaderValue, Request, Response, header};
use futures::{Stream, TryStreamExt};
use http_body_util::{BodyExt as _, Limited};
use kube::Client;
use kube::client::Body;
use prost::Message;
use tokio_util::codec::{FramedRead, LengthDelimitedCodec, LengthDelimitedCodecError};
use tokio_util::io::StreamReader;

use crate::protobuf::{self, CONTENT_TYPE, NotRead, Object, Status, WatchEvent, text};

/// The longest frame of a watch, in bytes: etcd holds objects of 1.5 MB.
const LONGEST_FRAME: usize = 16 << 20;

/// Why something could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// The API server says no.
    #[error("{message} ({code})")]
    Status {
        /// The HTTP status.
        code: u16,
        /// Why.
        message: String,
    },
    /// It was not reached, or the answer broke off.
    #[error(transparent)]
    NotReached(#[from] kube::Error),
    /// A watch broke off.
    #[error("the connection broke: {0}")]
    BrokeOff(io::Error),
    /// There was no answer.
    #[error("the API server did not answer in time")]
    Silent,
    /// The answer is longer than asked for.
    #[error("the API server's answer is too long")]
    TooLong,
    /// An answer in words that are not understood here.
    #[error("the API server's answer is not understood: {0}")]
    NotUnderstood(#[from] NotRead),
}

/// What a watch says.
#[derive(Debug)]
pub(crate) enum Event<T> {
    /// The object was added or modified.
    Applied(T),
    /// The object is gone, or no longer selected.
    Deleted(T),
    /// Nothing before this version of the object, which has nothing else, is missing.
    Bookmark(T),
}

/// The object, or the page of a list, that the request asks for.
pub(crate) async fn read<T: Message + Default>(
    client: &Client,
    request: Request<Vec<u8>>,
) -> Result<T, ApiError> {
    let body = send(client, request).await?.into_body().collect().await?.to_bytes();
    Ok(protobuf::unwrap(body)?)
}

/// As [`read`], unless the answer is longer than so many bytes, which is [`ApiError::TooLong`].
pub(crate) async fn read_up_to<T: Message + Default>(
    client: &Client,
    request: Request<Vec<u8>>,
    longest: usize,
) -> Result<T, ApiError> {
    let body = Limited::new(send(client, request).await?.into_body(), longest);
    let body = body.collect().await.map_err(|error| match error.downcast::<kube::Error>() {
        Ok(error) => ApiError::NotReached(*error),
        Err(_) => ApiError::TooLong,
    })?;
    Ok(protobuf::unwrap(body.to_bytes())?)
}

/// Has the API server do what the request says.
pub(crate) async fn write(client: &Client, request: Request<Vec<u8>>) -> Result<(), ApiError> {
    // Read to its end, so that the connection serves again.
    send(client, request).await?.into_body().collect().await?;
    Ok(())
}

/// The events of the watch that the request asks for, until the API server ends it. An error ends it too.
pub(crate) async fn watch<T: Object>(
    client: &Client,
    request: Request<Vec<u8>>,
) -> Result<impl Stream<Item = Result<Event<T>, ApiError>> + Unpin, ApiError> {
    let body = send(client, request).await?.into_body().into_data_stream();
    let bytes = StreamReader::new(body.map_err(io::Error::other));
    let frames = LengthDelimitedCodec::builder().max_frame_length(LONGEST_FRAME).new_codec();
    let events = FramedRead::new(bytes, frames).map_err(|error| match error.get_ref() {
        Some(inner) if inner.is::<LengthDelimitedCodecError>() => NotRead::TooLong.into(),
        _ => ApiError::BrokeOff(error),
    });
    Ok(events.and_then(|frame| std::future::ready(event(frame.freeze()))))
}

fn event<T: Object>(frame: Bytes) -> Result<Event<T>, ApiError> {
    let WatchEvent { kind, object } = WatchEvent::decode(frame).map_err(NotRead::from)?;
    let object = object.unwrap_or_default().raw;
    match kind.as_str() {
        "ADDED" | "MODIFIED" => Ok(Event::Applied(protobuf::unwrap(object)?)),
        "DELETED" => Ok(Event::Deleted(protobuf::unwrap(object)?)),
        "BOOKMARK" => Ok(Event::Bookmark(protobuf::unwrap(object)?)),
        _ => {
            let Status { message, code } = protobuf::unwrap(object)?;
            Err(ApiError::Status { code: u16::try_from(code).unwrap_or_default(), message: text(message) })
        }
    }
}

/// The answer, if it is a success.
async fn send(client: &Client, mut request: Request<Vec<u8>>) -> Result<Response<Body>, ApiError> {
    request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(CONTENT_TYPE));
    let answer = client.send(request.map(Body::from)).await?;
    if answer.status().is_success() {
        return Ok(answer);
    }
    let code = answer.status().as_u16();
    let body = answer.into_body().collect().await?.to_bytes();
    Err(ApiError::Status { code, message: reason(&body) })
}

/// What a refusal says: a Status in protobuf, or what stands before the API server answers, a Status in JSON or words.
fn reason(body: &Bytes) -> String {
    if let Ok(Status { message, .. }) = protobuf::unwrap(body.clone()) {
        return text(message);
    }
    match serde_json::from_slice::<kube::core::Status>(body) {
        Ok(status) => status.message,
        Err(_) => String::from_utf8_lossy(body).trim().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::protobuf(protobuf::wrap("Status", &Status { message: b"told so".to_vec(), code: 403 }))]
    #[case::json(br#"{"kind": "Status", "status": "Failure", "message": "told so", "code": 403}"#.to_vec())]
    #[case::words(b"told so\n".to_vec())]
    fn a_refusal_says_why(#[case] body: Vec<u8>) {
        assert_eq!(reason(&body.into()), "told so");
    }
}
