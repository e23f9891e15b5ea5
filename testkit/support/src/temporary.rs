//! Temporary folders for sockets: Linux allows a socket's path 107 bytes.

use std::io;

use tempfile::TempDir;

/// A temporary folder with a path of some 15 bytes, in memory where the machine has `/dev/shm`. It is removed when dropped.
///
/// # Errors
/// No folder can be made, neither there nor where temporary folders usually are.
pub fn short_folder() -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("ne").rand_bytes(6);
    builder.tempdir_in("/dev/shm").or_else(|_| builder.tempdir())
}
