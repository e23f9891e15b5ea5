//! The file of `--catalog`: instance types that are merged over those in the program, so that a new type can be faked
//! without compiling. Read by the command line, and by harnesses that fake machines.

use std::io;
use std::path::{Path, PathBuf};

use neuron_core::catalog::{Catalog, CatalogError, InstanceType};
use serde_json::Value;

/// Why a catalog file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CatalogFileError {
    /// The file cannot be read.
    #[error("catalog {} cannot be read: {reason}; give --catalog a file that can", .path.display())]
    Unreadable {
        /// Path of the file, as the caller gave it.
        path: PathBuf,
        /// The file system's answer.
        reason: io::Error,
    },
    /// The file is not the JSON of a catalog.
    #[error(
        "catalog {} is no catalog: {reason}; write it like core/data/instance-types.json: {{\"types\": [..]}}", .path.display()
    )]
    Malformed {
        /// Path of the file, as the caller gave it.
        path: PathBuf,
        /// What was wrong in it, and where.
        reason: serde_json::Error,
    },
    /// A row that is malformed, or contradicts itself or another row.
    #[error("catalog {}, row {row}: {problem}", .path.display())]
    Row {
        /// Path of the file, as the caller gave it.
        path: PathBuf,
        /// The row's instance type, or its place such as `types[2]`.
        row: String,
        /// What is wrong and what it should be.
        problem: String,
    },
}

/// The catalog in the program with a file's rows merged over it: a row replaces the one of the same name or is added.
///
/// # Errors
/// The file cannot be read or is no catalog; the error names the row that is wrong.
pub fn read_catalog(path: &Path) -> Result<Catalog, CatalogFileError> {
    let path_of = || path.to_owned();
    let text = std::fs::read_to_string(path)
        .map_err(|reason| CatalogFileError::Unreadable { path: path_of(), reason })?;
    Catalog::from_json(&text).map_err(|error| match error {
        CatalogError::Row { name, problem } => CatalogFileError::Row { path: path_of(), row: name, problem },
        CatalogError::Malformed(reason) => match malformed_row(&text) {
            Some((row, problem)) => CatalogFileError::Row { path: path_of(), row, problem },
            None => CatalogFileError::Malformed { path: path_of(), reason },
        },
    })
}

/// The first row that is no instance type, and what is wrong with it.
fn malformed_row(text: &str) -> Option<(String, String)> {
    let file: Value = serde_json::from_str(text).ok()?;
    file.get("types")?.as_array()?.iter().enumerate().find_map(|(place, row)| {
        let problem = serde_json::from_value::<InstanceType>(row.clone()).err()?;
        let name = row.get("instance_type").and_then(Value::as_str);
        let row = name.map_or_else(|| format!("types[{place}]"), str::to_owned);
        Some((row, format!("{problem}; write it like the rows of core/data/instance-types.json")))
    })
}
