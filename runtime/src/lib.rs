//! How every program of the suite starts: its logs, its way to the API server, and the signals that end it. Called by
//! the extender, the device plugin and `fake-neuron node`, first thing; the latter two also watch by it.

mod api_server;
mod signals;
mod watches;

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

pub use api_server::client;
pub use signals::until_signal;
pub use watches::{Told, watch};

/// Logs go to standard error, with colours where somebody looks: what `RUST_LOG` says, or `info` and worse.
pub fn log() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours).init();
}
