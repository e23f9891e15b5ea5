//! What this machine is and how its devices are: read from files below the root, asked by nobody else than this crate.

pub mod discovery;
pub mod health;
pub mod held_lnc;
pub mod sysfs;
