//! The instance metadata service (IMDS) of one instance, as EC2 answers it (docs/reference/neuron.md §6): for `fake-neuron imds`, for
//! `fake-neuron exec --imds` and for tests.

mod instance;
mod pages;
mod service;
mod tokens;
mod zone;

pub use instance::Instance;
pub use service::{Imds, listen};
pub use zone::{Zone, ZoneError};
