//! Keeps kubelet's books closed while it allocates: a podresources `List` during an open Allocate, or between a
//! question for preferred ids and the Allocate that follows, makes kubelet forget the allocation
//! (docs/reference/kubernetes.md §6). `engine` enters for every question of kubelet, `upkeep` waits for rest.

use std::time::Duration;

use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard, watch};
use tokio::time::Instant;

/// The gate.
#[derive(Debug)]
pub struct Gate {
    quiet: Duration,
    last_question: watch::Sender<Option<Instant>>,
    books: RwLock<()>,
}

/// kubelet's question is open while this lives.
#[derive(Debug)]
pub struct Open<'a> {
    gate: &'a Gate,
    _books: RwLockReadGuard<'a, ()>,
}

impl Gate {
    /// A gate that calls it rest when nothing was asked for `quiet`.
    pub fn new(quiet: Duration) -> Self {
        Gate { quiet, last_question: watch::Sender::new(None), books: RwLock::new(()) }
    }

    /// kubelet asks. Waits until an open look into its books has ended, which is bounded by that look's own limit.
    pub async fn enter(&self) -> Open<'_> {
        let books = self.books.read().await;
        self.last_question.send_replace(Some(Instant::now()));
        Open { gate: self, _books: books }
    }

    /// Waits until kubelet has asked for nothing for a while; it may not be answered while the result lives.
    pub async fn rest(&self) -> RwLockWriteGuard<'_, ()> {
        let mut last = self.last_question.subscribe();
        loop {
            let since = *last.borrow_and_update();
            if let Some(until) = since.map(|since| since + self.quiet).filter(|until| *until > Instant::now())
            {
                // Planted: it asks without a pause whether the quiet has lasted long enough, and so lets no time pass.
                #[cfg(planted)]
                if runtime::is_planted("rest-spins") {
                    continue;
                }
                tokio::time::sleep_until(until).await;
            } else if let Ok(books) = self.books.try_write() {
                if *self.last_question.borrow() == since {
                    return books;
                }
            } else if last.changed().await.is_err() {
                // A question is open; its end changes the time of the last one. The sender lives as long as we do.
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.gate.last_question.send_replace(Some(Instant::now()));
    }
}
