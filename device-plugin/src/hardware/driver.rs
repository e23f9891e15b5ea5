//! The Neuron driver of the machine: its version, by which its files are known, and whether it is gone. Looked at once for all devices,
//! by `discovery` and then by `monitor`.

use std::path::{Path, PathBuf};

use runtime::System;

use crate::hardware::sysfs::{self, MODULE};

/// The driver, as its module's folder in sysfs shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Driver {
    /// It is loaded and says its version, such as `2.24.7.0`.
    Loaded(String),
    /// Nothing of a module was ever seen: less of `/sys` is mounted, or the driver is built in.
    NotShown,
    /// It was loaded and is not any more.
    Gone {
        /// The module's folder, below the plugin's `--root`.
        path: PathBuf,
    },
}

impl Driver {
    /// The driver now. `before` is what was seen last, and stays where the file cannot be read.
    pub async fn look(system: &System, root: &Path, before: &Driver) -> Driver {
        let module = root.join(MODULE);
        match (sysfs::read_if_there(system, &module.join("version")).await, before) {
            (Ok(Some(version)), _) => Driver::Loaded(version.trim().to_owned()),
            (Ok(None), Driver::Loaded(_)) => Driver::Gone { path: module },
            _ => before.clone(),
        }
    }

    /// Its version; nothing where that is not known.
    pub fn version(&self) -> &str {
        match self {
            Driver::Loaded(version) => version,
            Driver::NotShown | Driver::Gone { .. } => "",
        }
    }
}
