//! JSON files that are replaced as a whole. Used by `device_manager::checkpoint` and `pods::containers`.

use std::io;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Reads `path`; a missing file is `None`.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(io::Error::from),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes to a file beside `path` and renames it.
pub(crate) fn write<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    let unfinished = path.with_extension("new");
    std::fs::write(&unfinished, serde_json::to_vec(value).map_err(io::Error::from)?)?;
    std::fs::rename(&unfinished, path)
}
