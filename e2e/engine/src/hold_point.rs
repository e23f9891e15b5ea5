//! A place at which calls can be held. Used by the proxy between scheduler and extender and by the embedded API server.

use tokio::sync::watch;

/// A moment at which calls can be held.
pub(crate) struct HoldPoint {
    is_held: watch::Sender<bool>,
    /// Calls that are there now.
    waiting: watch::Sender<usize>,
}

impl HoldPoint {
    /// One that calls pass.
    pub(crate) fn released() -> Self {
        HoldPoint { is_held: watch::Sender::new(false), waiting: watch::Sender::new(0) }
    }

    /// Calls wait here from now on (`true`) or go on (`false`).
    pub(crate) fn set_held(&self, held: bool) {
        self.is_held.send_replace(held);
    }

    /// Whether a call waits here now.
    pub(crate) fn is_waited_at(&self) -> bool {
        *self.waiting.borrow() > 0
    }

    /// Returns at once, or when calls are no longer held.
    pub(crate) async fn wait(&self) {
        self.waiting.send_modify(|waiting| *waiting += 1);
        let _one_fewer_at_the_end = WaitingCall(&self.waiting);
        // The only error is a sender that is gone, and `self` holds it.
        let _released = self.is_held.subscribe().wait_for(|is_held| !is_held).await.is_ok();
    }
}

/// A call that waits; it no longer does when this is dropped, also where the caller has hung up.
struct WaitingCall<'a>(&'a watch::Sender<usize>);

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting -= 1);
    }
}
