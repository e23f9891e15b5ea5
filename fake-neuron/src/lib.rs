//! One machine of any Neuron instance type, as files: /dev, /sys and DMI under a root folder.
//!
//! ```no_run
//! use fake_neuron::{Health, Machine, MachineSpec};
//! use neuron_core::catalog::Catalog;
//!
//! # fn main() -> Result<(), fake_neuron::MachineError> {
//! let spec = MachineSpec { instance_type: "trn2.48xlarge".into(), lnc: Some(1), instance_id: None };
//! let machine = Machine::up(&spec, "/tmp/node1".as_ref(), Catalog::embedded())?;
//! machine.set_health(3, &Health::unhealthy("hbm"))?;
//! machine.lose(5)?;
//! machine.restore(5)?;
//! machine.down()?;
//! # Ok(())
//! # }
//! ```
//!
//! **What counts as unhealthy** is the reader's rule, the same for fake and for real hardware: a device is
//! unhealthy when its `stats/hardware/health_status/unhealthy_components` is not empty, when its
//! `stats/hardware/mem_ecc_uncorrected` or `sram_ecc_uncorrected` has risen above 0, or when its `/dev` node
//! or its sysfs folder is missing. [`Machine::set_health`] writes the files that the generation has.

mod error;
mod machine;
pub mod node;

pub use error::MachineError;
pub use machine::Machine;
pub use machine::description::MachineSpec;
pub use machine::health::Health;
pub use machine::tree::{DRIVER_MAJOR, MARKER};
