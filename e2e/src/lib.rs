//! Scenarios, the clusters that run them, and what users see of them.
//!
//! A scenario is a file of `e2e/scenarios/` ([`scenario`], [`step`], [`library`]); a [`cluster::Cluster`] carries it out
//! ([`run`], [`wait`]); what came of it is the outcome document ([`outcome`], [`collect`]), which is judged
//! ([`verdict`], [`faults`]) and shown ([`output`], [`draw`], [`choice`], [`cli`]). [`mod@bench`] measures, [`kind::conformance`]
//! runs Kubernetes' own cases for device plugins, and a cluster for people to try things on is a [`playground`].

mod apply;
mod asked;
pub mod bench;
pub mod choice;
pub mod cli;
pub mod cluster;
pub mod collect;
pub mod draw;
pub mod embedded;
pub mod faults;
pub mod fuzz;
pub mod kind;
mod kind_arguments;
pub mod library;
mod lives;
mod observe;
pub mod outcome;
pub mod output;
pub mod paint;
pub mod playground;
pub mod proxy;
pub mod run;
pub mod scenario;
mod scheduler_configuration;
pub mod step;
pub mod verdict;
pub mod wait;
