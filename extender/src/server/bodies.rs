//! Receives the bodies of calls: how long each may be, how many bytes of them and of what is made of them there may be at once, and for how
//! long one may be on its way. Called by the routes.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use futures::future::poll_fn;
use runtime::reached;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::metrics::Verb;
use crate::wire::{BodyError, NODES};

/// Longest body of filter and prioritize: 5,000 full nodes are some 100 MB, their names 300 kB.
const NODES_LIMIT: usize = 256 << 20;

/// Longest body of preempt: kube-scheduler tries a tenth of 5,000 nodes, and 16 full pods of 10 kB on each are 80 MB.
const VICTIMS_LIMIT: usize = 128 << 20;

/// Longest body of bind: three names and a UID.
const BINDING_LIMIT: usize = 64 << 10;

/// Bytes of bodies at once, all but bind's, with what is made of them: one of the longest, or what two schedulers send of 5,000 full
/// nodes. An answer has as many again, twice while it grows, which leaves a quarter of the gibibyte that the manifest gives.
const AT_ONCE: usize = NODES_LIMIT;

/// Bytes that are made of one byte of a body at most, such as of a list of names with a letter or two each.
const MADE_OF_BYTE: usize = 16;

/// Bytes that are made of a whole body at most: of each node a name and a place in the answer, or of each victim as much.
const MADE_OF_BODY: usize = 128 * NODES;

/// Bytes of bind's bodies at once, apart from the others: no bind waits for somebody's nodes.
const BINDINGS_AT_ONCE: usize = 16 << 20;

/// Answers to `/metrics` at once, which anybody may ask for: of 5,000 nodes one is 4 MB, and takes some 10 ms.
const METRICS_AT_ONCE: usize = 4;

/// How long a call waits for room. kube-scheduler gives up after 5 s, and reads an answer that comes before.
const WAIT: Duration = Duration::from_secs(3);

/// How long a body may be on its way: longer than any scheduler waits for filter that is not told otherwise, 100 MB in it are
/// less than 4 MB/s, and who sends a byte now and then is gone after it.
const RECEIVE: Duration = Duration::from_secs(30);

/// What is counted of a body: a semaphore has no room for bytes.
pub(super) const KIB: usize = 1 << 10;

/// The bodies under way. Clones count the same ones.
#[derive(Clone, Debug)]
pub(crate) struct Bodies {
    all_but_bind: Arc<Semaphore>,
    of_bind: Arc<Semaphore>,
    of_metrics: Arc<Semaphore>,
}

/// A body, which counts as under way as long as its place is held.
pub(super) struct Received {
    pub(super) bytes: Vec<u8>,
    pub(super) place: OwnedSemaphorePermit,
}

impl Default for Bodies {
    fn default() -> Self {
        let room_for = |bytes: usize| Arc::new(Semaphore::new(bytes / KIB));
        Self {
            all_but_bind: room_for(AT_ONCE),
            of_bind: room_for(BINDINGS_AT_ONCE),
            of_metrics: Arc::new(Semaphore::new(METRICS_AT_ONCE)),
        }
    }
}

impl Bodies {
    /// KiB that are free for all verbs but bind.
    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.all_but_bind.available_permits()
    }

    /// The place of one answer to `/metrics`; none if all have been taken for as long as a call waits.
    pub(super) async fn place_for_metrics(&self) -> Option<OwnedSemaphorePermit> {
        let place = timeout(WAIT, Arc::clone(&self.of_metrics).acquire_owned()).await;
        let place = place.ok().and_then(Result::ok);
        if place.is_none() {
            reached("extender: no place for metrics");
        }
        place
    }

    /// The body of a call, once there is room for it. Nothing of it is read before.
    ///
    /// # Errors
    /// It is too long, there was no room, it took too long or was cut off.
    pub(super) async fn receive(&self, verb: Verb, body: Body) -> Result<Received, BodyError> {
        let (limit, room) = match verb {
            Verb::Filter | Verb::Prioritize => (NODES_LIMIT, &self.all_but_bind),
            Verb::Preempt => (VICTIMS_LIMIT, &self.all_but_bind),
            Verb::Bind => (BINDING_LIMIT, &self.of_bind),
        };
        let announced = body.size_hint().exact().map(|length| usize::try_from(length).unwrap_or(usize::MAX));
        let longest = announced.unwrap_or(limit);
        if longest > limit {
            return Err(too_long(verb.name(), limit));
        }
        let taken = match verb {
            Verb::Bind => longest,
            _ => (longest + MADE_OF_BODY.min(longest * MADE_OF_BYTE)).min(AT_ONCE),
        };
        let verb = verb.name();
        let place = match timeout(WAIT, Arc::clone(room).acquire_many_owned(units(taken))).await {
            Ok(Ok(place)) => place,
            // The semaphore is never closed.
            Ok(Err(_)) | Err(_) => {
                reached("extender: no room for a body");
                return Err(BodyError::NoRoom { verb, waited: WAIT });
            }
        };
        let bytes = match timeout(RECEIVE, read(verb, body, announced.unwrap_or(0), limit)).await {
            Ok(read) => read?,
            Err(_) => {
                reached("extender: body too slow");
                return Err(BodyError::TooSlow { verb, limit: RECEIVE });
            }
        };
        Ok(Received { bytes, place })
    }
}

