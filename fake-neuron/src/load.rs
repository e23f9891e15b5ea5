//! What a workload makes of a device's counters: a pure function of profile, time, device and core, so that the driver's files
//! and `neuron-monitor` show the same numbers; and a run that writes the files each second. Called by `fake-neuron load`, by
//! `exec --load` and by the stand-in of neuron-monitor.

mod files;
mod in_force;
mod profile;
mod run;
mod usage;

pub use files::{core_files, device_files};
pub use in_force::LoadInForce;
pub use profile::{LoadError, Profile};
pub use run::Load;
pub use usage::{CoreUsage, DeviceUsage, Memory, core_memory};
