//! How results are shown: as tables, drawings and JSON. Used by every command and by the libraries beneath them; it knows
//! none of them.

pub mod colours;
pub mod drawing;
pub mod print;
mod row;
pub(crate) mod sets;
pub mod tables;

use clap::ValueEnum;

pub use row::Row;

/// How to print what came of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Json,
}
