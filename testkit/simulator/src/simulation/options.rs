//! What a simulation is made of. Read by `run`.

use std::time::Duration;

use crate::executor::Order;
use crate::trace::Sink;

/// How long a poll may take in real time, if nothing else is said.
pub const POLL_LIMIT: Duration = Duration::from_secs(60);

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
    /// How long a poll may take in real time: one that has not returned then, or after twice that time, ends the run.
    pub poll_limit: Duration,
}

impl Options {
    /// A seeded order, no kills, nobody who reads the trace.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            order: Order::Seeded,
            trace: None,
            events: "",
            kills: Vec::new(),
            poll_limit: POLL_LIMIT,
        }
    }
}
