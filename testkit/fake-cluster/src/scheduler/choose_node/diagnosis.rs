//! Why no node takes a pod: the refusals of the filters and extenders by node, and kube-scheduler's text for them.

use std::collections::BTreeMap;

use super::preemption::Preempted;
use crate::version::Behaviour;

/// The filter that refused a node, which decides what cluster events make another try worthwhile (`cluster_event`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RefusedBy {
    NodeUnschedulable,
    TaintToleration,
    NodeAffinity,
    NodeResourcesFit,
    Extender,
}

/// Why one node does not take the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) by: RefusedBy,
    /// `true`: evicting other pods could help (kube-scheduler's Unschedulable); `false`: it could not
    /// (UnschedulableAndUnresolvable).
    pub(crate) resolvable: bool,
    pub(crate) reasons: Vec<String>,
}

/// The result of a scheduling cycle that found no node.
#[derive(Debug, Default)]
pub(crate) struct Diagnosis {
    /// How many nodes the cluster has.
    pub(crate) nodes: usize,
    /// Refusals by node name. A node that an extender left out without a reason has none.
    pub(crate) refusals: BTreeMap<String, Refusal>,
    /// Whether an extender left out at least one node.
    pub(crate) extender_refused: bool,
}

impl Diagnosis {
    /// The filters that refused any node, each once.
    pub(crate) fn refused_by(&self) -> Vec<RefusedBy> {
        let mut filters: Vec<RefusedBy> = self.refusals.values().map(|refusal| refusal.by).collect();
        filters.extend(self.extender_refused.then_some(RefusedBy::Extender));
        filters.sort();
        filters.dedup();
        filters
    }

    /// The text of the pod's condition and event, as the version has it.
    pub(crate) fn message(&self, preempted: &Preempted, behaviour: Behaviour) -> String {
        let mut reasons = BTreeMap::new();
        for reason in self.refusals.values().flat_map(|refusal| &refusal.reasons) {
            *reasons.entry(reason.as_str()).or_insert(0) += 1;
        }
        let filters = no_nodes(self.nodes, &reasons);
        match preempted {
            Preempted::Nobody(why) => {
                // DynamicResources is asked before preemption, and older versions pass on what it says of pods without claims.
                let claims = if behaviour.silent_about_claims { "" } else { "no new claims to deallocate, " };
                format!("{filters} {claims}preemption: {why}")
            }
            // Of an error nothing else is passed on.
            Preempted::Failed(why) => format!("{filters} preemption: {why}"),
            Preempted::Nominated { node, victims } if behaviour.tells_preemption => format!(
                "{filters} preemption: found a potential placement for pod on node {node}, preempting {victims} victims"
            ),
            Preempted::Nominated { .. } => filters,
        }
    }

    /// Why nobody is ended: what the dry run says of nodes, and that it would not help on the others.
    pub(crate) fn preemption(&self, dry_run: &BTreeMap<String, Refusal>) -> String {
        let mut reasons = BTreeMap::new();
        for reason in dry_run.values().flat_map(|refusal| &refusal.reasons) {
            *reasons.entry(reason.as_str()).or_insert(0) += 1;
        }
        let not_helpful = self.nodes.saturating_sub(dry_run.len());
        if not_helpful > 0 {
            reasons.insert("Preemption is not helpful for scheduling", not_helpful);
        }
        no_nodes(self.nodes, &reasons)
    }
}

/// `0/3 nodes are available: 1 this, 2 that.`: sorted as strings, so `10 x` stands before `2 y`.
fn no_nodes(nodes: usize, reasons: &BTreeMap<&str, usize>) -> String {
    let mut counted: Vec<String> =
        reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    counted.sort();
    if counted.is_empty() {
        return format!("0/{nodes} nodes are available:");
    }
    format!("0/{nodes} nodes are available: {}.", counted.join(", "))
}

/// An event's note: at most 1,024 bytes, a longer message ends in ` ...`.
pub(crate) fn cut_note(message: &str) -> String {
    const LIMIT: usize = 1024;
    const SUFFIX: &str = " ...";
    if message.len() <= LIMIT {
        return message.to_owned();
    }
    let end = message.floor_char_boundary(LIMIT - SUFFIX.len());
    format!("{}{SUFFIX}", message.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::Version;

    /// Nobody is ended: no node has anybody of lower priority.
    fn message(diagnosis: &Diagnosis) -> String {
        let no_victims = |refusal: &Refusal| Refusal {
            reasons: vec!["No preemption victims found for incoming pod".to_owned()],
            ..refusal.clone()
        };
        let resolvable = diagnosis.refusals.iter().filter(|(_, refusal)| refusal.resolvable);
        let dry_run = resolvable.map(|(node, refusal)| (node.clone(), no_victims(refusal))).collect();
        let why = diagnosis.preemption(&dry_run);
        diagnosis.message(&Preempted::Nobody(why), Version::V1_37.behaviour())
    }

    fn refused(resolvable: bool, reason: &str) -> Refusal {
        Refusal { by: RefusedBy::Extender, resolvable, reasons: vec![reason.into()] }
    }

    #[test]
    fn reasons_are_counted_and_sorted_as_strings() {
        let mut diagnosis = Diagnosis { nodes: 12, ..Diagnosis::default() };
        for node in 0..10 {
            diagnosis.refusals.insert(format!("n{node}"), refused(true, "x"));
        }
        diagnosis.refusals.insert("z1".into(), refused(false, "a"));
        diagnosis.refusals.insert("z2".into(), refused(false, "a"));
        assert_eq!(
            message(&diagnosis),
            "0/12 nodes are available: 10 x, 2 a. preemption: 0/12 nodes are \
             available: 10 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling."
        );
    }

    #[test]
    fn nodes_left_out_without_a_reason_are_only_counted() {
        let diagnosis = Diagnosis { nodes: 1, ..Diagnosis::default() };
        assert_eq!(
            message(&diagnosis),
            "0/1 nodes are available: preemption: 0/1 nodes are available: \
             1 Preemption is not helpful for scheduling."
        );
    }

    #[test]
    fn a_nomination_is_told_as_the_version_tells_it() {
        let diagnosis = Diagnosis { nodes: 1, ..Diagnosis::default() };
        let preempted = Preempted::Nominated { node: "n1".into(), victims: 2 };
        let told = |version: Version| diagnosis.message(&preempted, version.behaviour());
        assert_eq!(told(Version::V1_34), "0/1 nodes are available:");
        let found = "preemption: found a potential placement for pod on node n1, preempting 2 victims";
        assert_eq!(told(Version::V1_37), format!("0/1 nodes are available: {found}"));
    }

    #[test]
    fn notes_are_cut_at_1024_bytes_and_never_inside_a_character() {
        assert_eq!(cut_note(&"a".repeat(1024)).len(), 1024);
        let cut = cut_note(&"a".repeat(1025));
        assert_eq!((cut.len(), cut.ends_with("a ...")), (1024, true));
        assert_eq!(cut_note(&"é".repeat(600)), format!("{} ...", "é".repeat(510)));
    }
}
