//! The option `--catalog` of the commands that run or list scenarios.

use std::path::PathBuf;

use clap::Args;
use neuron_e2e_engine::scenario::{CatalogFileError, CatalogSource};

/// Which instance types there are.
#[derive(Clone, Debug, Args)]
pub(super) struct CatalogArguments {
    /// File of instance types, merged over those in the program: the same that extender and device plugin take.
    #[arg(long, value_name = "FILE")]
    catalog: Option<PathBuf>,
}

impl CatalogArguments {
    /// Whether a file was given.
    pub(super) fn is_given(&self) -> bool {
        self.catalog.is_some()
    }

    /// The types in the program, with those of the file merged over them if one was given.
    pub(super) fn read(&self) -> Result<CatalogSource, CatalogFileError> {
        self.catalog.as_deref().map_or_else(|| Ok(CatalogSource::default()), CatalogSource::from_file)
    }
}