async fn read(
    verb: &'static str,
    mut body: Body,
    announced: usize,
    limit: usize,
) -> Result<Vec<u8>, BodyError> {
    // There is room for all of it, so that it is copied once.
    let mut bytes = Vec::with_capacity(announced);
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|error| {
            reached("extender: call not received");
            BodyError::NotReceived { verb, reason: error.to_string() }
        })?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > limit {
            return Err(too_long(verb, limit));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

fn too_long(verb: &'static str, limit: usize) -> BodyError {
    reached("extender: body too long");
    BodyError::TooLong { verb, limit: limit / KIB }
}

/// What is counted of so many bytes.
pub(super) fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(KIB)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll};

    use axum::BoxError;
    use axum::body::Bytes;
    use futures::stream::{self, StreamExt as _};
    use http_body::{Frame, SizeHint};
    use rstest::rstest;
    use runtime::System;
    use tokio::time::{Instant, sleep};

    use super::*;

    /// A body that announces its length, and of which nothing comes.
    struct Announced(u64);

    impl HttpBody for Announced {
        type Data = Bytes;
        type Error = BoxError;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
            Poll::Pending
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(self.0)
        }
    }

    fn announced(length: usize) -> Body {
        Body::new(Announced(length as u64))
    }

    /// A body that announces nothing and has so much every second.
    fn trickle(seconds: u64, each: usize) -> Body {
        let frames = stream::iter(0..seconds).then(move |_| async move {
            sleep(Duration::from_secs(1)).await;
            Ok::<_, BoxError>(Bytes::from(vec![b' '; each]))
        });
        Body::from_stream(frames)
    }

    async fn error(bodies: &Bodies, verb: Verb, body: Body) -> String {
        bodies.receive(verb, body).await.err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[rstest]
    #[case::filter(Verb::Filter, 256 << 10)]
    #[case::prioritize(Verb::Prioritize, 256 << 10)]
    #[case::preempt(Verb::Preempt, 128 << 10)]
    #[case::bind(Verb::Bind, 64)]
    #[tokio::test(start_paused = true)]
    async fn each_verb_has_its_longest_body(#[case] verb: Verb, #[case] limit: usize) {
        let bodies = Bodies::default();
        let expected = format!(
            "the body of /{} is longer than {limit} KiB; send no more nodes or pods in one call",
            verb.name()
        );
        assert_eq!(error(&bodies, verb, announced(limit * KIB + 1)).await, expected);
        // One that announces nothing is found out as it comes.
        let frame = Bytes::from(vec![b' '; 64 << 10]);
        let endless = Body::from_stream(stream::repeat_with(move || Ok::<_, BoxError>(frame.clone())));
        assert_eq!(error(&bodies, verb, endless).await, expected);
        let fits = Bytes::from(vec![b' '; 64 << 10]);
        assert_eq!(bodies.receive(verb, Body::from(fits.clone())).await.unwrap().bytes, fits);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_trickles_ends() {
        let bodies = Bodies::default();
        let began = Instant::now();
        let expected = "the body of /filter was not received within 30s; send it at once";
        assert_eq!(error(&bodies, Verb::Filter, trickle(3600, 1)).await, expected);
        assert_eq!(began.elapsed().as_secs(), 30);
        assert_eq!(bodies.receive(Verb::Filter, trickle(29, 2)).await.unwrap().bytes.len(), 58);
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_bytes_are_under_way_and_bind_never_waits_for_them() {
        let bodies = Bodies::default();
        // Two schedulers send 5,000 full nodes of 20 kB.
        let large: Vec<_> = (0..2)
            .map(|_| {
                let bodies = bodies.clone();
                System::real()
                    .spawn(async move { error(&bodies, Verb::Filter, announced(100_000_000)).await })
            })
            .collect();
        tokio::task::yield_now().await;
        // A body that announces nothing may be as long as any.
        let began = Instant::now();
        let expected =
            "there was no room for the body of /prioritize for 3s, for other calls' bodies; try again";
        assert_eq!(error(&bodies, Verb::Prioritize, trickle(1, 1)).await, expected);
        assert_eq!(began.elapsed().as_secs(), 3);
        let names = Bytes::from(vec![b' '; 300_000]);
        assert_eq!(bodies.receive(Verb::Filter, Body::from(names)).await.unwrap().bytes.len(), 300_000);
        assert_eq!(bodies.receive(Verb::Bind, trickle(1, 200)).await.unwrap().bytes.len(), 200);
        for one in large {
            assert!(one.await.unwrap().contains("not received within 30s"));
        }
        // Their room is free again.
        assert_eq!(bodies.receive(Verb::Prioritize, trickle(1, 1)).await.unwrap().bytes.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_made_of_short_bodies_counts_as_under_way() {
        let bodies = Bodies::default();
        let names = Bytes::from(vec![b' '; 300 << 10]);
        let mut received = Vec::new();
        while let Ok(one) = bodies.receive(Verb::Filter, Body::from(names.clone())).await {
            received.push(one);
        }
        // Each is 300 KiB, of which up to 4,800 KiB are made.
        assert_eq!(received.len(), 51);
        received.pop();
        assert!(bodies.receive(Verb::Preempt, Body::from(names)).await.is_ok());
    }
}
