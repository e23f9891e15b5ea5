//! Scenarios, the clusters that run them, and what users see of them.
//!
//! A scenario is a file of `e2e/scenarios/` ([`scenario`], [`step`], [`library`]); a [`cluster::Cluster`] carries it out
//! ([`run`], [`wait`]); what came of it is the outcome document ([`outcome`], [`collect`]), which is judged
//! ([`verdict`], [`faults`]) and shown ([`output`], [`draw`], [`choice`], [`cli`]). The first kind of cluster is [`embedded`].

mod apply;
pub mod choice;
pub mod cli;
pub mod cluster;
pub mod collect;
pub mod draw;
pub mod embedded;
pub mod faults;
pub mod fuzz;
pub mod kind;
pub mod library;
mod observe;
pub mod outcome;
pub mod output;
pub mod proxy;
pub mod run;
pub mod scenario;
pub mod step;
pub mod verdict;
pub mod wait;
