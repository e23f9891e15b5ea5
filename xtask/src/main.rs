//! `cargo xtask`: chores of this workspace that need more than cargo.

mod images;
mod program;

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
    /// Build static binaries and pack each into an image of its own.
    Images(images::Arguments),
}

fn main() -> ExitCode {
    let Chore::Images(arguments) = Cli::parse().chore;
    match images::run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask images: {error:#}");
            ExitCode::FAILURE
        }
    }
}
