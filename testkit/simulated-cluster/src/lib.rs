//! A Kubernetes cluster in simulated time: the API server, scheduler and kubelets of `fake-cluster`, a stand-in for controllers,
//! and whatever programs a [`Suite`] brings, with faults from a [`Plan`](plan::Plan), judged at every event by who sees the truth.
//!
//! The programs are those that ship; they only have to ask for tasks, clock, files and sockets by a [`runtime::System`]. The
//! same seed is the same run, a plan is a file that anybody can run again, and a month of a small cluster takes an hour.
//!
//! | question | answered in |
//! |---|---|
//! | what do I have to bring? | [`suite`] |
//! | what can happen? | [`plan`] |
//! | how often does it happen? | [`profile`] |
//! | what must not be? | [`observer`], and a suite's own judgements |
//! | how is a plan run? | [`run`](fn@run) |

mod api;
mod controllers;
pub mod observer;
pub mod plan;
pub mod profile;
mod run;
pub mod shrink;
pub mod suite;
mod world;

pub use self::run::{RunOptions, Summary, run};
pub use self::suite::Suite;
pub use self::world::SCHEDULER;
