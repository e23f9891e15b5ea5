//! The scheduling queue: which pod is tried next, and when a refused pod is worth another try. Pure: the
//! caller says what time it is. Follows kube-scheduler 1.34 with its default feature gates.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;

use super::verdict::Refuser;

/// The back-off doubles from the first to the second of these.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// A refused pod is tried again after this long, whatever happens.
const UNSCHEDULABLE_LIMIT: Duration = Duration::from_secs(5 * 60);

/// What happened in the cluster that may make a refused pod fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    /// A pod on a node was deleted, became terminal, or could not be bound after all.
    PodGone,
    NodeAdded,
    NodeAllocatable,
    NodeLabels,
    /// Taints or `spec.unschedulable`.
    NodeTaints,
    /// Annotations or conditions.
    NodeOther,
}

impl Wake {
    /// An extender cannot say what would help it, so after its refusal everything counts.
    fn concerns(self, refuser: Refuser) -> bool {
        match refuser {
            Refuser::Extender => true,
            Refuser::NodeResourcesFit => {
                matches!(self, Self::PodGone | Self::NodeAdded | Self::NodeAllocatable)
            }
            Refuser::NodeUnschedulable | Refuser::TaintToleration => {
                matches!(self, Self::NodeAdded | Self::NodeTaints)
            }
            Refuser::NodeAffinity => matches!(self, Self::NodeAdded | Self::NodeLabels),
        }
    }
}

/// Pods that wait for a node, by UID.
#[derive(Default)]
pub(super) struct Queue {
    waiting: HashMap<String, Waiting>,
    next_turn: u64,
}

struct Waiting {
    pod: Arc<Pod>,
    /// Order among pods of equal priority; renewed by every failed try.
    turn: u64,
    place: Place,
    refusals: u32,
    errors_in_a_row: u32,
    backoff_until: Timestamp,
}

enum Place {
    Active,
    /// `after_error`: must wait out the back-off. Others are taken early when nothing else is to be done
    /// (feature SchedulerPopFromBackoffQ).
    Backoff {
        after_error: bool,
    },
    Unschedulable {
        refusers: Vec<Refuser>,
        since: Timestamp,
    },
    /// Being scheduled or bound; what happens meanwhile is kept for the case that it fails.
    InFlight {
        happened: Vec<Wake>,
        updated: bool,
    },
}

impl Queue {
    /// A pod appeared.
    pub(super) fn add(&mut self, uid: &str, pod: Arc<Pod>, now: Timestamp) {
        let turn = self.turn();
        let waiting =
            Waiting { pod, turn, place: Place::Active, refusals: 0, errors_in_a_row: 0, backoff_until: now };
        self.waiting.insert(uid.to_owned(), waiting);
    }

    /// A waiting pod changed; `matters` is false for changes of its status alone.
    pub(super) fn update(&mut self, uid: &str, pod: Arc<Pod>, matters: bool, now: Timestamp) {
        let Some(waiting) = self.waiting.get_mut(uid) else { return self.add(uid, pod, now) };
        waiting.pod = pod;
        match &mut waiting.place {
            Place::InFlight { updated, .. } => *updated |= matters,
            Place::Unschedulable { .. } if matters => waiting.retry(now),
            _ => {}
        }
    }

    /// A pod was deleted or bound.
    pub(super) fn remove(&mut self, uid: &str) {
        self.waiting.remove(uid);
    }

    /// Whether the pod still waits, in flight or not.
    pub(super) fn contains(&self, uid: &str) -> bool {
        self.waiting.contains_key(uid)
    }

    /// Something happened: refused pods that it may concern get another try.
    pub(super) fn wake(&mut self, wake: Wake, now: Timestamp) {
        for waiting in self.waiting.values_mut() {
            match &mut waiting.place {
                Place::InFlight { happened, .. } => happened.push(wake),
                Place::Unschedulable { refusers, .. } if refusers.iter().any(|by| wake.concerns(*by)) => {
                    waiting.retry(now);
                }
                _ => {}
            }
        }
    }

