//! Draws which pods come and go in an hour.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use simulator::random::Rng;

use super::{Generated, HOUR, REST, REST_BEGINS};
use crate::names::SCHEDULER;
use crate::plan::{Event, What};
use crate::suite::Units;

/// Pods that stay until they are deleted, for each node at most.
const STAYING: usize = 1;
/// Shapes that are tried at most until one can run.
const SHAPES: usize = 8;
/// When an hour's rest is over, in milliseconds.
const REST_IS_OVER: u64 = REST_BEGINS + REST as u64 * 1000;
/// Jobs and StatefulSets at one time, for each four nodes at most.
const OWNERS: usize = 1;

impl Generated {
    /// Pods that come and go within `busy` milliseconds.
    pub(super) fn pods_of_hour(&mut self, busy: u64) -> Vec<Event> {
        let mut draws = self.draws("pods");
        self.hopeless_left = self.profile.hopeless_shapes();
        let count = self.profile.pods() * self.nodes.len() as u64;
        let mut events = Vec::new();
        // Names are given in the order of time: a pod is there before it is deleted.
        let mut times: Vec<u64> = (0..count).map(|_| draws.u64(..busy)).collect();
        times.sort_unstable();
        let mut times = times.into_iter();
        while let Some(at) = times.next() {
            let more = if draws.u8(..6) == 0 { draws.usize(1..=4) } else { 0 };
            let together = 1 + times.by_ref().take(more).count() as u64;
            let what = match draws.u8(..40) {
                0 => self.owner(&mut draws),
                1..4 => self.ends_staying(&mut draws),
                4 => {
                    events.extend(self.made_anew(&mut draws, at, busy));
                    continue;
                }
                _ => None,
            };
            if let Some(What::Delete { pod, .. }) = &what
                && draws.u8(..3) == 0
            {
                // Somebody is impatient.
                let again = (at + draws.u64(..10_000)).min(busy);
                let grace = Some([0, 1][draws.usize(..2)]);
                events.push(Event { at: again, what: What::Delete { pod: pod.clone(), grace } });
            }
            if let Some(What::Delete { .. }) = what {
                // What comes next may be given what the one before has until its grace is over.
                let next = (at + draws.u64(..2000)).min(busy);
                events.push(Event { at: next, what: self.create(&mut draws, next, 1) });
            }
            events.push(Event { at, what: what.unwrap_or_else(|| self.create(&mut draws, at, together)) });
        }
        events.extend(self.given_up(&events, busy));
        events
    }

    fn create(&mut self, draws: &mut Rng, at: u64, together: u64) -> What {
        let ends_after = self.ends_after(draws, at);
        let shape = self.any_shape(draws, ends_after);
        let alike = draws.u8(..3) > 0;
        let pods = (0..together).map(|_| {
            let shape = if alike { shape.clone() } else { self.any_shape(draws, ends_after) };
            self.named += 1;
            let name = format!("p{}", self.named);
            if ends_after.is_none() {
                self.staying.push_back(name.clone());
            }
            named(shape, &name)
        });
        What::Create { pods: pods.collect() }
    }

    /// Who made a pod that no node could ever run reads why, and deletes it within two minutes; after the rest, if that comes first.
    /// Else such pods would become so many that kube-scheduler would do little else than try them again.
    fn given_up(&self, events: &[Event], busy: u64) -> Vec<Event> {
        let mut draws = self.draws("given up");
        let mut given_up = Vec::new();
        for event in events {
            let What::Create { pods } = &event.what else { continue };
            for pod in pods.iter().filter(|pod| !self.can_ever_run(pod)) {
                let at = event.at + draws.u64(20_000..120_000);
                let at = if at < busy { at } else { draws.u64(REST_IS_OVER..HOUR) };
                let pod =
                    pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
                given_up.push(Event { at, what: What::Delete { pod, grace: None } });
            }
        }
        given_up
    }

    fn can_ever_run(&self, pod: &Value) -> bool {
        let mut seen = BTreeSet::new();
        let machines = self.nodes.iter().filter(|node| seen.insert(node.machine.as_str()));
        machines.into_iter().any(|node| self.suite.can_run(node, pod, &Units::new()) == Some(true))
    }

