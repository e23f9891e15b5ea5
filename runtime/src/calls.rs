//! Single calls of the API server: read an object, send one, begin a watch. Called by the list-and-watch and by the
//! extender's binds.

use http::{HeaderValue, Request, Response, header};
use http_body_util::{BodyExt as _, Limited};
use kube::Client;
use kube::client::Body;
use prost::bytes::Bytes;

use crate::encoding::protobuf::status_message;
use crate::encoding::{Encoding, Unreadable};

/// Why a call did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The API server refuses it.
    #[error("{message} ({code})")]
    Status {
        /// HTTP status, never 2xx.
        code: u16,
        /// Why.
        message: String,
    },
    /// The API server was not reached, or its answer broke off.
    #[error(transparent)]
    NotReached(#[from] kube::Error),
    /// There was no answer.
    #[error("the API server did not answer in time")]
    NotAnswered,
    /// The answer is longer than the caller takes.
    #[error("the API server's answer is too long")]
    TooLong,
    /// The answer is not what was asked for.
    #[error("the API server's answer is not understood: {0}")]
    Unreadable(#[from] Unreadable),
}

/// The object that the request asks for.
///
/// # Errors
/// The API server refuses or is not reached, or its answer is not such an object.
pub async fn read<K, E: Encoding<K>>(
    client: &Client,
    request: Request<Vec<u8>>,
    encoding: &E,
) -> Result<K, CallError> {
    let body = send(client, request, E::MEDIA_TYPE).await?.into_body().collect().await?.to_bytes();
    Ok(encoding.object(body)?)
}

/// Has the API server do what the request says. `media_type` is that of its answer, which is not read.
///
/// # Errors
/// The API server refuses or is not reached.
pub async fn write(
    client: &Client,
    request: Request<Vec<u8>>,
    media_type: &'static str,
) -> Result<(), CallError> {
    // The body is taken to its end, so that the connection serves again.
    send(client, request, media_type).await?.into_body().collect().await?;
    Ok(())
}

/// The answer's body, which must be no longer than `longest` bytes.
pub(crate) async fn body_up_to(
    client: &Client,
    request: Request<Vec<u8>>,
    media_type: &'static str,
    longest: usize,
) -> Result<Bytes, CallError> {
    let body = Limited::new(send(client, request, media_type).await?.into_body(), longest);
    let body = body.collect().await.map_err(|error| match error.downcast::<kube::Error>() {
        Ok(error) => CallError::NotReached(*error),
        Err(_) => CallError::TooLong,
    })?;
    Ok(body.to_bytes())
}

/// The answer, if it is a success.
pub(crate) async fn send(
    client: &Client,
    mut request: Request<Vec<u8>>,
    media_type: &'static str,
) -> Result<Response<Body>, CallError> {
    request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(media_type));
    let answer = client.send(request.map(Body::from)).await?;
    if answer.status().is_success() {
        return Ok(answer);
    }
    let code = answer.status().as_u16();
    let body = answer.into_body().collect().await?.to_bytes();
    Err(CallError::Status { code, message: message(&body) })
}

/// Why a call was refused: a Status in protobuf, or from something in front of the API server, a Status in JSON or plain
/// text.
fn message(body: &Bytes) -> String {
    if let Some(message) = status_message(body) {
        return message;
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
    use crate::encoding::protobuf::{Status, wrap};

    #[rstest]
    #[case::protobuf(wrap("Status", &Status { message: b"told so".to_vec(), code: 403 }))]
    #[case::json(br#"{"kind": "Status", "status": "Failure", "message": "told so", "code": 403}"#.to_vec())]
    #[case::text(b"told so\n".to_vec())]
    fn a_refusal_says_why(#[case] body: Vec<u8>) {
        assert_eq!(message(&body.into()), "told so");
    }
}
