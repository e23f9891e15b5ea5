//! JSON files of one kubelet that are replaced as a whole. Used by `shared` for the checkpoint and the node's containers.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use runtime::System;
use serde::de::DeserializeOwned;

/// A file that holds one value as JSON.
pub(crate) struct StateFile {
    path: PathBuf,
    /// Whose turn it is to write. The state is read when the turn has come, so the last write has the newest.
    turn: tokio::sync::Mutex<()>,
}

impl StateFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, turn: tokio::sync::Mutex::new(()) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The value; none if there is no file.
    pub(crate) async fn read<T: DeserializeOwned>(&self, system: &System) -> io::Result<Option<T>> {
        match system.read(&self.path).await {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(io::Error::from),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces the file by the JSON that `state` gives.
    pub(crate) async fn write(
        &self,
        system: &System,
        state: impl FnOnce() -> serde_json::Result<Vec<u8>>,
    ) -> io::Result<()> {
        let _turn = self.turn.lock().await;
        system.replace(&self.path, state()?).await
    }
}
