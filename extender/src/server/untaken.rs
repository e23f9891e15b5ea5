//! Answers that are not taken yet: they count as under way as their questions' bodies do, and longer ones for their own length. Called by the
//! routes.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use http_body::{Frame, SizeHint};
use runtime::reached;
use tokio::sync::OwnedSemaphorePermit;

use super::bodies::{KIB, units};
use crate::metrics::Verb;
use crate::wire::BodyError;

/// An answer's body.
struct AnswerBody {
    body: Body,
    place: Arc<OwnedSemaphorePermit>,
}

/// What was handed on of an answer. It has the place until the connection, too, has let go of it: what is not sent yet stays in memory.
struct Untaken {
    data: Bytes,
    _place: Arc<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for Untaken {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

/// The answer, which holds the place of the question's body until it was sent.
///
/// # Errors
/// It is longer, and there is no room for the rest.
pub(super) fn answer_in(
    mut place: OwnedSemaphorePermit,
    verb: Verb,
    answer: Response,
) -> Result<Response, BodyError> {
    let length = usize::try_from(answer.body().size_hint().lower()).unwrap_or(usize::MAX);
    enlarge(&mut place, verb, length)?;
    Ok(counted(place, answer))
}

/// Makes a place as large as an answer of this length needs. Room is not waited for: what is to be answered would be kept meanwhile.
///
/// # Errors
/// There is none.
pub(super) fn enlarge(place: &mut OwnedSemaphorePermit, verb: Verb, length: usize) -> Result<(), BodyError> {
    let lacking = units(length.saturating_sub(place.num_permits() * KIB));
    match Arc::clone(place.semaphore()).try_acquire_many_owned(lacking) {
        Ok(more) => {
            place.merge(more);
            Ok(())
        }
        Err(_) => {
            reached("extender: no room for an answer");
            Err(BodyError::NoRoomForAnswer { verb: verb.name() })
        }
    }
}

/// The answer, which holds this place until it was sent.
pub(super) fn counted(place: OwnedSemaphorePermit, answer: Response) -> Response {
    let place = Arc::new(place);
    answer.map(|body| Body::new(AnswerBody { body, place }))
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let place = &self.place;
        let untaken = |data| Bytes::from_owner(Untaken { data, _place: Arc::clone(place) });
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(untaken))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::super::bodies::Bodies;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_longer_than_what_its_question_has_takes_the_rest_or_is_none() {
        let bodies = Bodies::default();
        let free = || bodies.free();
        let all = free();
        let long = Bytes::from(vec![b'y'; 10 << 20]);
        let answer = || Response::new(Body::from(long.clone()));
        let (mut untaken, mut error) = (Vec::new(), String::new());
        for _ in 0..26 {
            let received = bodies.receive(Verb::Filter, Body::from("x".repeat(100 << 10))).await.unwrap();
            match answer_in(received.place, Verb::Filter, answer()) {
                Ok(answer) => untaken.push(answer),
                Err(none) => error = none.to_string(),
            }
        }
        assert_eq!(untaken.len(), 25, "each is 10 MiB");
        assert_eq!(error, "there was no room for the answer of /filter, for other calls' bodies; try again");
        assert_eq!(free(), all - 25 * (10 << 10), "the question's place is free");
        untaken.pop();
        let received = bodies.receive(Verb::Filter, Body::from("x")).await.unwrap();
        assert!(answer_in(received.place, Verb::Filter, answer()).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_has_its_questions_place_until_all_of_it_is_taken() {
        let bodies = Bodies::default();
        let free = || bodies.free();
        let all = free();
        let received = bodies.receive(Verb::Filter, Body::from("x".repeat(300_000))).await.unwrap();
        let long = "y".repeat(750_000);
        let answer = Response::new(Body::from(long.clone()));
        let answer = answer_in(received.place, Verb::Filter, answer).unwrap();
        let mut body = answer.into_body();
        assert_eq!(body.size_hint().exact(), Some(long.len() as u64));
        let mut rest = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(body.frame().await.is_none());
        drop(body);
        let first = rest.split_to(100_000);
        assert_eq!([&first[..], &rest[..]].concat(), long.as_bytes());
        drop(first);
        assert_eq!(free(), all - 4981, "a connection has not sent the rest");
        drop(rest);
        assert_eq!(free(), all);
    }
}
