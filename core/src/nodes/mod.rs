//! What a node has: its instance type's facts, its topology and candidate sets, what its plugin reports, and which
//! cores are held.

pub mod catalog;
pub mod driver;
pub mod occupancy;
pub mod report;
pub mod topology;
