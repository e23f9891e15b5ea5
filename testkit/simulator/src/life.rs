//! How far a process is in its life. Its files and sockets ask, since a process that has ended changes nothing any more.

use tokio::sync::watch;

/// The life of one process. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Life(watch::Sender<Stage>);

/// Where a process is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its tasks are polled.
    Runs,
    /// Its tasks wait until it is thawed.
    Frozen,
    /// Nothing of it happens any more.
    Ended,
}

impl Life {
    /// One that runs.
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(Stage::Runs))
    }

    pub(crate) fn stage(&self) -> Stage {
        *self.0.borrow()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.stage() == Stage::Ended
    }

    /// Freezes it. Whether it ran.
    pub(crate) fn freeze(&self) -> bool {
        self.goes_from(Stage::Runs, Stage::Frozen)
    }

    /// Lets it go on. Whether it was frozen.
    pub(crate) fn thaw(&self) -> bool {
        self.goes_from(Stage::Frozen, Stage::Runs)
    }

    /// Ends it. Whether it had not ended.
    pub(crate) fn end(&self) -> bool {
        self.0.send_if_modified(|stage| std::mem::replace(stage, Stage::Ended) != Stage::Ended)
    }

    /// Waits until it has ended.
    pub(crate) async fn ended(&self) {
        let mut stage = self.0.subscribe();
        // The sender lives as long as this handle.
        let _ended = stage.wait_for(|stage| *stage == Stage::Ended).await;
    }

    fn goes_from(&self, from: Stage, to: Stage) -> bool {
        self.0.send_if_modified(|stage| {
            let goes = *stage == from;
            if goes {
                *stage = to;
            }
            goes
        })
    }
}
