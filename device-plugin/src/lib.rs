//! The kubelet device plugin for AWS Neuron devices: finds them, offers them under both names, prefers the recorded
//! set, exports exactly what the ids mean, and keeps records and the node report true.
//!
//! Start with [`run`]. What kubelet asks goes through `service` to `engine`; what happens between its questions is
//! `upkeep`. `ledger`, `judge`, `reconcile`, `correct` and `export` are pure.

pub mod admitted;
pub mod config;
pub mod correct;
pub mod discovery;
pub mod ended;
pub mod engine;
pub mod export;
pub mod gate;
pub mod health;
pub mod healthz;
mod in_a_row;
pub mod judge;
pub mod ledger;
pub mod lnc;
pub mod offer;
pub mod podresources;
pub mod pods;
pub mod reconcile;
pub mod registration;
mod run;
pub mod service;
pub mod serving;
pub mod slot;
pub mod status;
pub mod sysfs;
pub mod upkeep;
pub mod voice;

pub use config::{Config, Numbering};
pub use run::run;
