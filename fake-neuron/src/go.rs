//! How programs written in Go print, as neuron-ls and neuron-monitor are: JSON, flags and log lines. Called by [`crate::ls`] and
//! [`crate::monitor`].

use std::time::SystemTime;

use serde::{Serialize, Serializer};

/// A JSON text with `<`, `>` and `&` written as Go's `json.Marshal` does. Outside strings JSON has none of them.
pub(crate) fn escape_html(json: &str) -> String {
    json.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e")
}

/// A number that prints without a point where it is whole.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Float(pub(crate) f64);

impl Float {
    /// Rounded to two decimals, as percentages are.
    pub(crate) fn percent(value: f64) -> Float {
        Float((value * 100.0).round() / 100.0)
    }
}

impl Serialize for Float {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Beyond this a float has no fraction to lose, but may not fit.
        const WHOLE: f64 = 9_007_199_254_740_992.0;
        if self.0.fract() == 0.0 && self.0.abs() < WHOLE {
            #[allow(clippy::cast_possible_truncation, reason = "it is whole and small")]
            return serializer.serialize_i64(self.0 as i64);
        }
        serializer.serialize_f64(self.0)
    }
}

/// The line of a fatal error in logfmt, as captured of neuron-ls, with its newline.
pub(crate) fn fatal(now: SystemTime, message: &str, error: &str) -> String {
    line(now, "fatal", &[("msg", message), ("error", error)])
}

/// The line of a warning in the same form; none was captured.
pub(crate) fn warning(now: SystemTime, message: &str) -> String {
    line(now, "warning", &[("msg", message)])
}

fn line(now: SystemTime, level: &str, texts: &[(&str, &str)]) -> String {
    let time = jiff::Timestamp::try_from(now).unwrap_or_default().strftime("%Y-%m-%dT%H:%M:%SZ");
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let texts = texts.iter().map(|(key, text)| format!(" {key}=\"{}\"", quoted(text)));
    format!("time=\"{time}\" level={level}{}\n", texts.collect::<String>())
}
