//! The program `fake-neuron`: makes and removes machines. The work is in the library.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
