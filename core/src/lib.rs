//! The domain rules of Neuron scheduling, pure: no I/O, no async, no clock.
//!
//! The extender, the device plugin, fake-neuron and the tests all read the same catalog, the same
//! candidate sets and the same records from here.

pub mod catalog;
pub mod holders;
pub mod ids;
pub mod names;
pub mod occupancy;
pub mod placement;
pub mod pod;
pub mod quantity;
pub mod record;
pub mod report;
pub mod request;
pub mod topology;
