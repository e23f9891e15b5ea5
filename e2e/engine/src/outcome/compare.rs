//! Compares what came of a scenario on a real cluster with what came of it on the embedded cluster. Called by runs on
//! real clusters.

use fake_cluster::Version;
use similar::{ChangeTag, TextDiff};

use super::Outcome;
use super::redaction::REDACTED;

/// Lines shown around each difference.
const CONTEXT: usize = 2;
/// Lines shown of one comparison.
const LONGEST: usize = 60;

/// Whether the words of kube-scheduler itself are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedulerTexts {
    /// The texts are compared to the letter.
    Compared,
    /// Only whether there are any: every version of Kubernetes has its own words and counts, and these are of one that the
    /// embedded cluster cannot be.
    LeftOut,
}

impl SchedulerTexts {
    /// The comparison for a cluster whose API server is of this release, such as `v1.37.2`.
    pub fn of_server(release: &str) -> Self {
        let is_known = Version::ALL.iter().any(|version| version.is_of_server(release));
        if is_known { SchedulerTexts::Compared } else { SchedulerTexts::LeftOut }
    }
}

/// The differing lines of the two documents, `-` embedded and `+` kind; none if they are equal.
///
/// # Errors
/// A document cannot be written as JSON.
pub fn difference(
    embedded: &Outcome,
    kind: &Outcome,
    texts: SchedulerTexts,
) -> anyhow::Result<Option<String>> {
    let (embedded, kind) = (text(embedded, texts)?, text(kind, texts)?);
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

/// The document as it is compared.
fn text(outcome: &Outcome, texts: SchedulerTexts) -> anyhow::Result<String> {
    if texts == SchedulerTexts::Compared {
        return Ok(outcome.to_text()?);
    }
    let mut outcome = outcome.clone();
    for message in outcome.pods.values_mut().filter_map(|pod| pod.failed_scheduling.as_mut()) {
        *message = REDACTED.to_owned();
    }
    Ok(outcome.to_text()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::PodOutcome;

    fn outcome(phase: &str, failed_scheduling: Option<&str>) -> Outcome {
        let failed_scheduling = failed_scheduling.map(str::to_owned);
        let pod = PodOutcome { phase: phase.into(), failed_scheduling, ..PodOutcome::default() };
        Outcome { version: 1, pods: [("one".to_owned(), pod)].into() }
    }

    #[test]
    fn equal_documents_have_no_difference() {
        let (one, other) = (outcome("Running", None), outcome("Running", None));
        assert_eq!(difference(&one, &other, SchedulerTexts::Compared).unwrap(), None);
    }

    #[test]
    fn a_difference_shows_both_sides() {
        let (one, other) = (outcome("Running", None), outcome("Pending", None));
        for texts in [SchedulerTexts::Compared, SchedulerTexts::LeftOut] {
            let text = difference(&one, &other, texts).unwrap().unwrap();
            assert!(
                text.contains("-       \"phase\": \"Running\"\n+       \"phase\": \"Pending\""),
                "{text}"
            );
        }
    }

    #[test]
    fn the_words_of_another_kubernetes_are_no_difference_but_its_silence_is() {
        let ours = outcome("Pending", Some("0/1 nodes are available: 1 Insufficient."));
        let theirs = outcome("Pending", Some("0/1 nodes are available: 1 node(s) lacked it."));
        assert!(difference(&ours, &theirs, SchedulerTexts::Compared).unwrap().is_some());
        assert_eq!(difference(&ours, &theirs, SchedulerTexts::LeftOut).unwrap(), None);
        let silent = outcome("Pending", None);
        assert!(difference(&ours, &silent, SchedulerTexts::LeftOut).unwrap().is_some());
    }

    #[test]
    fn only_the_embedded_clusters_own_versions_are_compared_to_the_letter() {
        for (release, texts) in [
            ("v1.34.4", SchedulerTexts::Compared),
            ("v1.37.2", SchedulerTexts::Compared),
            ("v1.33.9", SchedulerTexts::LeftOut),
            ("v1.36.3", SchedulerTexts::LeftOut),
            ("v1.38.0", SchedulerTexts::LeftOut),
        ] {
            assert_eq!(SchedulerTexts::of_server(release), texts, "{release}");
        }
    }
}