    /// A pod that is deleted by force, perhaps while it is bound, and made anew under its name at once.
    fn made_anew(&mut self, draws: &mut Rng, at: u64, busy: u64) -> [Event; 3] {
        self.named += 1;
        let (name, ends_after) = (format!("p{}", self.named), Some(draws.u32(60..=1800)));
        let first = self.shape(draws, ends_after);
        let second = if draws.bool() { first.clone() } else { self.shape(draws, ends_after) };
        let longest = if draws.bool() { 1000 } else { 60_000 };
        let deleted = (at + draws.u64(..longest)).min(busy);
        let again = (deleted + draws.u64(..500)).min(busy);
        let create = |pod| What::Create { pods: vec![named(pod, &name)] };
        [
            Event { at, what: create(first) },
            Event { at: deleted, what: What::Delete { pod: name.clone(), grace: Some(0) } },
            Event { at: again, what: create(second) },
        ]
    }

    /// After how many seconds a pod that is made at this time ends by itself; none if it stays until it is deleted.
    fn ends_after(&self, draws: &mut Rng, at: u64) -> Option<u32> {
        if self.staying.len() < STAYING * self.nodes.len() && draws.u8(..5) == 0 {
            return None;
        }
        Some(match draws.u8(..6) {
            0 => 0,
            1..4 => draws.u32(1..=60),
            _ if !self.is_still() => draws.u32(60..=self.profile.longest_run()),
            _ if self.runs_past_the_rest(draws) => {
                (REST_IS_OVER.saturating_sub(at) / 1000) as u32 + draws.u32(..=900)
            }
            _ => draws.u32(1..=60),
        })
    }

    fn runs_past_the_rest(&self, draws: &mut Rng) -> bool {
        let one_in = self.profile.long_pods_for_one_still();
        one_in == 1 || draws.u8(..one_in) == 0
    }

    /// Whether pods that run for long do so until this hour's rest is over: what waiting pods are told is judged only where nothing ends
    /// for minutes.
    fn is_still(&self) -> bool {
        self.hour % 2 == 1
    }

    /// A shape, even of a pod that no node could ever run, while there may be more of those.
    fn any_shape(&mut self, draws: &mut Rng, ends_after: Option<u32>) -> Value {
        let shape = self.shape(draws, ends_after);
        if self.hopeless_left == usize::MAX || self.can_ever_run(&shape) {
            return shape;
        }
        match self.hopeless_left.checked_sub(1) {
            Some(left) => {
                self.hopeless_left = left;
                shape
            }
            None => self.shape_that_runs(draws, ends_after),
        }
    }

    pub(super) fn shape(&self, draws: &mut Rng, ends_after: Option<u32>) -> Value {
        let mut pod = self.suite.pod(draws, &self.nodes, ends_after);
        pod["metadata"]["labels"] = json!({});
        pod["spec"]["schedulerName"] = SCHEDULER.into();
        pod["spec"]["terminationGracePeriodSeconds"] = [1, 10, 30][draws.usize(..3)].into();
        pod
    }

    /// The oldest pod that stays is deleted, most often with its grace.
    fn ends_staying(&mut self, draws: &mut Rng) -> Option<What> {
        let pod = self.staying.pop_front()?;
        let grace = [None, None, Some(0), Some(5)][draws.usize(..4)];
        Some(What::Delete { pod, grace })
    }

    /// A Job or StatefulSet comes, or the oldest one goes.
    fn owner(&mut self, draws: &mut Rng) -> Option<What> {
        if self.owners.len() >= (OWNERS * self.nodes.len()).div_ceil(4) || draws.u8(..3) == 0 {
            return Some(What::DeleteOwner { name: self.owners.pop_front()? });
        }
        self.named += 1;
        if draws.bool() {
            let (ends, name) = (draws.u32(1..=120), format!("job{}", self.named));
            let pod = self.shape_that_runs(draws, Some(ends));
            let (parallelism, completions) = (draws.u32(1..=3), draws.u32(1..=6));
            return Some(What::Job { name, pod, parallelism, completions });
        }
        let (name, replicas) = (format!("set{}", self.named), draws.u32(1..=3));
        self.owners.push_back(name.clone());
        // A pod of a StatefulSet that ends is made anew, under its name.
        let ends_after = draws.bool().then(|| draws.u32(60..=1800));
        Some(What::StatefulSet { name, pod: self.shape_that_runs(draws, ends_after), replicas })
    }

    /// A shape that a node could run, as far as a few tries find one: an owner would make a hopeless pod again and again.
    fn shape_that_runs(&self, draws: &mut Rng, ends_after: Option<u32>) -> Value {
        let mut shape = self.shape(draws, ends_after);
        for _ in 0..SHAPES {
            if self.can_ever_run(&shape) {
                break;
            }
            shape = self.shape(draws, ends_after);
        }
        shape
    }
}

fn named(mut pod: Value, name: &str) -> Value {
    pod["metadata"]["name"] = name.into();
    pod
}
