//! The bodies of a connection's answers, and until when each is to be taken. Made by [`super::calls`].
//!
//! HTTP/1 writes one answer after another, and [`super::stall`] sees how fast it goes. Over HTTP/2 a client says how much it takes of each
//! by itself, and the connection never stands still.

use std::collections::BTreeMap;
use std::future::pending;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use hyper::body::{Body as _, Frame, SizeHint};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::Protocol;
use super::calls::Call;
use super::stall::time_for;

/// HTTP/2: what is given of an answer at a time, one frame as most clients take them. hyper keeps all that it has been given, and its call
/// would be over with it.
const PIECE: usize = 16 << 10;

/// The answers of one connection that are being taken.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    open: Mutex<Open>,
    begun: Notify,
}

#[derive(Debug, Default)]
struct Open {
    /// The number of the next one.
    next: u64,
    /// When each must have been taken.
    ends: BTreeMap<u64, Instant>,
}

/// The body of an answer. Its call is open until the whole of it was taken.
pub(super) struct AnswerBody {
    body: Body,
    piece: usize,
    /// What the body has given and nobody has taken yet.
    rest: Bytes,
    number: Option<u64>,
    call: Call,
}

impl Answers {
    /// Waits until one is not taken in time.
    pub(super) async fn too_slow(&self) {
        loop {
            let first = self.open().ends.values().min().copied();
            if first.is_some_and(|first| first <= Instant::now()) {
                return;
            }
            let end = async {
                match first {
                    Some(first) => sleep_until(first).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.0.begun.notified() => {}
                () = end => {}
            }
        }
    }

    fn begin(&self, bytes: u64) -> u64 {
        let mut open = self.open();
        let number = open.next;
        open.next += 1;
        open.ends.insert(number, Instant::now() + time_for(bytes));
        self.0.begun.notify_one();
        number
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AnswerBody {
    /// The answer to this call. One whose length nobody knows may take as long as it wants.
    pub(super) fn of(body: Body, protocol: Protocol, call: Call) -> Self {
        let (piece, number) = match protocol {
            Protocol::Http1 => (usize::MAX, None),
            Protocol::Http2 => (PIECE, body.size_hint().exact().map(|bytes| call.answers().begin(bytes))),
        };
        Self { body, piece, rest: Bytes::new(), number, call }
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.call.answers().open().ends.remove(&number);
        }
    }
}

impl hyper::body::Body for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => frame.into_data(),
                ended => return Poll::Ready(ended),
            };
            match frame {
                Ok(bytes) => self.rest = bytes,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        let size = self.piece.min(self.rest.len());
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(size)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (of_body, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(of_body.lower() + rest);
        if let Some(upper) = of_body.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}
