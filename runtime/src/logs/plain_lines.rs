//! Lines as Go's `log` package prints them: `2022/10/12 15:41:16 ` and the message. Used by the log.

use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::registry::LookupSpan;

/// Prints each line of an event's message, and nothing else of it.
pub(super) struct PlainLines;

impl<S, N> FormatEvent<S, N> for PlainLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut message = Message::default();
        event.record(&mut message);
        let now = now()?;
        for line in message.0.lines() {
            writeln!(writer, "{now} {line}")?;
        }
        Ok(())
    }
}

/// The time in UTC, such as `2022/10/12 15:41:16`: that of the other lines, `2022-10-12T15:41:16.123456Z`, with other signs.
fn now() -> Result<String, fmt::Error> {
    let mut now = String::new();
    SystemTime.format_time(&mut Writer::new(&mut now))?;
    let sign = |sign| match sign {
        '-' => '/',
        'T' => ' ',
        other => other,
    };
    Ok(now.chars().take("2022-10-12T15:41:16".len()).map(sign).collect())
}

/// An event's message.
#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            // Writing to a text does not fail.
            let _ = write!(self.0, "{value:?}");
        }
    }
}
