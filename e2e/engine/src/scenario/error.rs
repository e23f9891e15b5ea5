//! Why a file is no scenario. Given by [`super::library`].

use std::path::PathBuf;

/// Why a scenario file is not a scenario.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// A file that is not there, or not readable.
    #[error("scenario file {path} cannot be read")]
    Unreadable {
        /// The path as it was given.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A file that is no scenario.
    #[error("scenario file {path}: {why}")]
    InFile {
        /// The path as it was given.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Not YAML, or not of a scenario's form.
    #[error("scenario {name}: {why}")]
    Malformed {
        /// File name without `.yaml`, with the entry of `for_each`.
        name: String,
        /// What the parser says.
        why: String,
    },
    /// A `${...}` that nothing defines.
    #[error("scenario {name}: {text:?} names a value that for_each and repeat do not define")]
    Undefined {
        /// File name without `.yaml`, with the entry of `for_each`.
        name: String,
        /// The text that holds it.
        text: String,
    },
}
