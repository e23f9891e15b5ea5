//! What a fixture holds, short enough to be looked through: files that differ only in the device's or core's id are one row.
//! Printed by `fake-neuron record`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Fixture;
use super::fixture::What;
use super::identity::is_identity;

/// Files of one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Below the root; ids of devices and cores are `*`, and so is the last part of a counter's `total`, `present` and `peak`.
    pub path: String,
    /// Number of files, links or nodes.
    pub count: usize,
    /// Bytes of text in all of them.
    pub bytes: usize,
    /// An example: the first one's text without its last newline, at most 40 characters; a link's target.
    pub example: String,
    /// Whether the numbers in them are made up in place of the host's.
    pub made_up: bool,
}

impl Fixture {
    /// Everything in the fixture, by path.
    pub fn summary(&self) -> Vec<Row> {
        let mut rows = BTreeMap::<String, Row>::new();
        for entry in &self.entries {
            let path = without_ids(&entry.path);
            let (bytes, example) = match &entry.what {
                What::File { content, .. } => (content.len(), content.trim_end()),
                What::Link { link } => (0, link.as_str()),
                What::Node { .. } => (0, "a device node"),
            };
            let name = path.rsplit('/').next().unwrap_or_default();
            let is_none = example.trim_matches('0').is_empty();
            let made_up = !self.identity_kept && !is_none && (is_identity(name) || name == "board_asset_tag");
            let new = || Row {
                path: path.clone(),
                count: 0,
                bytes: 0,
                example: example.replace('\n', " ").chars().take(40).collect(),
                made_up,
            };
            let row = rows.entry(path.clone()).or_insert_with(new);
            row.count += 1;
            row.bytes += bytes;
            row.made_up |= made_up;
        }
        rows.into_values().collect()
    }
}

/// `neuron3` and `neuron_core1` become `neuron*` and `neuron_core*`.
fn without_ids(path: &str) -> String {
    let part = |part: &str| match part.trim_end_matches(|end: char| end.is_ascii_digit()) {
        "neuron" if part != "neuron" => "neuron*".to_owned(),
        "neuron_core" if part != "neuron_core" => "neuron_core*".to_owned(),
        "total" | "present" | "peak" => "*".to_owned(),
        _ => part.to_owned(),
    };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}
