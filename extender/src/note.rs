//! A text out of what nodes say, however many they are: what the first ones say, up to the length that the API server takes of an event, and
//! how many more there are. Made for events, and for filter's errors, which kube-scheduler makes an event of.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use runtime::reached;

/// Longest note that the API server takes, in bytes.
pub(crate) const LONGEST_NOTE: usize = 1024;

/// Bytes that are kept for the words that say how many nodes are left out.
const ROOM_FOR_REST: usize = 50;

/// What nodes say, in order, and how many nodes say it.
#[derive(Debug)]
pub(crate) struct Note {
    between: &'static str,
    parts: Vec<(String, usize)>,
    bytes: usize,
    left_out: usize,
}

impl Note {
    /// An empty one whose parts have this between them.
    pub(crate) fn new(between: &'static str) -> Self {
        Self { between, parts: Vec::new(), bytes: 0, left_out: 0 }
    }

    /// One that says this alone.
    pub(crate) fn of(text: String) -> Self {
        let mut note = Self::new(" ");
        note.add(0, || text);
        note
    }

    /// Whether nobody says anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.left_out == 0
    }

    /// Adds what so many nodes say. Once the note is long enough they are only counted, and no text is made.
    pub(crate) fn add(&mut self, nodes: usize, part: impl FnOnce() -> String) {
        if self.bytes > LONGEST_NOTE {
            return self.leave_out(nodes);
        }
        let part = part();
        self.bytes += part.len() + self.between.len();
        self.parts.push((part, nodes));
    }

    /// So many nodes more say something else.
    pub(crate) fn leave_out(&mut self, nodes: usize) {
        self.left_out += nodes;
    }

    /// What tells it from others, whatever it counts.
    pub(crate) fn key(&self) -> u64 {
        let parts = self.parts.iter().map(|(part, _)| part.as_str());
        key(parts)
    }

    /// The text, at most [`LONGEST_NOTE`] bytes, with `tail` at its end.
    pub(crate) fn text(&self, tail: &str) -> String {
        let most = LONGEST_NOTE.saturating_sub(tail.len());
        let length = self.bytes.saturating_sub(self.between.len());
        let is_whole = self.left_out == 0 && length <= most;
        let most_of_parts = if is_whole { most } else { most.saturating_sub(ROOM_FOR_REST) };
        let (mut text, mut rest, mut is_full) = (String::new(), self.left_out, false);
        for (place, (part, nodes)) in self.parts.iter().enumerate() {
            is_full |= place > 0 && text.len() + self.between.len() + part.len() > most_of_parts;
            if place == 0 {
                text = shortened(part.clone(), most_of_parts);
            } else if is_full {
                rest += nodes;
            } else {
                text.push_str(self.between);
                text.push_str(part);
            }
        }
        match rest {
            0 => {}
            1 => text.push_str("; and 1 node more"),
            rest => text.push_str(&format!("; and {rest} nodes more")),
        }
        text.push_str(tail);
        text
    }
}

/// A number that tells these texts from others: what is remembered of an event that was sent.
pub(crate) fn key<'t>(texts: impl Iterator<Item = &'t str>) -> u64 {
    let mut hasher = DefaultHasher::new();
    texts.for_each(|text| text.hash(&mut hasher));
    hasher.finish()
}

/// The text, or as much of it as so many bytes hold.
pub(crate) fn shortened(mut text: String, most: usize) -> String {
    if text.len() > most {
        reached("extender: note shortened");
        let mark = "...";
        let end = (0..=most.saturating_sub(mark.len())).rev().find(|&at| text.is_char_boundary(at));
        text.truncate(end.unwrap_or_default());
        text.push_str(mark);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_too_long_ends_with_dots_between_two_characters() {
        let text = shortened("ä".repeat(LONGEST_NOTE), LONGEST_NOTE);
        assert_eq!(text.len(), LONGEST_NOTE - 1);
        assert!(text.ends_with("ä..."));
        let fits = "a".repeat(LONGEST_NOTE);
        assert_eq!(shortened(fits.clone(), LONGEST_NOTE), fits);
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let note = |parts: usize| {
            let mut note = Note::new("; ");
            (0..parts).for_each(|part| note.add(2, || format!("{part:0100}")));
            note
        };
        assert_eq!(note(2).text(", told once"), format!("{:0100}; {:0100}, told once", 0, 1));
        // 9 and their separators, and what comes after them.
        assert!(note(10).text("").ends_with("9") && note(10).text("").len() == 1018);
        assert!(note(11).text("").ends_with("; 0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000008; and 4 nodes more"));
        assert!(note(5000).text("").ends_with("8; and 9982 nodes more"));
        let with_tail = note(5000).text(&"t".repeat(300));
        assert!(
            with_tail.len() <= LONGEST_NOTE && with_tail.contains("5; and 9988 nodes moretttt"),
            "{with_tail}"
        );
    }

    #[test]
    fn a_part_that_is_too_long_alone_is_shortened() {
        let text = Note::of("a".repeat(2000)).text("tail");
        assert_eq!(text.len(), LONGEST_NOTE - ROOM_FOR_REST);
        assert!(text.ends_with("a...tail"));
    }

    #[test]
    fn counts_are_no_news() {
        let note = |nodes: usize| {
            let mut note = Note::new("; ");
            (0..nodes).for_each(|_| note.add(1, || "a".repeat(200)));
            note.key()
        };
        assert_eq!(note(100), note(200));
        assert_ne!(note(1), note(2));
    }
}
