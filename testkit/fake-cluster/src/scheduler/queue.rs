//! The scheduling queue: which pod is tried next, and when a refused pod is tried again. It follows kube-scheduler
//! with its default feature gates, the same in every version here. It reads no clock: the caller gives the time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use runtime::reached;

use super::choose_node::diagnosis::RefusedBy;
use super::cluster_event::ClusterEvent;
use super::priority::priority;
use crate::clock::later;

/// The back-off after the first failure; it doubles with each further one.
const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(10);
/// A refused pod is tried again after this long, even if nothing has changed.
const MAX_UNSCHEDULABLE: Duration = Duration::from_secs(5 * 60);

/// Pods that wait for a node, by UID.
#[derive(Default)]
pub(crate) struct Queue {
    pods: BTreeMap<String, QueuedPod>,
    last_turn: u64,
}

struct QueuedPod {
    pod: Arc<Pod>,
    /// Order among pods of equal priority; renewed by every failed try.
    turn: u64,
    place: Place,
    refusals: u32,
    consecutive_errors: u32,
    backoff_until: Timestamp,
}

enum Place {
    Active,
    /// After an error the whole back-off is waited for. Other pods are taken early when no pod is active (feature
    /// SchedulerPopFromBackoffQ).
    Backoff {
        after_error: bool,
    },
    Unschedulable {
        refused_by: Vec<RefusedBy>,
        since: Timestamp,
    },
    /// Being scheduled or bound. What happens meanwhile is kept in case that fails.
    InFlight {
        events: Vec<ClusterEvent>,
        updated: bool,
    },
}

impl Queue {
    /// Adds a pod that has appeared.
    pub(crate) fn add(&mut self, uid: &str, pod: Arc<Pod>, now: Timestamp) {
        let turn = self.turn();
        let queued = QueuedPod {
            pod,
            turn,
            place: Place::Active,
            refusals: 0,
            consecutive_errors: 0,
            backoff_until: now,
        };
        self.pods.insert(uid.to_owned(), queued);
    }

    /// Replaces a queued pod that has changed; `matters` is false for a change of its status alone.
    pub(crate) fn update(&mut self, uid: &str, pod: Arc<Pod>, matters: bool, now: Timestamp) {
        let Some(queued) = self.pods.get_mut(uid) else { return self.add(uid, pod, now) };
        queued.pod = pod;
        match &mut queued.place {
            Place::InFlight { updated, .. } => *updated |= matters,
            Place::Unschedulable { .. } if matters => queued.retry(now),
            _ => {}
        }
    }

    /// Removes a pod that was deleted or bound.
    pub(crate) fn remove(&mut self, uid: &str) {
        self.pods.remove(uid);
    }

    /// The queued pod.
    pub(crate) fn pod(&self, uid: &str) -> Option<Arc<Pod>> {
        self.pods.get(uid).map(|queued| Arc::clone(&queued.pod))
    }

    /// Whether the pod is queued, in flight or not.
    pub(crate) fn contains(&self, uid: &str) -> bool {
        self.pods.contains_key(uid)
    }

    /// Gives refused pods that the event may help another try.
    pub(crate) fn observe(&mut self, event: ClusterEvent, now: Timestamp) {
        for queued in self.pods.values_mut() {
            match &mut queued.place {
                Place::InFlight { events, .. } => events.push(event),
                Place::Unschedulable { refused_by, .. }
                    if refused_by.iter().any(|by| event.may_help(*by)) =>
                {
                    queued.retry(now);
                }
                _ => {}
            }
        }
    }

    /// Takes the next pod to try, which is then in flight: highest priority first, then first come.
    pub(crate) fn pop(&mut self, now: Timestamp) -> Option<(String, Arc<Pod>)> {
        for queued in self.pods.values_mut() {
            queued.end_waits(now);
        }
        let active = |queued: &QueuedPod| matches!(queued.place, Place::Active);
        let early = |queued: &QueuedPod| matches!(queued.place, Place::Backoff { after_error: false });
        let uid = self.first(active).or_else(|| self.first(early))?;
        let queued = self.pods.get_mut(&uid)?;
        queued.place = Place::InFlight { events: Vec::new(), updated: false };
        Some((uid, queued.pod.clone()))
    }

    /// Puts a pod back that no node takes. Without any refusal (there was no node at all) it is retried as after an error.
    pub(crate) fn refused(&mut self, uid: &str, refused_by: Vec<RefusedBy>, now: Timestamp) {
        if refused_by.is_empty() {
            return self.failed(uid, now);
        }
        let turn = self.turn();
        let Some(queued) = self.pods.get_mut(uid) else { return };
        queued.turn = turn;
        queued.refusals = queued.refusals.saturating_add(1);
        queued.consecutive_errors = 0;
        queued.backoff_until = later(now, backoff(queued.refusals));
        let missed = match &queued.place {
            Place::InFlight { events, updated } => {
                *updated || events.iter().any(|event| refused_by.iter().any(|by| event.may_help(*by)))
            }
            _ => false,
        };
        queued.place = if missed {
            Place::Backoff { after_error: false }
        } else {
            Place::Unschedulable { refused_by, since: now }
        };
    }

