//! Stands in for the Neuron hardware of any EC2 instance type: a machine's `/dev`, `/sys`, `/proc`, `/opt` and DMI files
//! below a folder, with the driver's bytes. What reads hardware below a root, as the device plugin does, is tested and tried
//! without any; so is what it does when a device breaks.
//!
//! ```
//! use fake_neuron::{Health, Machine, MachineSpec};
//! use neuron_core::catalog::Catalog;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let spec = MachineSpec { instance_type: "trn2.48xlarge".into(), lnc: Some(1), instance_id: None, driver: None };
//! let machine = Machine::up(&spec, folder.path(), Catalog::embedded())?;
//! let devices = folder.path().join("sys/devices/virtual/neuron_device");
//! assert_eq!(std::fs::read_to_string(devices.join("neuron5/core_count"))?, "8");
//!
//! machine.lose(5)?;
//! assert!(!devices.join("neuron5").exists() && !folder.path().join("dev/neuron5").exists());
//! machine.restore(5)?;
//! machine.set_health(3, &Health::unhealthy("hbm"))?;
//! machine.down()?;
//! # Ok(())
//! # }
//! ```
//!
//! The program `fake-neuron` does the same on a command line: `list | up | down`. Its command `node` keeps the hardware of a
//! Kubernetes node as the Node object asks ([`node`]). A type that is not in the program's catalog comes from a file
//! ([`read_catalog`], `--catalog`).
//!
//! The tree is that of one line of the driver (`--driver`, [`neuron_core::driver`]), true to itself.
//!
//! **When a device is unhealthy** is the reader's rule, the same for fake and for real hardware: its `unhealthy_components` is not
//! empty, one of its counters of errors that could not be corrected is above 0, it is in a reset, or its `/dev` node or sysfs folder
//! is missing. [`Machine::set_health`] writes the files that the driver has.

mod catalog_file;
mod error;
mod machine;
pub mod node;

pub use catalog_file::{CatalogFileError, read_catalog};
pub use error::MachineError;
pub use machine::Machine;
pub use machine::blueprint::Blueprint;
pub use machine::description::MachineSpec;
pub use machine::health::Health;
pub use machine::tree::{DRIVER_MAJOR, Entry, Kind, MARKER};
