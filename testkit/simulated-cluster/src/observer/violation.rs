//! What must not be, and was.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use simulator::trace::Time;

/// Signature of two pods with one device of which the first was deleted by force.
const DELETED_BY_FORCE: &str = "exclusive: a pod whose object is gone and a new one";

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant that does not hold, such as `exclusive`.
    pub invariant: &'static str,
    /// Why, in words that are the same each time: no names, no numbers.
    pub cause: String,
    /// What was seen, in one sentence.
    pub text: String,
    /// The pods, as `namespace/name`, without which the cluster would be well again.
    pub pods: Vec<String>,
}

impl Violation {
    /// What tells it from others: invariant and cause.
    pub fn signature(&self) -> String {
        format!("{}: {}", self.invariant, self.cause)
    }
}

/// A violation that is known: it is counted, and ends no run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Known {
    /// Its signature; one that ends with `*` is of every cause that begins so.
    pub signature: String,
    /// What is wrong in the code.
    pub cause: String,
    /// The issue that mends it.
    pub issue: String,
    /// A plan that shows it, as a file's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
}

impl Known {
    /// What Kubernetes itself lets happen to every device plugin that takes kubelet's word for what is free.
    pub fn of_kubernetes() -> Vec<Self> {
        vec![Self {
            signature: DELETED_BY_FORCE.to_owned(),
            cause:
                "kubelet offers the devices of a pod that was deleted by force while its containers still \
                    have their grace"
                    .to_owned(),
            issue: "none: a plugin that must not let it happen looks itself what containers have".to_owned(),
            plan: None,
        }]
    }

    /// Whether it is this one.
    pub fn is(&self, signature: &str) -> bool {
        match self.signature.strip_suffix('*') {
            Some(beginning) => signature.starts_with(beginning),
            None => signature == self.signature,
        }
    }
}

/// What was seen of one signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Seen {
    /// How often.
    pub count: u64,
    /// When first, in simulated milliseconds since the beginning.
    pub first: u64,
    /// What was seen first.
    pub text: String,
    /// The last events before it.
    pub last_events: Vec<String>,
}

/// Everything that was seen, by signature.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Violations(pub BTreeMap<String, Seen>);

impl Violations {
    /// How many were seen, of all signatures.
    pub(crate) fn count(&self) -> u64 {
        self.0.values().map(|seen| seen.count).sum()
    }

    /// Counts one. `last_events` is asked at the first of its signature.
    pub(crate) fn add(
        &mut self,
        violation: &Violation,
        at: Duration,
        last_events: impl FnOnce() -> Vec<String>,
    ) {
        let first = || Seen {
            count: 0,
            first: u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
            text: violation.text.clone(),
            last_events: last_events(),
        };
        self.0.entry(violation.signature()).or_insert_with(first).count += 1;
    }
}

/// For people: each with its signature.
impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(signature, seen)| write!(f, "{signature}\n{seen}"))
    }
}

/// For people: what was seen first, and the last events before that. Every line is indented and ends.
impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = Time(Duration::from_millis(self.first));
        writeln!(f, "  {first} {}\n  the last events before it:", self.text)?;
        self.last_events.iter().try_for_each(|event| writeln!(f, "    {event}"))
    }
}

/// A text by which two of a kind are known as such: digits become `#`, and it is at most 160 characters long.
pub(crate) fn without_numbers(text: &str) -> String {
    let mut words = String::new();
    for character in text.chars().take(160) {
        match character {
            '0'..='9' if words.ends_with('#') => {}
            '0'..='9' => words.push('#'),
            _ => words.push(character),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_what_was_seen_and_what_had_happened() {
        let mut violations = Violations::default();
        let (cause, text) = ("two pods".to_owned(), "a has what b has".to_owned());
        let violation = Violation { invariant: "exclusive", cause, text, pods: Vec::new() };
        violations.add(&violation, Duration::from_millis(61_500), || vec!["a starts".to_owned()]);
        let shown = [
            "exclusive: two pods",
            "  0d 00:01:01.500 a has what b has",
            "  the last events before it:",
            "    a starts",
        ];
        assert_eq!(violations.to_string().lines().collect::<Vec<_>>(), shown);
    }

    #[test]
    fn numbers_do_not_tell_texts_apart() {
        assert_eq!(without_numbers("neuron12 of n3: 4,5"), "neuron# of n#: #,#");
    }
}
