//! The way from one host to another, in one direction. TCP hides lost packets: they only come later.

use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use crate::random::Rng;

/// How a link is while it is not cut.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkQuality {
    /// Shortest and longest time of a message, in milliseconds.
    pub milliseconds: (u32, u32),
    /// Share of messages that are lost and sent again, 0 to 1.
    pub loss: f64,
}

impl Default for LinkQuality {
    /// At once, and nothing is lost.
    fn default() -> Self {
        Self { milliseconds: (0, 0), loss: 0.0 }
    }
}

/// First wait of TCP before it sends a packet again; it doubles each time.
const RESEND: Duration = Duration::from_millis(200);
/// Times that a packet is lost at most.
const MOST_LOSSES: u32 = 5;

/// The way from one host to another.
pub struct Link {
    state: Mutex<State>,
    is_cut: watch::Sender<bool>,
}

struct State {
    quality: LinkQuality,
    draws: Rng,
    /// Those who wait for the link to be there again.
    waiters: Vec<Waker>,
}

impl Link {
    pub(super) fn new(quality: LinkQuality, draws: Rng) -> Self {
        let state = State { quality, draws, waiters: Vec::new() };
        Self { state: Mutex::new(state), is_cut: watch::Sender::new(false) }
    }

    /// Sets how it is while it is not cut.
    pub fn set_quality(&self, quality: LinkQuality) {
        self.state().quality = quality;
    }

    /// Cuts it (`true`): what is sent arrives when it is mended, if anybody still waits for it by then.
    pub fn set_cut(&self, cut: bool) {
        self.is_cut.send_replace(cut);
        if !cut {
            let waiters = std::mem::take(&mut self.state().waiters);
            waiters.into_iter().for_each(Waker::wake);
        }
    }

    /// Whether it is cut.
    pub fn is_cut(&self) -> bool {
        *self.is_cut.borrow()
    }

    /// Waits until it is not cut.
    pub async fn mended(&self) {
        let mut is_cut = self.is_cut.subscribe();
        // The sender lives as long as this link.
        let _mended = is_cut.wait_for(|cut| !cut).await;
    }

    /// Sends a message over it: returns when it has arrived, however long that takes.
    pub async fn pass(&self) {
        loop {
            self.mended().await;
            let delay = self.draw();
            if !delay.is_zero() {
                sleep(delay).await;
            }
            if !self.is_cut() {
                return;
            }
        }
    }

    /// How long a message takes that is sent now; none while it is cut.
    pub fn delay(&self) -> Option<Duration> {
        (!self.is_cut()).then(|| self.draw())
    }

    /// Has the waker woken when the link is mended.
    pub(super) fn wake_when_mended(&self, waker: &Waker) {
        let mut state = self.state();
        if !state.waiters.iter().any(|known| known.will_wake(waker)) {
            state.waiters.push(waker.clone());
        }
    }

    fn draw(&self) -> Duration {
        let State { quality, draws, .. } = &mut *self.state();
        let (shortest, longest) = quality.milliseconds;
        let range: RangeInclusive<u32> = shortest..=longest.max(shortest);
        let mut delay = Duration::from_millis(draws.u32(range).into());
        if quality.loss > 0.0 {
            let losses = (0..MOST_LOSSES).take_while(|_| draws.f64() < quality.loss);
            delay += losses.map(|loss| RESEND * 2u32.pow(loss)).sum::<Duration>();
        }
        delay
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
