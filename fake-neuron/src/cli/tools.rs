//! `neuron-ls` and `neuron-monitor`: this program under their names, or `fake-neuron ls` and `fake-neuron monitor`. Called by
//! `cli`.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::Args;

/// Arguments that the tool reads itself, as the real one does.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The tool's own flags; --help shows them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FLAGS")]
    flags: Vec<OsString>,
}

/// A tool of AWS that this program stands in for.
#[derive(Clone, Copy)]
pub(crate) enum Tool {
    Ls,
    Monitor,
}

impl Tool {
    /// The tool by whose name this program was called, and its arguments.
    pub(crate) fn called() -> Option<(Tool, Arguments)> {
        let mut words = env::args_os();
        let name = words.next()?;
        let tool = match Path::new(&name).file_name()?.to_str()? {
            "neuron-ls" => Tool::Ls,
            "neuron-monitor" => Tool::Monitor,
            _ => return None,
        };
        Some((tool, Arguments { flags: words.collect() }))
    }

    /// Runs the tool to its end; the exit code is the tool's.
    pub(crate) fn run(self, arguments: &Arguments) -> ExitCode {
        let (mut out, mut err) = (io::stdout().lock(), io::stderr().lock());
        let (name, ended) = match self {
            Tool::Ls => ("neuron-ls", fake_neuron::ls::run(&arguments.flags, &mut out, &mut err)),
            Tool::Monitor => {
                ("neuron-monitor", fake_neuron::monitor::run(&arguments.flags, &mut out, &mut err))
            }
        };
        match ended {
            Ok(code) => ExitCode::from(code),
            // Nobody reads any more, as in `neuron-ls | head -1`.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Err(error) => {
                let _ = writeln!(err, "{name}: cannot print: {error}");
                ExitCode::FAILURE
            }
        }
    }
}
