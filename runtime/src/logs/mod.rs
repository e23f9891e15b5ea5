//! Where logs go. Called first thing by every program.

mod plain_lines;

use std::fmt;
use std::io::IsTerminal as _;
use std::str::FromStr;

use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use self::plain_lines::PlainLines;

/// The form of a line of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// An object for each line, for those who collect logs.
    Json,
}

/// A text that names no form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a form of logs; use text or json")]
pub struct LogFormatError(String);

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        })
    }
}

impl FromStr for LogFormat {
    type Err = LogFormatError;

    fn from_str(text: &str) -> Result<Self, LogFormatError> {
        let mut all = [LogFormat::Text, LogFormat::Json].into_iter();
        all.find(|format| format.to_string() == text).ok_or_else(|| LogFormatError(text.to_owned()))
    }
}

/// Sends logs to standard error: what `RUST_LOG` asks for, else `info` and above. Text has colours on a terminal.
pub fn log(format: LogFormat) {
    let logs = tracing_subscriber::fmt().with_env_filter(asked_for()).with_writer(std::io::stderr);
    // A line that cannot be written would be told of where it could not, and that ends the program.
    let logs = logs.log_internal_errors(false);
    match format {
        LogFormat::Text => logs.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => logs.json().flatten_event(true).init(),
    }
}

/// The same in text, and in the same stream all that is logged under this target, whatever its level: each line of the message by
/// itself, behind the time to the second, as Go's `log` package prints it.
pub fn log_with_plain_lines(target: &'static str) {
    let text = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).log_internal_errors(false);
    let text = text.with_ansi(std::io::stderr().is_terminal());
    let text = text.with_filter(asked_for().and(filter_fn(move |metadata| metadata.target() != target)));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).log_internal_errors(false);
    let lines = lines.event_format(PlainLines);
    let lines = lines.with_filter(filter_fn(move |metadata| metadata.target() == target));
    tracing_subscriber::registry().with(text).with(lines).init();
}

fn asked_for() -> EnvFilter {
    EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"))
}
