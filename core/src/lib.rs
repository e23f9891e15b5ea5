//! The domain rules of Neuron scheduling, pure: no I/O, no async, no clock.
//!
//! The extender, the device plugin, fake-neuron and the tests all read the same catalog, the same
//! candidate sets and the same records from here.

pub mod holders;
pub mod ids;
pub mod names;
mod nodes;
pub mod placement;
mod pods;

pub use nodes::{catalog, occupancy, report, topology};
pub use pods::{pod, quantity, record, request};
