//! Ends connections whose other side takes nothing. Used by [`super::Server`].

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::system::Connection;

/// How long the other side may take nothing of what is being written to it. An answer about thousands of nodes is 100 MB of memory
/// for as long as it is not sent.
const STALL: Duration = Duration::from_secs(30);

/// A connection on which a write fails that is stuck for [`STALL`].
pub(super) struct StallLimit {
    connection: Connection,
    /// Runs while a write is stuck.
    stuck: Option<Pin<Box<Sleep>>>,
}

impl StallLimit {
    /// The connection, with this limit.
    pub(super) fn on(connection: Connection) -> Connection {
        let peer = connection.peer().to_owned();
        Connection::new(Self { connection, stuck: None }, peer)
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
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep(STALL)));
        ready!(stuck.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, format!("nothing was taken for {STALL:?}"))))
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
        self.limited(context, progress)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let progress = Pin::new(&mut self.connection).poll_flush(context);
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
        self.limited(context, progress)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }
}
