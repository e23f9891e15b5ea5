//! `neuron-e2e`: runs scenarios and shows what came of them.

use std::process::ExitCode;

use clap::Parser as _;
use neuron_e2e::command::Arguments;
use neuron_e2e::report::print;

/// A simulation makes and drops JSON all the time: a third of its instructions were those of glibc's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match neuron_e2e::command::run(Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            print::progress(format_args!("neuron-e2e: {error:#}"));
            ExitCode::from(2)
        }
    }
}
