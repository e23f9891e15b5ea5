//! `cargo xtask`: chores of this workspace that need more than cargo. Run by developers and by `.ci/run`.
//!
//! ```sh
//! cargo xtask rooms
//! ```

mod commits;
mod crates;
mod images;
mod planted;
mod program;
mod rooms;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Chores of this workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Check that every crate depends only on the crates that it may know.
    Arrows,
    /// Check the subjects of the commits since a named one.
    Commits(commits::Arguments),
    /// Check each crate alone: one that builds only by another crate's features breaks for whoever uses it.
    EachAlone,
    /// Build static binaries and pack each into an image of its own.
    Images(images::Arguments),
    /// Prove the simulator: find every bug that is planted in the programs.
    Planted(planted::Arguments),
    /// Check that import cycles stay inside one folder and that no crate holds a quarter of all lines.
    Rooms(rooms::Arguments),
}

fn main() -> ExitCode {
    let chore = Cli::parse().chore;
    let (name, done) = match &chore {
        Chore::Arrows => ("arrows", crates::check_arrows()),
        Chore::Commits(arguments) => ("commits", commits::run(arguments)),
        Chore::EachAlone => ("each-alone", crates::check_each_alone()),
        Chore::Images(arguments) => ("images", images::run(arguments)),
        Chore::Planted(arguments) => ("planted", planted::run(arguments)),
        Chore::Rooms(arguments) => ("rooms", rooms::run(arguments)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask {name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}
