//! Reads files that may never answer. Called by [`super::capture`].

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use super::Limits;

/// Reads on a thread of its own. A thread that hangs is left behind, and the next file has a new one.
pub(crate) struct Reader {
    time: Duration,
    bytes: u64,
    worker: Option<Worker>,
}

struct Worker {
    asks: SyncSender<PathBuf>,
    answers: Receiver<io::Result<Vec<u8>>>,
}

impl Reader {
    pub(crate) fn new(limits: &Limits) -> Reader {
        Reader { time: limits.time, bytes: limits.bytes, worker: None }
    }

    /// The file's text.
    ///
    /// # Errors
    /// It does not answer in time ([`io::ErrorKind::TimedOut`]), is too long, is no text, or may not be read.
    pub(crate) fn read(&mut self, path: PathBuf) -> io::Result<String> {
        let worker = self.worker.take().unwrap_or_else(|| Worker::start(self.bytes));
        let late = || io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {:?}", self.time));
        worker.asks.send(path).map_err(|_| late())?;
        let answer = worker.answers.recv_timeout(self.time).map_err(|_| late())?;
        self.worker = Some(worker);
        let bytes = answer?;
        if bytes.len() as u64 > self.bytes {
            return Err(io::Error::other(format!("more than {} bytes", self.bytes)));
        }
        String::from_utf8(bytes).map_err(|_| io::Error::other("no text"))
    }
}

impl Worker {
    fn start(limit: u64) -> Worker {
        let (asks, asked) = sync_channel::<PathBuf>(1);
        let (answer, answers) = sync_channel(1);
        thread::spawn(move || {
            for path in asked {
                let mut bytes = Vec::new();
                // One byte more than allowed tells a file that is too long.
                let read = File::open(path).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes));
                if answer.send(read.map(|_| bytes)).is_err() {
                    break;
                }
            }
        });
        Worker { asks, answers }
    }
}
