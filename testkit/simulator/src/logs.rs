//! Counts what the parts log, and shows it in the trace to who reads that.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::executor::current_part;
use crate::process::Shared;

/// The log of a simulating thread.
pub(crate) struct Logs {
    shared: Arc<Shared>,
    /// The target whose lines are events, at whatever level.
    events: &'static str,
}

impl Logs {
    pub(crate) fn new(shared: Arc<Shared>, events: &'static str) -> Self {
        Self { shared, events }
    }
}

impl Subscriber for Logs {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO || metadata.target() == self.events
    }

    fn event(&self, event: &Event<'_>) {
        let Some(part) = current_part() else { return };
        let Shared { parts, trace, .. } = &*self.shared;
        if event.metadata().target() == self.events {
            let mut line = String::new();
            event.record(&mut Words(&mut line));
            return trace.event(&parts.name(part), format_args!("{}", line.trim_start()));
        }
        parts.count_log_line(part);
        if trace.wants_remarks() {
            let mut line = format!("{}", event.metadata().level());
            event.record(&mut Words(&mut line));
            trace.remark(&parts.name(part), format_args!("{line}"));
        }
    }

    // Spans are not told apart.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Writes an event's fields.
struct Words<'a>(&'a mut String);

impl Visit for Words<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a String cannot fail.
        let _ = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}
