//! A real host's Neuron files as a fixture: captured ([`capture`]), shown before it is written ([`Fixture::summary`]), and
//! replayed as a machine ([`Fixture::up`]). Called by `fake-neuron record` and by `--from`.
//!
//! Only what is Neuron's is read: the devices, their class and the kernel module in sysfs, the nodes `/dev/neuronN`, the LNC
//! setting, the driver's lines in `/proc`, and DMI's product name. Serial numbers and ids are replaced by made-up ones unless
//! asked otherwise.

mod capture;
mod error;
mod fixture;
mod identity;
mod reader;
mod replay;
mod summary;

pub use capture::{Limits, capture};
pub use error::RecordError;
pub use fixture::{Fixture, Skipped};
pub use summary::Row;
