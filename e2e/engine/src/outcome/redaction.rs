//! What an outcome document leaves out because it differs from run to run: real names, UIDs, and what nodes outside the
//! scenario add to kube-scheduler's texts. Called by [`crate::run::collect`].

/// What stands in a document for a text that differs from run to run.
pub const REDACTED: &str = "[redacted]";

/// The texts of one run made equal for every run: real node names become n1, n2.., UIDs are redacted.
pub struct Redaction {
    replacements: Vec<(String, String)>,
}

impl Redaction {
    /// A redaction for nodes in scenario order and the UIDs of the run's pods.
    pub fn new<'a>(
        nodes: impl IntoIterator<Item = &'a str>,
        uids: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let mut replacements: Vec<(String, String)> = nodes
            .into_iter()
            .enumerate()
            .map(|(place, node)| (node.to_owned(), format!("n{}", place + 1)))
            .collect();
        replacements.extend(uids.into_iter().map(|uid| (uid.to_owned(), REDACTED.to_owned())));
        // Longest first: `kind-worker` is the beginning of `kind-worker2`.
        replacements.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
        Self { replacements }
    }

    /// The text without what differs from run to run.
    pub fn apply(&self, text: &str) -> String {
        let mut out = text.to_owned();
        for (from, to) in &self.replacements {
            out = out.replace(from, to);
        }
        out
    }
}

/// A FailedScheduling message as the document shows it: reasons that only nodes outside the scenario gave (the
/// control plane's taint, other tests' nodes by our cordon) and the `preemption:` tail are removed, and the node
/// count is the scenario's.
pub fn scheduling_text(message: &str, outside: &[&str], nodes: usize) -> String {
    let Some((_, rest)) = message.split_once(" nodes are available: ") else {
        return message.to_owned();
    };
    let rest = without_preemption(rest);
    let reasons = rest.strip_suffix('.').unwrap_or(rest);
    let kept: Vec<&str> =
        reasons.split(", ").filter(|reason| !outside.iter().any(|text| reason.contains(text))).collect();
    format!("0/{nodes} nodes are available: {}.", kept.join(", "))
}

/// A FailedScheduling message without its `preemption:` tail.
pub fn without_preemption(message: &str) -> &str {
    // Reasons may hold full stops of their own, so the tail is found by its words, not by its punctuation.
    let tail = [" no new claims to deallocate, preemption: ", " preemption: "];
    let end = tail.iter().filter_map(|words| message.find(words)).min().unwrap_or(message.len());
    &message[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_outside_and_the_preemption_tail_are_removed_from_failed_scheduling() {
        let message = "0/3 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, \
                       2 Insufficient aws.amazon.com/neuron. no new claims to deallocate, preemption: 0/3 nodes are \
                       available: 3 Preemption is not helpful for scheduling.";
        let text = scheduling_text(message, &["node-role.kubernetes.io/control-plane"], 2);
        assert_eq!(text, "0/2 nodes are available: 2 Insufficient aws.amazon.com/neuron.");
    }

    #[test]
    fn a_reason_that_ends_with_a_sentence_keeps_its_full_stop() {
        let warning = "Instance type trn1.32xlarge does not support requests for device: 7. Please request a different number of devices.";
        let message = format!(
            "0/1 nodes are available: 1 {warning}.. preemption: 0/1 nodes are available: 1 No victims."
        );
        assert_eq!(scheduling_text(&message, &[], 1), format!("0/1 nodes are available: 1 {warning}.."));
    }

    #[test]
    fn the_longer_node_name_is_replaced_first() {
        let redaction = Redaction::new(["kind-worker", "kind-worker2"], ["0000-1111"]);
        assert_eq!(redaction.apply("kind-worker2 kind-worker 0000-1111"), "n2 n1 [redacted]");
    }
}
