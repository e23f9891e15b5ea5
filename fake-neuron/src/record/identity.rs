//! Replaces what tells which machine a capture is from. Called by [`super::capture`].

use std::collections::BTreeMap;

use crate::machine::description::stable_hash;

/// Names of files that hold a serial number, or an id made from one.
const NAMES: [&str; 5] = ["serial_number", "server_id", "server_id_2", "server_id_4", "reservation_id"];

/// Whether a file of this name tells which machine it is.
pub(crate) fn is_identity(name: &str) -> bool {
    NAMES.contains(&name)
}

/// Made-up numbers in the order in which the real ones were met, so that nothing leads back; the same number becomes the same.
#[derive(Debug, Default)]
pub(crate) struct MadeUp(BTreeMap<String, String>);

impl MadeUp {
    /// The file's text with another number in it. A number that says "none" stays.
    pub(crate) fn text(&mut self, text: &str) -> String {
        let number = text.trim_end();
        if number.bytes().all(|digit| digit == b'0') || number == "busy" {
            return text.to_owned();
        }
        let count = self.0.len();
        let made_up = self.0.entry(number.to_owned());
        let made_up = made_up.or_insert_with(|| format!("{:016x}", stable_hash(&format!("made up/{count}"))));
        text.replacen(number, made_up, 1)
    }
}
