//! Where logs go. Called first thing by every program.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// Sends logs to standard error, in colours on a terminal: what `RUST_LOG` asks for, else `info` and above.
pub fn log() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours).init();
}
