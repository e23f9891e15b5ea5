//! What kube-scheduler asks: `/filter`, `/prioritize`, `/preempt` and `/bind`. Called by the routes.

mod admitted;
mod answered;
pub(crate) mod bind;
pub(crate) mod bound;
mod filter;
mod preempt;
mod prioritize;
mod refusal_log;
#[cfg(test)]
mod turns;

pub(crate) use self::admitted::Admitted;
pub(crate) use self::filter::Filter;
pub(crate) use self::preempt::{PreemptError, preempt};
pub(crate) use self::prioritize::{Prioritize, scores};

/// Moves that a call searches for before others get a turn, some 10 ms of them: what one pod's author asks for must not hold up other
/// pods, nor the watches.
pub(crate) const MOVES_OF_TURN: u32 = 100_000;
