//! One connection: bytes both ways, each with the time at which they arrive.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::Ending;
use super::link::Link;

/// Bytes that are sent and not read, at most; who sends more waits.
const WINDOW: usize = 256 << 10;

/// A connection between two processes.
pub(super) struct Pipe {
    processes: [u64; 2],
    /// From the first to the second, and back.
    flows: [Mutex<Flow>; 2],
}

/// One direction.
#[derive(Default)]
struct Flow {
    link: Option<Arc<Link>>,
    messages: VecDeque<Message>,
    /// Bytes among the messages.
    bytes: usize,
    /// The latest arrival: messages do not overtake each other.
    last: Option<Instant>,
    /// Nobody reads any more.
    reader_gone: bool,
    /// Nobody writes any more.
    writer_gone: bool,
    /// The writer's host has vanished: nothing arrives any more.
    silent: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

struct Message {
    /// None: the link is cut, and it is sent when it is mended.
    arrives: Option<Instant>,
    content: Content,
}

enum Content {
    Bytes { bytes: Vec<u8>, read: usize },
    End,
    Reset,
}

/// One end of a connection.
pub(super) struct End {
    pipe: Arc<Pipe>,
    /// 0: it writes to the second.
    side: usize,
    /// Wakes its reader when the next message arrives.
    arrival: Pin<Box<Sleep>>,
}

impl Pipe {
    pub(super) fn new(processes: [u64; 2], links: Option<[Arc<Link>; 2]>) -> (Arc<Self>, [End; 2]) {
        let flow = |link| Mutex::new(Flow { link, ..Flow::default() });
        let flows = match links {
            Some([there, back]) => [flow(Some(there)), flow(Some(back))],
            None => [flow(None), flow(None)],
        };
        let pipe = Arc::new(Self { processes, flows });
        let end = |side| {
            let arrival = Box::pin(sleep_until(Instant::now()));
            End { pipe: Arc::clone(&pipe), side, arrival }
        };
        let ends = [end(0), end(1)];
        (pipe, ends)
    }

    /// One of its processes has ended.
    pub(super) fn process_ends(&self, process: u64, how: Ending) {
        for side in (0..2).filter(|side| self.processes[*side] == process) {
            let mut outgoing = self.flow(side);
            match how {
                Ending::Killed => outgoing.close(Content::Reset),
                Ending::Exited => outgoing.close(Content::End),
                Ending::Vanished => {
                    outgoing.silent = true;
                    outgoing.messages.clear();
                }
            }
            drop(outgoing);
            self.flow(1 - side).reader_ends(how != Ending::Vanished);
        }
    }

    /// Whether one of its ways is this link.
    pub(super) fn leads_over(&self, link: &Arc<Link>) -> bool {
        (0..2).any(|side| self.flow(side).link.as_ref().is_some_and(|other| Arc::ptr_eq(other, link)))
    }

    /// Both ends are told that it is over; what was under way is lost.
    pub(super) fn reset(&self) {
        (0..2).for_each(|side| self.flow(side).reset());
    }

    /// Whether both ends are gone.
    pub(super) fn is_over(&self) -> bool {
        self.flows.iter().all(|flow| {
            let flow = flow.lock().unwrap_or_else(PoisonError::into_inner);
            flow.reader_gone && flow.writer_gone
        })
    }

    /// What `side` writes.
    fn flow(&self, side: usize) -> MutexGuard<'_, Flow> {
        self.flows[side].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flow {
    fn send(&mut self, content: Content) {
        if self.silent {
            return;
        }
        if let Content::Bytes { bytes, .. } = &content {
            self.bytes += bytes.len();
        }
        let arrives = self.arrival();
        self.messages.push_back(Message { arrives, content });
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    /// When what is sent now arrives; none while the link is cut.
    fn arrival(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let delay = match &self.link {
            Some(link) => link.delay()?,
            None => Duration::ZERO,
        };
        // What was sent while the link was cut is still ahead of it.
        if self.messages.back().is_some_and(|last| last.arrives.is_none()) {
            return None;
        }
        let arrives = self.last.map_or(now + delay, |last| last.max(now + delay));
        self.last = Some(arrives);
        Some(arrives)
    }

    /// It ends, whatever is under way and whether or not the link is cut.
    fn reset(&mut self) {
        self.messages.clear();
        (self.bytes, self.writer_gone) = (0, true);
        self.messages.push_back(Message { arrives: Some(Instant::now()), content: Content::Reset });
        for waker in [self.reader.take(), self.writer.take()].into_iter().flatten() {
            waker.wake();
        }
    }

    /// The last message.
    fn close(&mut self, content: Content) {
        if !std::mem::replace(&mut self.writer_gone, true) {
            self.send(content);
        }
    }

    /// Nobody reads any more. `told`: the writer learns of it.
    fn reader_ends(&mut self, told: bool) {
        self.reader_gone = true;
        self.messages.clear();
        if let Some(writer) = self.writer.take().filter(|_| told) {
            writer.wake();
        }
        self.silent |= !told;
    }

    fn poll_read(
        &mut self,
        arrival: &mut Pin<Box<Sleep>>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(first) = self.messages.front() else {
            self.reader = Some(context.waker().clone());
            return Poll::Pending;
        };
        let arrives = match first.arrives {
            Some(arrives) => arrives,
            None => ready!(self.poll_mended(context)),
        };
        if arrives > Instant::now() {
            if arrival.deadline() != arrives {
                arrival.as_mut().reset(arrives);
            }
            ready!(arrival.as_mut().poll(context));
        }
        let Some(first) = self.messages.front_mut() else { return Poll::Pending };
        match &mut first.content {
            Content::End => return Poll::Ready(Ok(())),
            Content::Reset => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            Content::Bytes { bytes, read } => {
                let taken = (bytes.len() - *read).min(buffer.remaining());
                buffer.put_slice(&bytes[*read..*read + taken]);
                *read += taken;
                self.bytes -= taken;
                if *read == bytes.len() {
                    self.messages.pop_front();
                }
            }
        }
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
        Poll::Ready(Ok(()))
    }

    /// Sends what waited for the link; when the first of it arrives.
    fn poll_mended(&mut self, context: &mut Context<'_>) -> Poll<Instant> {
        let now = Instant::now();
        let delay = match &self.link {
            None => Duration::ZERO,
            Some(link) => match link.delay() {
                Some(delay) => delay,
                None => {
                    link.wake_when_mended(context.waker());
                    return Poll::Pending;
                }
            },
        };
        let arrives = self.last.map_or(now + delay, |last| last.max(now + delay));
        self.last = Some(arrives);
        for message in self.messages.iter_mut().filter(|message| message.arrives.is_none()) {
            message.arrives = Some(arrives);
        }
        Poll::Ready(arrives)
    }
}

impl AsyncRead for End {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        this.pipe.flow(1 - this.side).poll_read(&mut this.arrival, context, buffer)
    }
}

impl AsyncWrite for End {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut flow = self.pipe.flow(self.side);
        if flow.writer_gone || (flow.reader_gone && !flow.silent) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if flow.bytes >= WINDOW {
            flow.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        let taken = &bytes[..bytes.len().min(WINDOW - flow.bytes)];
        if !flow.reader_gone {
            flow.send(Content::Bytes { bytes: taken.to_vec(), read: 0 });
        }
        Poll::Ready(Ok(taken.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pipe.flow(self.side).close(Content::End);
        Poll::Ready(Ok(()))
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.pipe.flow(self.side).close(Content::End);
        let mut incoming = self.pipe.flow(1 - self.side);
        if !incoming.reader_gone {
            incoming.reader_ends(true);
        }
    }
}
