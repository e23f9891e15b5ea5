//! Whether a FailedScheduling text has a reason that begins with words which nobody here knows, so that no judge would look at it.
//! Asked by `reasons`.

use crate::texts::not_understood;

/// How kube-scheduler's own reasons begin (`scheduler/choose_node` of fake-cluster).
const OF_KUBE_SCHEDULER: &[&str] = &[
    "Insufficient ",
    "Too many pods",
    "node(s) were unschedulable",
    "node(s) had untolerated taint(s)",
    "node(s) didn't match Pod's node affinity/selector",
];

/// How the extender's reasons begin, but for numbers and the name of a container. `texts` and `reasons` judge each.
const OF_EXTENDER: &[&str] = &[
    "Instance type ",
    " containers of the pod ask for Neuron hardware, at most ",
    "the node is too small: Neuron ",
    "not enough free: Neuron ",
    "no linked set of ",
    "the pod's containers never fit together on ",
    "the pod would fit on unhealthy Neuron device",
    "not decided: ",
    "init containers from which kubelet could hand down an unlinked set: container ",
    "it is not known yet which devices pod ",
    "devices of node ",
    "Node has no label ",
    "Node label ",
    "instance type ",
    "the report of a node of instance type ",
    "node annotation ",
    "Container ",
    "the node's Neuron device plugin has not renewed its Lease ",
    "the pod gets ",
    "the pod is restricted to device models ",
    "annotation neuron-scheduler/device-model names ",
    "the Neuron scheduler knows no node of this name",
];

/// The reason of the text that is in other words, if one is. Errors, which name no nodes, are not looked at.
pub(crate) fn judge(message: &str) -> Option<String> {
    let unknown = reasons(message)?.into_iter().find(|reason| !is_known(reason))?;
    Some(not_understood(unknown))
}

fn is_known(reason: &str) -> bool {
    let of_container = reason.strip_prefix("container ").and_then(|rest| rest.split_once(": "));
    let reason = of_container.map_or(reason, |(_, rest)| rest);
    let reason = reason.trim_start_matches(|character: char| character.is_ascii_digit());
    OF_KUBE_SCHEDULER.iter().chain(OF_EXTENDER).any(|words| reason.starts_with(words))
}

/// The reasons of `0/3 nodes are available: 1 this, 2 that. preemption: ..`. A reason may have commas, but no number and a blank
/// after one.
fn reasons(message: &str) -> Option<Vec<&str>> {
    let (_, rest) = message.strip_prefix("0/")?.split_once(" nodes are available:")?;
    let rest = rest.split(" preemption: ").next()?.trim_end_matches(" no new claims to deallocate,");
    let mut left = rest.trim_start();
    let mut reasons = Vec::new();
    while !left.is_empty() {
        let next =
            left.match_indices(", ").find(|(at, comma)| after_count(&left[at + comma.len()..]).is_some());
        let (one, others) = next.map_or((left, ""), |(at, comma)| (&left[..at], &left[at + comma.len()..]));
        reasons.push(after_count(one).unwrap_or(one));
        left = others;
    }
    Some(reasons)
}

/// What follows a number and a blank.
fn after_count(text: &str) -> Option<&str> {
    let (count, rest) = text.split_once(' ')?;
    (!count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit())).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_in_other_words_are_found_among_the_others() {
        let is_known = |reasons: &str| {
            let end = "no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful";
            judge(&format!("0/3 nodes are available: {reasons}. {end}")).is_none()
        };
        assert!(is_known("1 Insufficient aws.amazon.com/neuron, 2 Too many pods"));
        assert!(is_known(
            "1 130 containers of the pod ask for Neuron hardware, at most 128 are placed; ask, 2 Too many pods"
        ));
        assert!(is_known(
            "3 container a: no linked set of 8 free Neuron devices: 9 free, the largest linked set has 4"
        ));
        assert!(is_known(
            "3 it is not known yet which devices pod default/a, default/b holds; the node takes no new"
        ));
        assert!(!is_known("1 Insufficient aws.amazon.com/neuron, 2 the moon is full"));
        assert!(!is_known("1 the moon is full, 2 Too many pods"));
        assert_eq!(judge("0/1 nodes are available: preemption: 0/1 nodes are available"), None);
        assert_eq!(judge("Post \"http://10.0.0.1:12345/filter\": EOF"), None);
    }
}
