//! What cannot be meant together. Asked once command line, environment and file are read.

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

use super::Arguments;

/// Refuses flags of which one makes another one wrong; what one flag needs of another stands at the flag.
///
/// # Errors
/// Which, and what to leave out.
pub(super) fn refuse_contradictions(
    command: &mut Command,
    arguments: &Arguments,
    matches: &ArgMatches,
) -> Result<(), clap::Error> {
    let is_set = |id| matches.value_source(id).is_some_and(|source| source != ValueSource::DefaultValue);
    let port = arguments.port;
    match arguments.listen {
        Some(listen) if is_set("port") && listen.port() != port => Err(command.error(
            ErrorKind::ArgumentConflict,
            format!(
                "--listen {listen} and --port {port} (or NEURON_LISTEN and PORT) are two ports to listen on: leave --port out, or \
                 give {} in both",
                listen.port()
            ),
        )),
        _ => Ok(()),
    }
}
