//! What the cluster's parts ask of a plugin and of an extender, and what they are answered: log lines of a target of their own.
//! A simulation takes them for events.

use std::fmt;

/// The target of these lines, at level DEBUG.
pub const CALLS: &str = "calls";

pub(crate) fn called(what: fmt::Arguments<'_>) {
    tracing::debug!(target: CALLS, "{what}");
}
