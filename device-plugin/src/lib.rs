//! The kubelet device plugin for AWS Neuron devices: finds them, offers them under both names, prefers the recorded
//! set, exports exactly what the ids mean, and keeps records and the node report true.
//!
//! Start with [`run`]. What kubelet asks goes through `service` to `engine`; what happens between its questions is
//! `upkeep`. `ledger`, `judge`, `reconcile`, `correct` and `export` are pure.

pub mod allocation;
pub mod config;
pub mod events;
pub mod hardware;
pub mod healthz;
pub mod kubelet;
pub mod ledger;
pub mod pods;
pub mod report;
pub mod resource;
mod run;
pub mod status;

pub use config::{Config, Numbering};
pub use run::run;
