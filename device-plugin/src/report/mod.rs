//! What others read of this node: its report, and records that say what kubelet really gave.

mod absence;
pub mod correction;
mod failure;
pub(crate) mod lease;
pub(crate) mod node_report;
mod records;
pub mod upkeep;
