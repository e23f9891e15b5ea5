//! Between the end of one watch and what the next one tells first, nobody knows what has happened. Opened and closed by the watch,
//! asked by whoever decides by what it has told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Whether a watch is between two requests. Clones share it; closed at first.
#[derive(Clone, Debug, Default)]
pub struct Gap(Arc<State>);

#[derive(Debug, Default)]
struct State {
    is_open: AtomicBool,
    /// Not a `tokio::sync::watch`, which wakes its waiters in a random order.
    closed: Notify,
}

impl Gap {
    /// What has happened since the last event is not known from now on.
    pub fn open(&self) {
        self.0.is_open.store(true, Ordering::SeqCst);
    }

    /// What had happened meanwhile has been told.
    pub fn close(&self) {
        if self.0.is_open.swap(false, Ordering::SeqCst) {
            self.0.closed.notify_waiters();
        }
    }

    /// Whether something may have happened that is not told yet.
    pub fn is_open(&self) -> bool {
        self.0.is_open.load(Ordering::SeqCst)
    }

    /// Waits until it is closed.
    pub async fn closed(&self) {
        loop {
            // Made before the look: what is closed in between wakes it all the same.
            let closed = self.0.closed.notified();
            if !self.is_open() {
                return;
            }
            closed.await;
        }
    }
}