    /// Puts a pod back whose scheduling or binding failed with an error.
    pub(crate) fn failed(&mut self, uid: &str, now: Timestamp) {
        let turn = self.turn();
        let Some(queued) = self.pods.get_mut(uid) else { return };
        queued.turn = turn;
        queued.consecutive_errors = queued.consecutive_errors.saturating_add(1);
        queued.backoff_until = later(now, backoff(queued.consecutive_errors));
        queued.place = Place::Backoff { after_error: true };
    }

    /// When the next pod becomes ready by time alone.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        let deadlines = self.pods.values().filter_map(|queued| match &queued.place {
            Place::Backoff { .. } => Some(queued.backoff_until),
            Place::Unschedulable { since, .. } => Some(later(*since, MAX_UNSCHEDULABLE)),
            Place::Active | Place::InFlight { .. } => None,
        });
        deadlines.min()
    }

    fn turn(&mut self) -> u64 {
        self.last_turn += 1;
        self.last_turn
    }

    fn first(&self, eligible: impl Fn(&QueuedPod) -> bool) -> Option<String> {
        let eligible = self.pods.iter().filter(|(_, queued)| eligible(queued));
        eligible.min_by_key(|(_, queued)| queued.order()).map(|(uid, _)| uid.clone())
    }
}

impl QueuedPod {
    fn order(&self) -> (std::cmp::Reverse<i32>, u64) {
        (std::cmp::Reverse(priority(&self.pod)), self.turn)
    }

    fn retry(&mut self, now: Timestamp) {
        self.place =
            if now >= self.backoff_until { Place::Active } else { Place::Backoff { after_error: false } };
    }

    /// Moves the pod on when its back-off or its five minutes are over.
    fn end_waits(&mut self, now: Timestamp) {
        match &self.place {
            Place::Backoff { .. } if now >= self.backoff_until => self.place = Place::Active,
            Place::Unschedulable { since, .. } if now >= later(*since, MAX_UNSCHEDULABLE) => {
                reached("cluster: a refused pod was tried again after five minutes");
                self.place = Place::Active;
            }
            _ => {}
        }
    }
}

/// 1, 2, 4, 8, 10, 10.. seconds for the 1st, 2nd.. failure.
fn backoff(failures: u32) -> Duration {
    let doubled = INITIAL_BACKOFF.saturating_mul(2u32.saturating_pow(failures.saturating_sub(1)));
    doubled.min(MAX_BACKOFF)
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
            queue.observe(ClusterEvent::NodeAdded, at(now));
            assert_eq!(queue.next_deadline(), Some(at(now + wait)));
            assert_eq!(popped(&mut queue, at(now + wait - 1)), None);
            now += wait;
        }
    }

    #[test]
    fn each_refusal_is_retried_after_the_events_that_may_help_it() {
        use RefusedBy::*;
        let all = [
            ClusterEvent::PodGone,
            ClusterEvent::NodeAdded,
            ClusterEvent::NodeAllocatable,
            ClusterEvent::NodeLabels,
            ClusterEvent::NodeTaints,
            ClusterEvent::NodeOther,
        ];
        for (refused_by, helpful) in [
            (Extender, all.to_vec()),
            (
                NodeResourcesFit,
                vec![ClusterEvent::PodGone, ClusterEvent::NodeAdded, ClusterEvent::NodeAllocatable],
            ),
            (TaintToleration, vec![ClusterEvent::NodeAdded, ClusterEvent::NodeTaints]),
            (NodeUnschedulable, vec![ClusterEvent::NodeAdded, ClusterEvent::NodeTaints]),
            (NodeAffinity, vec![ClusterEvent::NodeAdded, ClusterEvent::NodeLabels]),
        ] {
            for event in all {
                let mut queue = Queue::default();
                queue.add("a", pod(0), START);
                queue.pop(START);
                queue.refused("a", vec![refused_by], START);
                queue.observe(event, START);
                assert_eq!(
                    popped(&mut queue, START).is_some(),
                    helpful.contains(&event),
                    "{refused_by:?} {event:?}"
                );
            }
        }
    }

    #[test]
    fn an_event_during_the_try_is_not_lost() {
        let mut queue = Queue::default();
        queue.add("a", pod(0), START);
        queue.pop(START);
        queue.observe(ClusterEvent::PodGone, START);
        queue.refused("a", vec![RefusedBy::NodeResourcesFit], START);
        assert_eq!(popped(&mut queue, START).as_deref(), Some("a"));
    }

    #[test]
    fn a_refused_pod_waits_five_minutes_at_most() {
        let mut queue = Queue::default();
        queue.add("a", pod(0), START);
        queue.pop(START);
        queue.refused("a", vec![RefusedBy::NodeResourcesFit], START);
        assert_eq!(popped(&mut queue, at(299)), None);
        assert_eq!(queue.next_deadline(), Some(at(300)));
        assert_eq!(popped(&mut queue, at(300)).as_deref(), Some("a"));
    }

    #[test]
    fn a_refused_pod_is_tried_again_when_it_changes_but_not_when_only_its_status_does() {
        let mut queue = Queue::default();
        queue.add("a", pod(0), START);
        queue.pop(START);
        queue.refused("a", vec![RefusedBy::NodeResourcesFit], START);
        queue.update("a", pod(0), false, START);
        assert_eq!(popped(&mut queue, START), None);
        queue.update("a", pod(0), true, START);
        assert_eq!(popped(&mut queue, START).as_deref(), Some("a"));
    }
}
