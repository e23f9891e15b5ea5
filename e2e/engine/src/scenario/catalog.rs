//! The instance types that scenarios may name: those in the program, with a file's merged over them where one is given.
//! Chosen by the command line, carried by each scenario, and read by everything that needs a node's hardware.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use neuron_core::catalog::Catalog;

/// A catalog, and the file that some of it comes from.
#[derive(Clone, Debug)]
pub struct CatalogSource {
    types: Arc<Catalog>,
    file: Option<CatalogFile>,
}

/// A file that was read.
#[derive(Clone, Debug)]
struct CatalogFile {
    path: PathBuf,
    text: Arc<str>,
}

/// Why a catalog file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CatalogFileError {
    /// It is not there, or not readable.
    #[error("catalog file {path} cannot be read")]
    Unreadable {
        /// The path as it was given.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// It is no catalog.
    #[error("catalog file {path}: {why}")]
    Malformed {
        /// The path as it was given.
        path: PathBuf,
        /// What is wrong and what to compare with.
        why: String,
    },
}

impl CatalogSource {
    /// The types in the program, with those of the file merged over them: the same file that extender, device plugin and
    /// fake-neuron take.
    ///
    /// # Errors
    /// The file cannot be read, or is no catalog.
    pub fn from_file(path: &Path) -> Result<Self, CatalogFileError> {
        let path = path.to_owned();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(source) => return Err(CatalogFileError::Unreadable { path, source }),
        };
        match Catalog::from_json(&text) {
            Ok(types) => {
                Ok(Self { types: Arc::new(types), file: Some(CatalogFile { path, text: text.into() }) })
            }
            Err(error) => Err(CatalogFileError::Malformed { path, why: error.to_string() }),
        }
    }

    /// Every type.
    pub fn types(&self) -> &Catalog {
        &self.types
    }

    /// The file whose types are merged over those in the program; none if there are only those.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_ref().map(|file| file.path.as_path())
    }

    /// What that file says, as it was when it was read: simulated hosts have it too.
    pub(crate) fn text(&self) -> Option<&str> {
        self.file.as_ref().map(|file| &*file.text)
    }
}

/// Equal where the types come from the same file.
impl PartialEq for CatalogSource {
    fn eq(&self, other: &Self) -> bool {
        self.file() == other.file()
    }
}

impl Eq for CatalogSource {}

/// The types in the program.
impl Default for CatalogSource {
    fn default() -> Self {
        static EMBEDDED: LazyLock<Arc<Catalog>> = LazyLock::new(|| Arc::new(Catalog::embedded().clone()));
        Self { types: Arc::clone(&EMBEDDED), file: None }
    }
}
