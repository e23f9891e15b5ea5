//! Where the driver reports what goes on: standard error, which is the caller's log. Used by everything here.

use std::fmt::Display;
use std::io::{Write as _, stderr};

/// Writes a line. One that cannot be written can be reported nowhere.
pub(crate) fn line(text: impl Display) {
    let _nowhere_to_say_it = writeln!(stderr(), "{text}");
}
