//! Watches, in real time, whether every poll returns: a loop that never yields stops a simulation as it would stop a program.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// A poll that does not return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// The part whose task is polled.
    pub part: String,
    /// Simulated time.
    pub elapsed: Duration,
}

/// Is told of a poll that does not return.
pub type TellStuck = Box<dyn Fn(Stuck) + Send>;

/// What the simulation tells the watchdog.
#[derive(Default)]
pub(crate) struct Watchdog {
    /// Odd while a task is polled.
    polls: AtomicU64,
    part: AtomicUsize,
    elapsed: AtomicU64,
}

/// Ends the watching when it is dropped.
pub(crate) struct Guard(
    #[allow(dead_code, reason = "its drop is what the thread waits for")] Option<mpsc::SyncSender<()>>,
);

impl Watchdog {
    /// Starts watching, if anybody wants to be told: once for each poll. `name` is a part's name by its place.
    pub(crate) fn start(
        told: Option<(Duration, TellStuck)>,
        name: impl Fn(usize) -> String + Send + 'static,
    ) -> (Arc<Self>, Guard) {
        let watchdog = Arc::new(Self::default());
        let Some((limit, tell)) = told else { return (watchdog, Guard(None)) };
        let (end, ended) = mpsc::sync_channel::<()>(0);
        let watched = Arc::clone(&watchdog);
        // Without a thread nobody is told, and the simulation runs all the same.
        #[allow(
            clippy::disallowed_methods,
            reason = "it watches in real time and changes nothing of the simulation"
        )]
        let _watching = thread::Builder::new().name("watchdog".to_owned()).spawn(move || {
            let mut seen = 0;
            while ended.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
                let polls = watched.polls.load(Ordering::Relaxed);
                if polls == seen && polls % 2 == 1 {
                    let elapsed = Duration::from_nanos(watched.elapsed.load(Ordering::Relaxed));
                    tell(Stuck { part: name(watched.part.load(Ordering::Relaxed)), elapsed });
                }
                seen = polls;
            }
        });
        (watchdog, Guard(Some(end)))
    }

    pub(crate) fn poll_begins(&self, part: usize, elapsed: Duration) {
        self.part.store(part, Ordering::Relaxed);
        self.elapsed.store(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.polls.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn poll_ends(&self) {
        self.polls.fetch_add(1, Ordering::Relaxed);
    }
}
