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
//! | how is it run? | [`Seeded`] by a seed, [`run`](fn@run) by a plan |
//!
//! Rooms, each knowing only those before it: `units` and `names`; [`plan`]; [`observer`], what is true; `resource`, the plain case
//! of hardware and pods; [`suite`]; `problem`, whether a plan fits one; `watcher`, which keeps the truth and judges it; `api`, the
//! way to the API server; `controllers`; `world`, the cluster itself; `run`. Beside them [`profile`] draws plans, `seeded` runs them,
//! [`shrink`](mod@shrink) makes them smaller, and `judgements` names what is judged.

mod api;
mod controllers;
mod judgements;
mod names;
pub mod observer;
pub mod plan;
mod problem;
pub mod profile;
mod resource;
mod run;
mod seeded;
pub mod shrink;
pub mod suite;
mod units;
mod watcher;
mod world;

pub use self::judgements::{JUDGEMENTS, judged_too_seldom};
pub use self::names::SCHEDULER;
pub use self::run::{RunOptions, STUCK, Summary, TellProgress, run};
pub use self::seeded::Seeded;
pub use self::suite::Suite;
