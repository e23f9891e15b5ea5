//! Counts the calls of one connection, sees which of them is to be the last, and since when there is none. Called by
//! [`super::connection`], asked by [`super::places`].

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{HeaderValue, Request, Response, header};
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::Protocol;
use super::answers::{AnswerBody, Answers};

/// How long a connection that has begun, or whose last call is over, is not idle yet: its first call, or an answer's last bytes, may be on
/// their way.
const ON_THE_WAY: Duration = Duration::from_millis(100);

/// As an extension of an answer: its connection takes no more calls, since the caller had better reach another server, and closes when
/// those under way are answered.
#[derive(Clone, Copy, Debug)]
pub struct LastCall;

/// The calls of one connection.
#[derive(Clone, Debug)]
pub(super) struct Calls {
    count: watch::Sender<Count>,
    last: CancellationToken,
    /// Notified when the connection becomes idle.
    idle: Arc<Notify>,
    answers: Answers,
}

#[derive(Clone, Copy, Debug)]
struct Count {
    has_begun: bool,
    open: usize,
    /// What was written is not taken yet, though its call may be over: an answer's last bytes outlive its body.
    is_stuck: bool,
    /// When one of the two above has changed last, or the connection began.
    changed: Instant,
}

/// Routes whose calls are counted.
pub(super) struct Counted {
    routes: TowerToHyperService<Router>,
    protocol: Protocol,
    calls: Calls,
}

/// A call that is open until this is dropped.
pub(super) struct Call(Calls);

impl Calls {
    /// Those of a connection that begins now, which has had none. Who waits for an idle connection is notified.
    pub(super) fn none(idle: Arc<Notify>) -> Self {
        let count = Count { has_begun: false, open: 0, is_stuck: false, changed: Instant::now() };
        Self {
            count: watch::Sender::new(count),
            last: CancellationToken::new(),
            idle,
            answers: Answers::default(),
        }
    }

    /// From when on the connection is idle: without a call, and without an answer that is still being taken. None if it is not to be.
    pub(super) fn idle_from(&self) -> Option<Instant> {
        let count = *self.count.borrow();
        count.is_idle().then(|| count.changed + ON_THE_WAY)
    }

    /// Says whether something that was written is not taken yet.
    pub(super) fn set_stuck(&self, is_stuck: bool) {
        self.change(|count| Count { is_stuck, ..count });
    }

    fn change(&self, changed: impl FnOnce(Count) -> Count) {
        let mut is_idle = false;
        self.count.send_modify(|count| {
            *count = Count { changed: Instant::now(), ..changed(*count) };
            is_idle = count.is_idle();
        });
        if is_idle {
            self.idle.notify_one();
        }
    }

    /// The routes, whose calls are counted here.
    pub(super) fn counted(&self, routes: Router, protocol: Protocol) -> Counted {
        Counted { routes: TowerToHyperService::new(routes), protocol, calls: self.clone() }
    }

    /// Waits until an answer was a [`LastCall`].
    pub(super) async fn last(&self) {
        self.last.cancelled().await;
    }

    /// Waits until an answer is taken too slowly.
    pub(super) async fn too_slow(&self) {
        self.answers.too_slow().await;
    }

    /// Waits for the first call.
    pub(super) async fn first(&self) {
        // Fails only without a sender, and this is one.
        let _ = self.count.subscribe().wait_for(|count| count.has_begun).await;
    }

    /// Waits until there was no call for so long.
    pub(super) async fn none_for(&self, limit: Duration) {
        let mut count = self.count.subscribe();
        loop {
            let _ = count.wait_for(|count| count.open == 0).await;
            if timeout(limit, count.changed()).await.is_err() {
                return;
            }
        }
    }
}

impl Count {
    fn is_idle(self) -> bool {
        self.open == 0 && !self.is_stuck
    }
}

impl Call {
    fn begin(calls: &Calls) -> Self {
        calls.change(|count| Count { has_begun: true, open: count.open + 1, ..count });
        Self(calls.clone())
    }
}

impl Call {
    /// The answers of its connection.
    pub(super) fn answers(&self) -> &Answers {
        &self.0.answers
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0.change(|count| Count { open: count.open - 1, ..count });
    }
}

impl Service<Request<Incoming>> for Counted {
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (call, answer) = (Call::begin(&self.calls), self.routes.call(request));
        let (last, protocol) = (self.calls.last.clone(), self.protocol);
        async move {
            let mut answer = answer.await?;
            if answer.extensions().get::<LastCall>().is_some() {
                // HTTP/2 has a frame for it, which is sent at the end.
                if protocol == Protocol::Http1 {
                    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                }
                last.cancel();
            }
            Ok(answer.map(|body| AnswerBody::of(body, protocol, call)))
        }
        .boxed()
    }
}
