//! The log of a test's own thread, line by line with its fields and spans. All of a test's tasks run on that thread.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// Fields by name; the text is `message`.
type Fields = BTreeMap<String, String>;

#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) level: Level,
    pub(crate) fields: Fields,
    /// The innermost span, by name.
    pub(crate) span: Option<&'static str>,
}

/// What was logged while this lives.
pub(crate) struct Log {
    shared: Shared,
    _guard: DefaultGuard,
}

#[derive(Clone, Default)]
struct Shared {
    lines: Arc<Mutex<Vec<Line>>>,
    spans: Arc<Mutex<Vec<(&'static str, Fields)>>>,
}

struct Collect<'a>(&'a mut Fields);

impl Visit for Collect<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Shared {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        let mut fields = Fields::new();
        attributes.record(&mut Collect(&mut fields));
        self.spans.lock().unwrap().push((attributes.metadata().name(), fields));
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if !event.metadata().target().starts_with("neuron_device_plugin") {
            return;
        }
        let mut fields = Fields::new();
        event.record(&mut Collect(&mut fields));
        let span = context.event_span(event).map(|span| span.name());
        self.lines.lock().unwrap().push(Line { level: *event.metadata().level(), fields, span });
    }
}

impl Log {
    pub(crate) fn capture() -> Self {
        let shared = Shared::default();
        let subscriber = tracing_subscriber::registry().with(shared.clone());
        Log { shared, _guard: tracing::subscriber::set_default(subscriber) }
    }

    /// The lines with this text.
    pub(crate) fn lines(&self, message: &str) -> Vec<Line> {
        let lines = self.shared.lines.lock().unwrap();
        let same = |line: &&Line| line.fields.get("message").is_some_and(|text| text == message);
        lines.iter().filter(same).cloned().collect()
    }

    /// The spans that began, with the value of their field `resource`.
    pub(crate) fn spans(&self) -> Vec<(&'static str, String)> {
        let spans = self.shared.spans.lock().unwrap();
        let resource = |fields: &Fields| fields.get("resource").cloned().unwrap_or_default();
        spans.iter().map(|(name, fields)| (*name, resource(fields))).collect()
    }
}
