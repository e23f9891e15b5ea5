//! Whether a device may be given to new containers, and if not, why. Called by `machine` for each device.

use std::path::Path;

use crate::hardware::sysfs::{self, FileError};

/// Why device `id` may not be given out; none if it may. Only the files of now decide, so that a device is healthy again
/// as soon as they say so.
pub fn fault(root: &Path, id: u8) -> Option<String> {
    read_fault(root, id).unwrap_or_else(|error| Some(error.to_string()))
}

fn read_fault(root: &Path, id: u8) -> Result<Option<String>, FileError> {
    let folder = sysfs::device_folder(root, id);
    for path in [&folder, &sysfs::device_node(root, id)] {
        if !path.exists() {
            return Ok(Some(format!("{} is missing", path.display())));
        }
    }
    sysfs::device(root, id)?;
    let hardware = folder.join("stats/hardware");
    // Older generations and drivers have no such file, which is no fault.
    if let Some(text) = sysfs::read_if_there(&hardware.join("health_status/unhealthy_components"))?
        && !text.trim().is_empty()
    {
        return Ok(Some(format!("the driver reports unhealthy components: {}", text.trim())));
    }
    for counter in ["mem_ecc_uncorrected", "sram_ecc_uncorrected"] {
        let path = hardware.join(counter);
        let Some(text) = sysfs::read_if_there(&path)? else { continue };
        let count: u64 =
            text.trim().parse().map_err(|_| sysfs::malformed(path, &text, "a number of errors"))?;
        if count > 0 {
            return Ok(Some(format!("{counter} counts {count} uncorrected memory errors")));
        }
    }
    Ok(None)
}
