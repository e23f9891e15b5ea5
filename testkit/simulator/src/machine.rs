//! What a host is to its processes: a name, an address and files.

use std::sync::Arc;

use crate::files::FileSystem;
use crate::network::HostAddress;

/// A host without its processes.
pub(crate) struct Machine {
    pub(crate) name: String,
    pub(crate) address: HostAddress,
    pub(crate) files: Arc<FileSystem>,
}
