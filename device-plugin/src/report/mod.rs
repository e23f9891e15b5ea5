//! What others read of this node: its report, and records that say what kubelet really gave.

mod comparison;
pub mod correction;
mod failure;
mod node_report;
mod records;
pub mod upkeep;
