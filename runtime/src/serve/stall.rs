//! Ends connections whose other side takes nothing of what is written, or takes it too slowly. Used by [`super::Server`].

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::calls::Calls;
use crate::system::Connection;

/// How long the other side may take nothing of what is being written to it. An answer about thousands of nodes is 100 MB of memory
/// for as long as it is not sent.
const STALL: Duration = Duration::from_secs(30);

/// How long the other side may take for whatever is written at one time, and longer by what a link of [`SLOWEST`] needs. A pause that is
/// no stall yet is forgiven, and not again and again: who takes a few bytes now and then would hold the answer's memory without end.
const WHOLE: Duration = Duration::from_secs(60);

/// Bytes in a second that the slowest link takes: 2 Mbit/s, which any cluster's links have many times over, and a person's link to one as
/// a rule. 100 MB may take eight minutes; kube-scheduler itself waits for seconds.
const SLOWEST: u64 = 256 << 10;

/// A connection on which a write fails that is stuck for [`STALL`], or is not taken as a whole in time.
pub(super) struct StallLimit {
    connection: Connection,
    calls: Calls,
    /// What is being written, from when it was first stuck until all of it is taken.
    slow: Option<Slow>,
    /// Runs while a write is stuck.
    stuck: Option<Pin<Box<Sleep>>>,
}

struct Slow {
    began: Instant,
    taken: u64,
}

/// How long it may take until so many bytes are taken.
pub(super) fn time_for(bytes: u64) -> Duration {
    WHOLE + Duration::from_secs(bytes / SLOWEST)
}

impl Slow {
    /// Until when more must be taken: the later the more was taken.
    fn end(&self) -> Instant {
        self.began + time_for(self.taken)
    }
}

impl StallLimit {
    /// The connection, with these limits. Its calls are told while something is stuck.
    pub(super) fn on(connection: Connection, calls: Calls) -> Connection {
        let peer = connection.peer().to_owned();
        Connection::new(Self { connection, calls, slow: None, stuck: None }, peer)
    }

    /// What comes of a write that has got so far.
    fn limited<T>(
        &mut self,
        context: &mut Context<'_>,
        progress: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if progress.is_ready() {
            self.stuck = None;
            return progress;
        }
        let now = Instant::now();
        if self.slow.is_none() {
            self.calls.set_stuck(true);
        }
        let end = self.slow.get_or_insert(Slow { began: now, taken: 0 }).end();
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep_until(end.min(now + STALL))));
        ready!(stuck.as_mut().poll(context));
        let why = if now < end {
            format!("nothing was taken for {STALL:?}")
        } else {
            format!("an answer was taken at less than {SLOWEST} bytes a second")
        };
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)))
    }

    /// As [`Self::limited`], of a write that says how much was taken.
    fn counted(
        &mut self,
        context: &mut Context<'_>,
        progress: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let (Poll::Ready(Ok(taken)), Some(slow)) = (&progress, &mut self.slow) {
            slow.taken += *taken as u64;
        }
        self.limited(context, progress)
    }
}

impl AsyncRead for StallLimit {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_read(context, buffer)
    }
}

impl AsyncWrite for StallLimit {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.connection).poll_write(context, bytes);
        self.counted(context, progress)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let progress = Pin::new(&mut self.connection).poll_flush(context);
        // All that was written is taken.
        if progress.is_ready() && self.slow.take().is_some() {
            self.calls.set_stuck(false);
        }
        self.limited(context, progress)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let progress = Pin::new(&mut self.connection).poll_shutdown(context);
        self.limited(context, progress)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.connection).poll_write_vectored(context, buffers);
        self.counted(context, progress)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }
}
