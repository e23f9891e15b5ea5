//! What the programs' metrics share: buckets of seconds, and how `/metrics` answers. Each program has names and labels of its own.

use std::hash::Hash;

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Upper bounds of the buckets in seconds: most calls are answered from memory, and the longest have waited for somebody else.
const SECONDS: [f64; 9] = [0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0];
/// OpenMetrics' text format, which Prometheus reads.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Seconds that something took, by labels.
pub type Seconds<L> = Family<L, Histogram, fn() -> Histogram>;

/// Nothing has taken any time yet.
pub fn seconds<L: Clone + Hash + Eq>() -> Seconds<L> {
    Seconds::new_with_constructor(|| Histogram::new(SECONDS))
}

/// What a registry shows now, in OpenMetrics' text format 1.0.0.
pub fn text(registry: &Registry) -> String {
    let mut text = String::new();
    // A `String` takes everything.
    let _written = encode(&mut text, registry);
    text
}

/// The answer to whoever asks for `/metrics`.
pub fn answer(text: String) -> impl IntoResponse {
    ([(CONTENT_TYPE, OPEN_METRICS)], text)
}
