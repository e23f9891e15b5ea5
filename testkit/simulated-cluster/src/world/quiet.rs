//! Whether a part goes on working although next to nothing happens. Judged at the end of a rest, by `judge`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use simulator::Activity;

use super::World;
use super::judge::QUIET;
use crate::observer::Violation;

/// What one part may do while it is quiet. Of requests, `writes` change something and `reads` nothing: watches end, and are begun again,
/// by themselves.
const MOST: Actions = Actions { polls: 15_000, log_lines: 30, writes: 40, reads: 60 };
/// Polls more where a program has replicas, which renew a Lease of two seconds every quarter of a second.
const POLLS_OF_REPLICAS: u64 = 30_000;
/// Polls more for each node: its plugin renews its Lease thirty times meanwhile, which an extender sees.
const POLLS_OF_NODE: u64 = 60;
/// Lines more for each pod that waits: it is tried again, and refused again, whenever another one ends.
const LOG_LINES_OF_WAITING: u64 = 10;
/// Lines, and requests, more for each pod that is bound meanwhile, as an owner makes a new one for each that ends.
const OF_BOUND: u64 = 10;

/// Reads more for each Allocate that a node's plugin refuses meanwhile: before each it reads the node's pods for five seconds, until the
/// holder has ended. A kubelet that has lost its books asks again and again for ids that others hold.
const READS_OF_REFUSED: u64 = 25;

/// What makes a part of a program do something meanwhile.
struct Causes {
    nodes: u64,
    /// Whether the program has replicas.
    has_replicas: bool,
    /// Pods that waited.
    waiting: u64,
    /// Pods that were bound.
    bound: u64,
    /// Allocates that the plugin of the part's node refused.
    refused: u64,
}

/// What a part did, or may do at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Actions {
    polls: u64,
    log_lines: u64,
    writes: u64,
    reads: u64,
}

impl Causes {
    fn most(&self) -> Actions {
        let more_polls = if self.has_replicas { POLLS_OF_REPLICAS } else { 0 };
        let of_bound = OF_BOUND * self.bound;
        Actions {
            polls: MOST.polls + POLLS_OF_NODE * self.nodes + more_polls,
            log_lines: MOST.log_lines + LOG_LINES_OF_WAITING * self.waiting + of_bound,
            writes: MOST.writes + of_bound,
            reads: MOST.reads + of_bound + READS_OF_REFUSED * self.refused,
        }
    }
}

impl Actions {
    /// What there is too much of: its name, how much, and how much there may be.
    fn beyond(&self, most: &Actions) -> impl Iterator<Item = (&'static str, u64, u64)> {
        let all = [
            ("polls", self.polls, most.polls),
            ("log lines", self.log_lines, most.log_lines),
            ("writes", self.writes, most.writes),
            ("reads", self.reads, most.reads),
        ];
        all.into_iter().filter(|(_, did, most)| did > most)
    }
}

/// What had been counted when the time of quiet began.
pub(super) struct Before {
    activity: BTreeMap<String, Activity>,
    /// Requests that changed something, by part.
    writes: BTreeMap<Arc<str>, u64>,
    /// Requests that changed nothing, by part.
    reads: BTreeMap<Arc<str>, u64>,
    /// Allocates that were refused, by node.
    asked_in_vain: BTreeMap<String, u64>,
    /// UIDs of pods that waited.
    waiting: BTreeSet<String>,
    /// Pods that were bound.
    placed: u64,
}

impl World {
    /// From now on it is to be quiet.
    pub(super) fn quiet_begins(&self) -> Before {
        let (asked_in_vain, placed) = {
            let state = self.watcher.state();
            (state.asked_in_vain.clone(), state.counts.placed)
        };
        Before {
            activity: self.simulation.activity(),
            writes: self.conditions.writes(),
            reads: self.conditions.reads(),
            asked_in_vain,
            waiting: self.waiting_pods(),
            placed,
        }
    }

    /// Judges whether it was quiet since.
    pub(super) fn judge_quiet(&self, before: &Before) {
        let (writes, reads) = (self.conditions.writes(), self.conditions.reads());
        // One that waited may have been placed since.
        let waiting = before.waiting.union(&self.waiting_pods()).count() as u64;
        let bound = self.watcher.state().counts.placed - before.placed;
        for (part, now) in self.simulation.activity() {
            let then = before.activity.get(&part).copied().unwrap_or_default();
            let kind = part.split('/').next().unwrap_or_default();
            // The cluster's own parts write as often as pods wait.
            if self.suite.programs().iter().all(|program| program.name != kind) {
                continue;
            }
            let node = part.split('/').nth(1).unwrap_or_default();
            let refused = |counts: &BTreeMap<String, u64>| counts.get(node).copied().unwrap_or_default();
            let sent =
                |counts: &BTreeMap<Arc<str>, u64>| counts.get(part.as_str()).copied().unwrap_or_default();
            let causes = {
                let state = self.watcher.state();
                Causes {
                    nodes: self.nodes.len() as u64,
                    has_replicas: state.truth.replicated.contains(kind),
                    waiting,
                    bound,
                    refused: refused(&state.asked_in_vain) - refused(&before.asked_in_vain),
                }
            };
            let actions = Actions {
                polls: now.polls - then.polls,
                log_lines: now.log_lines - then.log_lines,
                writes: sent(&writes) - sent(&before.writes),
                reads: sent(&reads) - sent(&before.reads),
            };
            for (what, did, most) in actions.beyond(&causes.most()) {
                self.watcher.violation(Violation {
                    invariant: "quiet",
                    cause: format!("{kind}: {what} without end"),
                    text: format!("{part} at rest: {did} {what} in {QUIET:?}, at most {most} may be"),
                    pods: Vec::new(),
                });
            }
        }
    }

    /// UIDs of pods that are bound to no node.
    fn waiting_pods(&self) -> BTreeSet<String> {
        let state = self.watcher.state();
        state.truth.pods.iter().filter(|(_, pod)| pod.node.is_empty()).map(|(uid, _)| uid.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Causes = Causes { nodes: 3, has_replicas: false, waiting: 0, bound: 0, refused: 0 };

    #[test]
    fn each_allocate_that_is_refused_may_be_read_for_and_nothing_else_grows_with_it() {
        let (idle, refused) = (IDLE.most(), Causes { refused: 4, ..IDLE }.most());
        assert_eq!(refused, Actions { reads: idle.reads + 100, ..idle });
        let reads = |reads| Actions { polls: 0, log_lines: 0, writes: 0, reads };
        assert_eq!(reads(refused.reads).beyond(&refused).next(), None);
        let beyond: Vec<_> = reads(refused.reads + 1).beyond(&refused).collect();
        assert_eq!(beyond, [("reads", refused.reads + 1, refused.reads)]);
    }

    #[test]
    fn who_waits_is_told_of_and_who_is_bound_is_written() {
        let idle = IDLE.most();
        assert_eq!(Causes { waiting: 2, ..IDLE }.most(), Actions { log_lines: idle.log_lines + 20, ..idle });
        let bound = Causes { bound: 1, ..IDLE }.most();
        assert!(bound.writes > idle.writes && bound.reads > idle.reads && bound.polls == idle.polls);
        assert!(Causes { has_replicas: true, ..IDLE }.most().polls > idle.polls);
    }
}
