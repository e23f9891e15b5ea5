//! Counts the calls of one connection, and sees which of them is to be the last. Called by [`super::connection`].

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{HeaderValue, Request, Response, header};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Protocol;

/// As an extension of an answer: its connection takes no more calls, since the caller had better reach another server, and closes when
/// those under way are answered.
#[derive(Clone, Copy, Debug)]
pub struct LastCall;

/// The calls of one connection.
#[derive(Debug, Default)]
pub(super) struct Calls {
    count: watch::Sender<Count>,
    last: CancellationToken,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    has_begun: bool,
    open: usize,
}

/// Routes whose calls are counted.
pub(super) struct Counted {
    routes: TowerToHyperService<Router>,
    protocol: Protocol,
    count: watch::Sender<Count>,
    last: CancellationToken,
}

/// A call that is open until this is dropped.
struct Call(watch::Sender<Count>);

/// The body of an answer. Its call is open until the whole of it was taken.
pub(super) struct AnswerBody {
    body: Body,
    _call: Call,
}

impl Calls {
    /// The routes, whose calls are counted here.
    pub(super) fn counted(&self, routes: Router, protocol: Protocol) -> Counted {
        let routes = TowerToHyperService::new(routes);
        Counted { routes, protocol, count: self.count.clone(), last: self.last.clone() }
    }

    /// Waits until an answer was a [`LastCall`].
    pub(super) async fn last(&self) {
        self.last.cancelled().await;
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

impl Call {
    fn begin(count: &watch::Sender<Count>) -> Self {
        count.send_modify(|count| *count = Count { has_begun: true, open: count.open + 1 });
        Self(count.clone())
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0.send_modify(|count| count.open -= 1);
    }
}

impl Service<Request<Incoming>> for Counted {
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (call, answer) = (Call::begin(&self.count), self.routes.call(request));
        let (last, protocol) = (self.last.clone(), self.protocol);
        async move {
            let mut answer = answer.await?;
            if answer.extensions().get::<LastCall>().is_some() {
                // HTTP/2 has a frame for it, which is sent at the end.
                if protocol == Protocol::Http1 {
                    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                }
                last.cancel();
            }
            Ok(answer.map(|body| AnswerBody { body, _call: call }))
        }
        .boxed()
    }
}

impl hyper::body::Body for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
