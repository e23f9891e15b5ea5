//! The only way to standard output and standard error: `println!` panics where nobody reads any more, as in
//! `neuron-e2e list | head`. Used by everything that prints.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use anyhow::Context as _;
use serde::Serialize;

/// Writes a line to standard output. A reader that has gone, such as `head`, ends the printing and not the command.
///
/// # Errors
/// Standard output cannot be written for another reason, such as a full disk.
pub fn line(text: impl Display) -> anyhow::Result<()> {
    write_line(io::stdout().lock(), text)
}

/// Writes a value as indented JSON, and a newline, to standard output.
///
/// # Errors
/// The value is not JSON, or as [`line()`].
pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    line(serde_json::to_string_pretty(value)?)
}

/// Writes a line to standard error. A line that cannot be written there can be reported nowhere.
pub fn progress(text: impl Display) {
    let _nowhere_to_say_it = write_line(io::stderr().lock(), text);
}

fn write_line(mut to: impl Write, text: impl Display) -> anyhow::Result<()> {
    match writeln!(to, "{text}").and_then(|()| to.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("cannot print"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer whose every write ends so.
    struct Fails(ErrorKind);

    impl Write for Fails {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn only_a_reader_that_has_gone_is_no_error() {
        assert!(write_line(Fails(ErrorKind::BrokenPipe), "text").is_ok());
        let full = write_line(Fails(ErrorKind::StorageFull), "text").unwrap_err();
        assert!(format!("{full:#}").starts_with("cannot print: "), "{full:#}");
    }
}
