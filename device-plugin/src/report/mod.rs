//! What others read of this node: its report, and records that say what kubelet really gave.

pub mod correction;
mod failure;
mod node_report;
mod records;
pub mod upkeep;
