//! Who holds what, on disk: `device-plugins/kubelet_internal_checkpoint`. Our own form; kubelet's is nobody's contract.

use std::io;
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::devices::{Books, Holding};
use super::files;

#[derive(Serialize, Deserialize)]
struct Checkpoint {
    holdings: Vec<Holding>,
    resources: Vec<String>,
}

/// Writes the books' lasting part.
pub(crate) fn save(path: &Path, books: &Books) -> io::Result<()> {
    files::write(path, &Checkpoint { holdings: books.holdings().to_vec(), resources: books.resources() })
}

/// The books of the kubelet before; empty when there was none.
pub(crate) fn load(path: &Path, now: Timestamp) -> io::Result<Books> {
    let checkpoint: Option<Checkpoint> = files::read(path)?;
    Ok(checkpoint.map_or_else(Books::default, |saved| Books::restored(saved.holdings, saved.resources, now)))
}
