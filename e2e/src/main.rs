//! `neuron-e2e`: runs scenarios and shows what came of them.

use std::process::ExitCode;

use clap::Parser as _;
use neuron_e2e::command::Arguments;
use neuron_e2e::report::print;

fn main() -> ExitCode {
    match neuron_e2e::command::run(Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            print::progress(format_args!("neuron-e2e: {error:#}"));
            ExitCode::from(2)
        }
    }
}
