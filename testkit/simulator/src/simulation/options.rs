//! What a simulation is made of. Read by `run`.

use std::time::Duration;

use crate::executor::Order;
use crate::trace::Sink;
use crate::watchdog::TellStuck;

/// What a simulation is made of.
pub struct Options {
    /// Everything random comes from it.
    pub seed: u64,
    /// In which order tasks that are ready at one instant are polled.
    pub order: Order,
    /// Where events go, if anybody reads them.
    pub trace: Option<Sink>,
    /// Log lines of this target are events, at whatever level; all others are remarks, which the hash leaves out.
    pub events: &'static str,
    /// Parts that are killed before a poll of their tasks, by its number over all processes of the part, from 1.
    pub kills: Vec<(String, u64)>,
    /// Is told, on another thread, when a poll does not return for so long in real time.
    pub watchdog: Option<(Duration, TellStuck)>,
}

impl Options {
    /// A seeded order, no kills, nobody who watches.
    pub fn new(seed: u64) -> Self {
        Self { seed, order: Order::Seeded, trace: None, events: "", kills: Vec::new(), watchdog: None }
    }
}
