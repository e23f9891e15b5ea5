//! What others read of this node: its report, and records that say what kubelet really gave.

pub mod correction;
pub mod upkeep;
