//! Faults at run time: what can break on a machine that stands, when, and how it is put right again. The vocabulary
//! ([`Fault`]) is the same on the command line (`fake-neuron fault`), in a file for scripts and in the annotation
//! `neuron-e2e/faults` of a Node; [`crate::Machine`] carries a fault out, and [`Schedule`] does so in time.
//!
//! What is in force stands in `<root>/.fake-neuron/faults.json` ([`Faults`]), where other programs of the machine read it.

mod carry_out;
mod changes;
mod error;
mod files;
mod healthy;
mod hung;
mod kernel_log;
mod kind;
mod on_disk;
mod schedule;
mod spec;
mod standing;
mod time;
mod together;

pub use crate::machine::tree::KERNEL_LOG;
pub use changes::{Change, Put};
pub use error::FaultError;
pub(crate) use kernel_log::append_record;
pub use kind::{Fault, HardwareError};
pub use schedule::{Due, Schedule, Stop};
pub use spec::{FaultSpec, parse_faults, read_faults};
pub use standing::{Faults, Standing, State};
pub use time::{duration_text, parse_duration};
