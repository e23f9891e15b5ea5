//! Asks for a list of all pods that begins from now on: a new leader must see what the one before has bound. Kept by the cluster, obeyed
//! by the watch of pods.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Lists that were asked for and that are done, by number.
#[derive(Debug, Default)]
pub(crate) struct Relist {
    asked: AtomicU64,
    done: AtomicU64,
    was_asked: Notify,
    is_done: Notify,
}

impl Relist {
    /// Has all pods listed anew, and waits until they are in the index.
    pub(crate) async fn pods_are_listed(&self) {
        let number = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        self.was_asked.notify_waiters();
        loop {
            let is_done = self.is_done.notified();
            if self.done.load(Ordering::Acquire) >= number {
                return;
            }
            is_done.await;
        }
    }

    /// A list begins now: the number of the last one that was asked for.
    pub(crate) fn begins(&self) -> u64 {
        self.asked.load(Ordering::Acquire)
    }

    /// Waits until a later list than that is asked for.
    pub(crate) async fn is_asked_after(&self, number: u64) {
        loop {
            let was_asked = self.was_asked.notified();
            if self.begins() > number {
                return;
            }
            was_asked.await;
        }
    }

    /// A list that began with that number is in the index.
    pub(crate) fn mark_in_index(&self, number: u64) {
        self.done.fetch_max(number, Ordering::AcqRel);
        self.is_done.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_list_that_had_begun_before_is_not_enough() {
        let relist = Relist::default();
        let before = relist.begins();
        let asking = async { timeout(Duration::from_secs(1), relist.pods_are_listed()).await.is_ok() };
        let watching = async {
            relist.mark_in_index(before);
            relist.is_asked_after(before).await;
            relist.begins()
        };
        let (is_listed, after) = tokio::join!(asking, watching);
        assert!(!is_listed && after > before);
        let asking = async { timeout(Duration::from_secs(1), relist.pods_are_listed()).await.is_ok() };
        let watching = async {
            relist.is_asked_after(after).await;
            relist.mark_in_index(relist.begins());
        };
        assert!(tokio::join!(asking, watching).0);
    }
}
