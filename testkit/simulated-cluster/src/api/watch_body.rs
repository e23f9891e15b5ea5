//! The body of a watch on its way back: each frame takes as long as the link has it take, and the watch may lag by minutes, stand still
//! while the link is cut, break, or end early.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures::StreamExt as _;
use futures::stream::{BoxStream, unfold};
use simulator::network::Link;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tower::BoxError;

use super::request::broken;
use super::{Way, Whose};

/// Longest life of a watch that ends early, in seconds.
const SHORT: u64 = 30;

struct WatchBody {
    way: Way,
    link: Arc<Link>,
    frames: BoxStream<'static, Result<Bytes, axum::Error>>,
    /// Frames with the time at which they arrive; the end has none.
    under_way: VecDeque<(Instant, Option<Bytes>)>,
    has_ended: bool,
    resets: watch::Receiver<u64>,
    /// When it ends early.
    ends: Option<Instant>,
    /// Its share of the lag of its host's watches, 0 to 1.
    share: f64,
}

/// The body as the process gets it.
pub(super) fn watch_body(way: &Way, body: Body, link: Arc<Link>) -> Body {
    let mut resets = way.api.conditions.resets(way.place);
    resets.mark_unchanged();
    let ends = end(way);
    let frames = body.into_data_stream().boxed();
    let share = way.draws().f64();
    let (way, under_way) = (way.clone(), VecDeque::new());
    let body = WatchBody { way, link, frames, under_way, has_ended: false, resets, ends, share };
    Body::from_stream(unfold(body, |mut body| async { Some((body.next().await?, body)) }))
}

fn end(way: &Way) -> Option<Instant> {
    let rate = way.api.conditions.rates(way.whose).short_watch;
    // Drawn each time, so that without this fault everything else is the same.
    let (drawn, after) = {
        let mut draws = way.draws();
        (draws.f64(), Duration::from_secs(draws.u64(1..=SHORT)))
    };
    (drawn < rate).then(|| {
        way.api.conditions.met(match way.whose {
            Whose::Suite => "watch ended",
            Whose::Cluster => "cluster watch ended",
        });
        Instant::now() + after
    })
}

impl WatchBody {
    /// The next frame; none at the end.
    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        loop {
            let arrives = self.under_way.front().map(|(arrives, _)| *arrives);
            tokio::select! {
                biased;
                _ = self.resets.changed() => return Some(Err(broken("Connection reset by peer"))),
                () = reached(self.ends) => return None,
                () = arrived(arrives, &self.link) => match self.under_way.pop_front() {
                    Some((_, Some(frame))) => return Some(Ok(frame)),
                    _ => return None,
                },
                frame = self.frames.next(), if !self.has_ended => self.takes(frame),
            }
        }
    }

    fn takes(&mut self, frame: Option<Result<Bytes, axum::Error>>) {
        let frame = frame.and_then(Result::ok);
        self.has_ended = frame.is_none();
        let lag = self.way.api.conditions.lag(self.way.place).mul_f64(self.share);
        // A frame that is sent over a link that is cut passes it once it is mended.
        let on_its_way = self.link.delay().unwrap_or_default();
        let last = self.under_way.back().map(|(arrives, _)| *arrives);
        let arrives = (Instant::now() + lag + on_its_way).max(last.unwrap_or_else(Instant::now));
        self.under_way.push_back((arrives, frame));
    }
}

/// Returns at the time, if there is one.
async fn reached(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Returns when the frame has come over the link.
async fn arrived(time: Option<Instant>, link: &Link) {
    reached(time).await;
    if link.is_cut() {
        link.pass().await;
    }
}
