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
//! **Faults at run time** ([`fault`]) come in a vocabulary that the command line, files and a Node's annotation share, each with a
//! time and a chance; lifting one puts back exactly what was there. **Loads** ([`load`]) move the counters. A real host's tree is
//! captured and replayed ([`record`]). Thousands of trees fit into one process ([`memory`]). What programs read, and how often, is
//! counted only under `exec` ([`Reads`]).
//!
//! ```
//! use fake_neuron::Machine;
//! use fake_neuron::fault::{Fault, FaultSpec, parse_faults};
//! use fake_neuron::load::{Load, Profile};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let machine = Machine::builder("trn1.2xlarge").counters(true).up(folder.path())?;
//! let device = folder.path().join("sys/class/neuron_device/neuron0");
//!
//! let fault = FaultSpec::now(Fault::Reset { device: 0 });
//! let id = machine.strike(&fault)?.ok_or("a reset lasts")?;
//! assert_eq!(std::fs::read_to_string(device.join("reset"))?, "0\n");
//! machine.lift(id)?;
//! assert_eq!(std::fs::read_to_string(device.join("reset"))?, "1\n");
//! assert_eq!(parse_faults(r#"[{"fault": "reset", "device": 0}]"#)?, [fault]);
//!
//! Load::new(&machine, Profile::Training).write(60)?;
//! let done = std::fs::read_to_string(device.join("neuron_core0/stats/status/success/total"))?;
//! assert_eq!(done, "570\n");
//! # Ok(())
//! # }
//! ```
//!
//! The program `fake-neuron` does the same on a command line: `list | up | down | fault | load | record`. Its command `node` keeps the
//! hardware of a Kubernetes node as the Node object asks ([`node`]). A type that is not in the program's catalog comes from a file
//! ([`read_catalog`], `--catalog`).
//!
//! `fake-neuron exec` runs any program on a machine that stands at the real paths ([`exec`]), with the instance's metadata if asked
//! ([`imds`]).
//!
//! The tree is that of one line of the driver (`--driver`, [`neuron_core::driver`]), true to itself.
//!
//! **When a device is unhealthy** is the reader's rule, the same for fake and for real hardware: its `unhealthy_components` is not
//! empty, one of its counters of errors that could not be corrected is above 0, it is in a reset, or its `/dev` node or sysfs folder
//! is missing. [`Machine::set_health`] writes the files that the driver has.

pub mod agent;
mod catalog_file;
mod error;
pub mod exec;
pub mod fault;
mod go;
pub mod host;
pub mod imds;
pub mod ioctl;
pub mod load;
pub mod ls;
mod machine;
pub mod memory;
pub mod monitor;
pub mod node;
mod reads;
pub mod record;
pub mod state;

pub use catalog_file::{CatalogFileError, read_catalog};
pub use error::MachineError;
pub use machine::Machine;
pub use machine::blueprint::Blueprint;
pub use machine::builder::Builder;
pub use machine::description::MachineSpec;
pub use machine::health::Health;
pub use machine::pci;
pub use machine::tree::{DRIVER_MAJOR, Entry, Kind, MARKER};
pub use reads::Reads;
