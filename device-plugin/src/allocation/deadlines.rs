//! Until when one call of kubelet waits, and for what. Made by `kubelet::service` as a call comes; every step of an answer keeps to it.

use std::time::Duration;

use tokio::time::Instant;

use crate::allocation::engine::Engine;
use crate::handover::mode::HandoverMode;

/// How long what was begun at the end of a wait may still take.
const LAST_STEP: Duration = Duration::from_secs(1);

/// What is left of that for kubelet's checkpoint, after a look at the pods.
const LAST_FILE: Duration = Duration::from_millis(200);

/// Until when one call of kubelet waits. kubelet has no limit of its own, and does nothing else meanwhile
/// (docs/reference/kubernetes.md §6).
#[derive(Clone, Copy, Debug)]
pub struct Deadlines {
    /// For the end of a pod whose devices kubelet offers.
    pub holder: Instant,
    /// For the pods, before a set is preferred without them.
    pub unread: Instant,
    /// For anything: files, the API server, kubelet's own socket and processes that hang are no longer waited for, and it is answered
    /// by what is known.
    pub answer: Instant,
}

impl Engine {
    /// Those of a call that comes now.
    pub fn deadlines(&self) -> Deadlines {
        let now = Instant::now();
        let handover = match self.handover.mode {
            HandoverMode::Off => Duration::ZERO,
            HandoverMode::Wait | HandoverMode::Mark => self.handover.limit,
        };
        Deadlines {
            holder: now + self.holder_timeout,
            unread: now + self.api_timeout,
            answer: now + self.holder_timeout + handover + LAST_STEP,
        }
    }
}

impl Deadlines {
    /// When to stop a step that begins now and may take so long.
    pub(super) fn within(&self, limit: Duration) -> Instant {
        self.answer.min(Instant::now() + limit)
    }

    /// When to stop a look at kubelet's checkpoint that begins now and may take so long. It leaves the last second to a look at the pods,
    /// until that second has come.
    pub(super) fn checkpoint(&self, limit: Duration) -> Instant {
        let (now, for_pods) = (Instant::now(), self.answer - LAST_STEP);
        let end = if now < for_pods { for_pods } else { self.answer };
        end.min(now + limit)
    }

    /// When to stop a wait for processes of gone pods that begins now and may take so long. The last second is left to one more look.
    pub(super) fn handover(&self, limit: Duration) -> Instant {
        (self.answer - LAST_STEP).min(Instant::now() + limit)
    }

    /// When to stop a look at the pods that begins now: one that began before the holder's end was given up may end a little later.
    pub(super) fn last_read(&self) -> Instant {
        (self.answer - LAST_FILE).min(self.holder.max(Instant::now()) + LAST_STEP)
    }
}
