//! What this machine has: its instance type and topology, and which devices may be given out. Read from files alone.

pub mod device_files;
pub mod discovery;
pub mod driver;
pub mod health;
pub mod held_lnc;
pub mod machine;
pub(crate) mod monitor;
pub mod sysfs;
