//! Whether a part goes on working although next to nothing happens. Judged at the end of a rest, by `judge`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use simulator::Activity;

use super::World;
use super::judge::QUIET;
use crate::observer::Violation;

/// What one part may do while it is quiet.
const MOST: Activity = Activity { polls: 15_000, log_lines: 30, starts: 0, kills: 0, kills_by_poll: 0 };
/// Polls more where a program has replicas, which renew a Lease of two seconds every quarter of a second.
const POLLS_OF_REPLICAS: u64 = 30_000;
/// Polls more for each node: its plugin renews its Lease thirty times meanwhile, which an extender sees.
const POLLS_OF_NODE: u64 = 60;
/// Requests that change something which one part may send meanwhile.
const MOST_WRITES: u64 = 40;
/// Requests that change nothing which one part may send meanwhile: watches end, and are begun again, by themselves.
const MOST_READS: u64 = 60;
/// Lines more for each pod that waits: it is tried again, and refused again, whenever another one ends.
const LOG_LINES_OF_WAITING: u64 = 10;
/// Lines, and requests, more for each pod that is bound meanwhile, as an owner makes a new one for each that ends.
const OF_BOUND: u64 = 10;

/// Reads more for each Allocate that a node's plugin refuses meanwhile: before each it reads the node's pods for five seconds, until the
/// holder has ended. A kubelet that has lost its books asks again and again for ids that others hold.
const READS_OF_REFUSED: u64 = 25;

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
        let most_polls = MOST.polls + POLLS_OF_NODE * self.nodes.len() as u64;
        let most_log_lines = MOST.log_lines + LOG_LINES_OF_WAITING * waiting + OF_BOUND * bound;
        let most_writes = MOST_WRITES + OF_BOUND * bound;
        for (part, now) in self.simulation.activity() {
            let then = before.activity.get(&part).copied().unwrap_or_default();
            let kind = part.split('/').next().unwrap_or_default();
            // The cluster's own parts write as often as pods wait.
            if self.suite.programs().iter().all(|program| program.name != kind) {
                continue;
            }
            let has_replicas = self.watcher.state().truth.replicated.contains(kind);
            let more_polls = if has_replicas { POLLS_OF_REPLICAS } else { 0 };
            let node = part.split('/').nth(1).unwrap_or_default();
            let refused = |counts: &BTreeMap<String, u64>| counts.get(node).copied().unwrap_or_default();
            let in_vain = refused(&self.watcher.state().asked_in_vain) - refused(&before.asked_in_vain);
            let sent =
                |counts: &BTreeMap<Arc<str>, u64>| counts.get(part.as_str()).copied().unwrap_or_default();
            for (what, did, most) in [
                ("polls", now.polls - then.polls, most_polls + more_polls),
                ("log lines", now.log_lines - then.log_lines, most_log_lines),
                ("writes", sent(&writes) - sent(&before.writes), most_writes),
                (
                    "reads",
                    sent(&reads) - sent(&before.reads),
                    MOST_READS + OF_BOUND * bound + READS_OF_REFUSED * in_vain,
                ),
            ] {
                if did > most {
                    self.watcher.violation(Violation {
                        invariant: "quiet",
                        cause: format!("{kind}: {what} without end"),
                        text: format!("{part} at rest: {did} {what} in {QUIET:?}, at most {most} may be"),
                        pods: Vec::new(),
                    });
                }
            }
        }
    }

    /// UIDs of pods that are bound to no node.
    fn waiting_pods(&self) -> BTreeSet<String> {
        let state = self.watcher.state();
        state.truth.pods.iter().filter(|(_, pod)| pod.node.is_empty()).map(|(uid, _)| uid.clone()).collect()
    }
}
