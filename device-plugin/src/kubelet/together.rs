//! Has the resources of a plugin that starts move to it together: where the plugin before still answered for one, it would know nothing of
//! that answer until kubelet has written it down. Owned by `run`, asked by each `registration`.

use std::sync::Arc;
use std::time::Duration;

use runtime::reached;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::kubelet::serving_lock::HANDOVER;

/// How long a resource is waited for that no plugin before holds: there must be another reason, such as a lock file that cannot be used.
const TOGETHER: Duration = Duration::from_secs(2);
/// The most that is waited for a resource, whatever becomes of its lock.
const LONGEST: Duration = Duration::from_secs(HANDOVER.as_secs() + TOGETHER.as_secs());

/// The resources of one plugin. Clones are of the same ones.
#[derive(Clone)]
pub struct Together {
    moves: Arc<watch::Sender<Moves>>,
    all: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Moves {
    /// How many may be served.
    claimed: usize,
    /// How many wait for the plugin before to let go.
    held: usize,
}

/// One resource waits for the plugin before to let go, until this is dropped.
pub(super) struct StillHeld(Arc<watch::Sender<Moves>>);

impl Drop for StillHeld {
    fn drop(&mut self) {
        self.0.send_modify(|moves| moves.held = moves.held.saturating_sub(1));
    }
}

impl Together {
    /// For so many resources.
    pub fn of(all: usize) -> Self {
        Together { moves: Arc::default(), all }
    }

    /// One waits for the plugin before. That one answers its open calls first, and meanwhile kubelet admits nobody else.
    pub(super) fn still_held(&self) -> StillHeld {
        self.moves.send_modify(|moves| moves.held += 1);
        StillHeld(Arc::clone(&self.moves))
    }

    /// One more may be served: waits until all may, for as long as the plugin before still answers for one, and not for long where it
    /// does not.
    pub(super) async fn wait(&self) {
        self.moves.send_modify(|moves| moves.claimed += 1);
        let mut moves = self.moves.subscribe();
        let all_or_none_held = async {
            loop {
                // The sender is this one's own.
                let is_whole = |moves: &Moves| moves.claimed >= self.all;
                let Ok(now) =
                    moves.wait_for(|moves| is_whole(moves) || moves.held == 0).await.map(|now| *now)
                else {
                    return false;
                };
                if is_whole(&now) {
                    return true;
                }
                let news = moves.wait_for(|moves| is_whole(moves) || moves.held > 0);
                if timeout(TOGETHER, news).await.is_err() {
                    return false;
                }
            }
        };
        if !timeout(LONGEST, all_or_none_held).await.unwrap_or(false) {
            reached("plugin: resources moved apart");
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    /// How long the first of two resources waits, of which the other is held for so long, and then may be served or not.
    async fn waits(held: Duration, comes: bool) -> Duration {
        let together = Together::of(2);
        let began = Instant::now();
        let other = async {
            let still_held = together.still_held();
            tokio::time::sleep(held).await;
            drop(still_held);
            if comes {
                together.wait().await;
            }
        };
        let first = async {
            together.wait().await;
            began.elapsed()
        };
        tokio::join!(first, other).0
    }

    #[tokio::test(start_paused = true)]
    async fn a_resource_is_waited_for_while_the_plugin_before_holds_it_and_not_long_after() {
        let seconds = Duration::from_secs;
        assert_eq!(waits(seconds(0), true).await, seconds(0));
        assert_eq!(waits(seconds(0), false).await, TOGETHER, "its lock cannot be used");
        assert_eq!(
            waits(seconds(19), true).await,
            seconds(19),
            "the longest call, with a wait for processes"
        );
        assert_eq!(waits(seconds(19), false).await, seconds(19) + TOGETHER, "its lock broke");
        assert_eq!(waits(seconds(60), true).await, LONGEST, "whatever becomes of it");
    }
}