    /// The next pod to try, which is then in flight: highest priority first, then first come.
    pub(super) fn pop(&mut self, now: Timestamp) -> Option<(String, Arc<Pod>)> {
        for waiting in self.waiting.values_mut() {
            waiting.catch_up(now);
        }
        let active = |waiting: &Waiting| matches!(waiting.place, Place::Active);
        let early = |waiting: &Waiting| matches!(waiting.place, Place::Backoff { after_error: false });
        let uid = self.first(active).or_else(|| self.first(early))?;
        let waiting = self.waiting.get_mut(&uid)?;
        waiting.place = Place::InFlight { happened: Vec::new(), updated: false };
        Some((uid, waiting.pod.clone()))
    }

    /// No node takes the pod. Without refusers (there was no node at all) it is retried like after an error.
    pub(super) fn refused(&mut self, uid: &str, refusers: Vec<Refuser>, now: Timestamp) {
        if refusers.is_empty() {
            return self.failed(uid, now);
        }
        let turn = self.turn();
        let Some(waiting) = self.waiting.get_mut(uid) else { return };
        waiting.turn = turn;
        waiting.refusals = waiting.refusals.saturating_add(1);
        waiting.errors_in_a_row = 0;
        waiting.backoff_until = later(now, backoff(waiting.refusals));
        let missed = match &waiting.place {
            Place::InFlight { happened, updated } => {
                *updated || happened.iter().any(|wake| refusers.iter().any(|by| wake.concerns(*by)))
            }
            _ => false,
        };
        waiting.place = if missed {
            Place::Backoff { after_error: false }
        } else {
            Place::Unschedulable { refusers, since: now }
        };
    }

    /// Scheduling or binding the pod failed with an error.
    pub(super) fn failed(&mut self, uid: &str, now: Timestamp) {
        let turn = self.turn();
        let Some(waiting) = self.waiting.get_mut(uid) else { return };
        waiting.turn = turn;
        waiting.errors_in_a_row = waiting.errors_in_a_row.saturating_add(1);
        waiting.backoff_until = later(now, backoff(waiting.errors_in_a_row));
        waiting.place = Place::Backoff { after_error: true };
    }

    /// When the passing of time alone makes a pod ready.
    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        let deadlines = self.waiting.values().filter_map(|waiting| match &waiting.place {
            Place::Backoff { .. } => Some(waiting.backoff_until),
            Place::Unschedulable { since, .. } => Some(later(*since, UNSCHEDULABLE_LIMIT)),
            Place::Active | Place::InFlight { .. } => None,
        });
        deadlines.min()
    }

    fn turn(&mut self) -> u64 {
        self.next_turn += 1;
        self.next_turn
    }

    fn first(&self, eligible: impl Fn(&Waiting) -> bool) -> Option<String> {
        let eligible = self.waiting.iter().filter(|(_, waiting)| eligible(waiting));
        eligible.min_by_key(|(_, waiting)| waiting.order()).map(|(uid, _)| uid.clone())
    }
}

impl Waiting {
    fn order(&self) -> (std::cmp::Reverse<i32>, u64) {
        let priority = self.pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0);
        (std::cmp::Reverse(priority), self.turn)
    }

    fn retry(&mut self, now: Timestamp) {
        self.place =
            if now >= self.backoff_until { Place::Active } else { Place::Backoff { after_error: false } };
    }

    /// Moves the pod on when its back-off or its five minutes are over.
    fn catch_up(&mut self, now: Timestamp) {
        match &self.place {
            Place::Backoff { .. } if now >= self.backoff_until => self.place = Place::Active,
            Place::Unschedulable { since, .. } if now >= later(*since, UNSCHEDULABLE_LIMIT) => {
                self.place = Place::Active;
            }
            _ => {}
        }
    }
}

/// 1, 2, 4, 8, 10, 10.. seconds for the 1st, 2nd.. failure.
fn backoff(failures: u32) -> Duration {
    let doubled = BACKOFF.0.saturating_mul(2u32.saturating_pow(failures.saturating_sub(1)));
    doubled.min(BACKOFF.1)
}

