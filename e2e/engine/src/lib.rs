//! Scenarios and what comes of them, on any cluster.
//!
//! A scenario is a file of `e2e/scenarios/` ([`scenario`]); a [`cluster::Cluster`] carries it out ([`run`]); what came of it
//! is the outcome document ([`outcome`]), in which [`invariants`] are looked for. The [`embedded`] cluster runs in this
//! process; real ones are their users' business. [`fuzz`] makes random scenarios.

pub mod cluster;
pub mod embedded;
pub mod extender_proxy;
pub mod fuzz;
pub mod invariants;
pub mod observe;
pub mod outcome;
pub mod run;
pub mod scenario;
pub mod scheduler_configuration;
