//! JSON files that are never half written. Used by `checkpoint` and `containers`.

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

/// Replaces `path` as a whole.
pub(crate) fn write<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    let unfinished = path.with_extension("new");
    std::fs::write(&unfinished, serde_json::to_vec(value).map_err(io::Error::from)?)?;
    std::fs::rename(&unfinished, path)
}