fn later(from: Timestamp, span: Duration) -> Timestamp {
    let span = SignedDuration::try_from(span).unwrap_or(SignedDuration::MAX);
    from.checked_add(span).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

    fn at(seconds: u64) -> Timestamp {
        later(START, Duration::from_secs(seconds))
    }

    fn pod(priority: i32) -> Arc<Pod> {
        Arc::new(
            serde_json::from_value(serde_json::json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {},
                "spec": {"priority": priority, "containers": []}
            }))
            .unwrap(),
        )
    }

    fn popped(queue: &mut Queue, now: Timestamp) -> Option<String> {
        queue.pop(now).map(|(uid, _)| uid)
    }

    #[test]
    fn higher_priority_first_then_first_come() {
        let mut queue = Queue::default();
        for (uid, priority) in [("a", 0), ("b", 0), ("c", 5)] {
            queue.add(uid, pod(priority), START);
        }
        let order: Vec<_> = std::iter::from_fn(|| popped(&mut queue, START)).collect();
        assert_eq!(order, ["c", "a", "b"]);
    }

    #[test]
    fn errors_back_off_from_one_second_to_ten() {
        let mut queue = Queue::default();
        queue.add("a", pod(0), START);
        let mut now = 0;
        for wait in [1, 2, 4, 8, 10, 10] {
            assert_eq!(popped(&mut queue, at(now)).as_deref(), Some("a"));
            queue.failed("a", at(now));
            queue.wake(Wake::NodeAdded, at(now));
            assert_eq!(queue.next_deadline(), Some(at(now + wait)));
            assert_eq!(popped(&mut queue, at(now + wait - 1)), None);
            now += wait;
        }
    }

    #[test]
    fn each_refuser_wakes_on_its_own_events() {
        use Refuser::*;
        let all = [
            Wake::PodGone,
            Wake::NodeAdded,
            Wake::NodeAllocatable,
            Wake::NodeLabels,
            Wake::NodeTaints,
            Wake::NodeOther,
        ];
        for (refuser, wakes) in [
            (Extender, all.to_vec()),
            (NodeResourcesFit, vec![Wake::PodGone, Wake::NodeAdded, Wake::NodeAllocatable]),
            (TaintToleration, vec![Wake::NodeAdded, Wake::NodeTaints]),
            (NodeUnschedulable, vec![Wake::NodeAdded, Wake::NodeTaints]),
            (NodeAffinity, vec![Wake::NodeAdded, Wake::NodeLabels]),
        ] {
            for wake in all {
                let mut queue = Queue::default();
                queue.add("a", pod(0), START);
                queue.pop(START);
                queue.refused("a", vec![refuser], START);
                queue.wake(wake, START);
                assert_eq!(
                    popped(&mut queue, START).is_some(),
                    wakes.contains(&wake),
                    "{refuser:?} {wake:?}"
                );
            }
        }
    }

    #[test]
    fn an_event_during_the_try_is_not_lost() {
        let mut queue = Queue::default();
        queue.add("a", pod(0), START);
        queue.pop(START);
        queue.wake(Wake::PodGone, START);
        queue.refused("a", vec![Refuser::NodeResourcesFit], START);
        assert_eq!(popped(&mut queue, START).as_deref(), Some("a"));
    }

    #[test]
    fn a_refused_pod_waits_five_minutes_at_most() {
        let mut queue = Queue::default();
        queue.add("a", pod(0), START);
        queue.pop(START);
        queue.refused("a", vec![Refuser::NodeResourcesFit], START);
        assert_eq!(popped(&mut queue, at(299)), None);
        assert_eq!(queue.next_deadline(), Some(at(300)));
        assert_eq!(popped(&mut queue, at(300)).as_deref(), Some("a"));
    }

    #[test]
    fn its_own_update_wakes_a_refused_pod_but_its_status_does_not() {
        let mut queue = Queue::default();
        queue.add("a", pod(0), START);
        queue.pop(START);
        queue.refused("a", vec![Refuser::NodeResourcesFit], START);
        queue.update("a", pod(0), false, START);
        assert_eq!(popped(&mut queue, START), None);
        queue.update("a", pod(0), true, START);
        assert_eq!(popped(&mut queue, START).as_deref(), Some("a"));
    }
}
