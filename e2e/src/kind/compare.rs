//! Compares what came of a scenario on kind with what came of it on the embedded cluster.

use similar::{ChangeTag, TextDiff};

use crate::outcome::Outcome;

/// Lines shown around each difference.
const CONTEXT: usize = 2;
/// Lines shown of one comparison.
const LONGEST: usize = 60;

/// The differing lines of the two documents, `-` embedded and `+` kind; none if they are equal.
pub fn difference(embedded: &Outcome, kind: &Outcome) -> anyhow::Result<Option<String>> {
    let (embedded, kind) = (embedded.to_text()?, kind.to_text()?);
    if embedded == kind {
        return Ok(None);
    }
    let diff = TextDiff::from_lines(&embedded, &kind);
    let mut lines = vec!["differs from the embedded cluster (- embedded, + kind):".to_owned()];
    for change in diff.grouped_ops(CONTEXT).iter().flatten().flat_map(|group| diff.iter_changes(group)) {
        let sign = match change.tag() {
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
            ChangeTag::Equal => ' ',
        };
        lines.push(format!("{sign} {}", change.value().trim_end()));
    }
    if lines.len() > LONGEST {
        let more = lines.len() - LONGEST;
        lines.truncate(LONGEST);
        lines.push(format!("and {more} more lines"));
    }
    Ok(Some(lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::PodOutcome;

    fn outcome(phase: &str) -> Outcome {
        let pod = PodOutcome { phase: phase.into(), ..PodOutcome::default() };
        Outcome { version: 1, pods: [("one".to_owned(), pod)].into() }
    }

    #[test]
    fn equal_documents_have_no_difference() {
        assert_eq!(difference(&outcome("Running"), &outcome("Running")).unwrap(), None);
    }

    #[test]
    fn a_difference_shows_both_sides() {
        let text = difference(&outcome("Running"), &outcome("Pending")).unwrap().unwrap();
        assert!(text.contains("-       \"phase\": \"Running\"\n+       \"phase\": \"Pending\""), "{text}");
    }
}
