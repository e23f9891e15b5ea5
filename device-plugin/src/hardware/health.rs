//! Whether a device may be given to new containers, and if not, why. Called by `machine` for each device.

use std::path::PathBuf;

use runtime::System;

use crate::hardware::sysfs::{self, DeviceFiles, FileError};

/// Why a device may not be given out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Its folder or its node is not there.
    #[error("{} is missing", path.display())]
    Missing {
        /// Path of what is missing, below the plugin's `--root`.
        path: PathBuf,
    },
    /// One of its files cannot be read, hangs or makes no sense.
    #[error(transparent)]
    File(#[from] FileError),
    /// The driver says so.
    #[error("the driver reports unhealthy components: {0}")]
    Components(String),
    /// It has lost what was in its memory.
    #[error("{counter} counts {count} uncorrected memory errors")]
    MemoryErrors {
        /// The counter's name in sysfs.
        counter: &'static str,
        /// What it counts, at least 1.
        count: u64,
    },
}

/// Why the device may not be given out; none if it may. Only the files of now decide, so that a device is healthy again as
/// soon as they say so. Its links are read only `with_links`, since a topology that was discovered stays as it is.
pub async fn fault(system: &System, files: &DeviceFiles, with_links: bool) -> Option<Fault> {
    look(system, files, with_links).await.unwrap_or_else(|error| Some(error.into()))
}

async fn look(system: &System, files: &DeviceFiles, with_links: bool) -> Result<Option<Fault>, FileError> {
    if let Err(error) = sysfs::core_count(system, files).await {
        // A device without a folder is lost, which says more than that its files cannot be read.
        let is_lost = matches!(sysfs::is_there(system, &files.folder).await, Ok(false));
        return if is_lost { Ok(Some(Fault::Missing { path: files.folder.clone() })) } else { Err(error) };
    }
    if !sysfs::is_there(system, &files.node).await? {
        return Ok(Some(Fault::Missing { path: files.node.clone() }));
    }
    if with_links {
        sysfs::links(system, files).await?;
    }
    if let Some(text) = sysfs::read_if_there(system, &files.unhealthy_components).await?
        && !text.trim().is_empty()
    {
        return Ok(Some(Fault::Components(text.trim().to_owned())));
    }
    for (counter, path) in &files.memory_errors {
        let Some(text) = sysfs::read_if_there(system, path).await? else { continue };
        let count = text.trim().parse();
        let count = count.map_err(|_| sysfs::malformed(path, &text, "a number of errors"))?;
        if count > 0 {
            return Ok(Some(Fault::MemoryErrors { counter, count }));
        }
    }
    Ok(None)
}
