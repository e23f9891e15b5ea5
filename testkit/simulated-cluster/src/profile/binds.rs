//! Draws what goes wrong as pods are bound: the pod is another one by then, or the bind fails and nothing follows. Called by `faults`.

use serde_json::Value;
use simulator::random::Rng;

use super::Generated;
use crate::plan::{ApiRates, Event, Place, What};

/// Pods that are made anew unheard in an hour, at most.
const MOST_MADE_ANEW: usize = 3;
/// How long the first of them is there at most, in milliseconds.
const LONGEST: u64 = 15_000;
/// How long before the rest binds fail, in seconds.
const LAST: u32 = 8;
/// Pods that come together as a replica is frozen, and again while it is.
const AMID: usize = 6;
/// How long it is frozen at most, in seconds: somewhat longer than the longest Lease.
const FROZEN: u32 = 35;
/// The same for a quarter: somewhat longer than kube-scheduler waits for a bind.
const SHORT: u32 = 6;

impl Generated {
    /// Pods are deleted by force and made anew under their names, of which the scheduler and the programs beside it hear late, one later
    /// than the other: the second of a name may meet what was meant for the first.
    pub(super) fn made_anew_unheard(&self, busy: u64) -> Vec<Event> {
        let mut draws = self.draws("made anew unheard");
        let mut events = Vec::new();
        for number in 0..draws.usize(..=MOST_MADE_ANEW) {
            let at = draws.u64(..busy - 2 * LONGEST);
            let deleted = at + draws.u64(1000..=LONGEST);
            let again = deleted + draws.u64(..500);
            let seconds = u32::try_from((again - at) / 1000 + 1).unwrap_or(1);
            // Who hears of the first after the second was made, and who has not heard of its end by then, both mean the first.
            for on in self.controls().into_iter().chain([Place::Scheduler]) {
                events.push(Event { at, what: What::WatchLag { on, milliseconds: 2000 * seconds, seconds } });
            }
            let name = format!("anew{}-{number}", self.hour);
            let pod = self.short_pod(&mut draws, &name);
            let same = draws.u8(..4) == 0;
            let second = if same { pod.clone() } else { self.short_pod(&mut draws, &name) };
            events.push(Event { at, what: What::Create { pods: vec![pod] } });
            events.push(Event { at: deleted, what: What::Delete { pod: name, grace: Some(0) } });
            events.push(Event { at: again, what: What::Create { pods: vec![second] } });
        }
        events
    }

    /// In every other hour the last pods before the rest cannot be bound, and are gone again before they could: what a failed bind has
    /// left is put right by nothing that comes after it.
    pub(super) fn last_binds_fail(&self, busy: u64) -> Vec<Event> {
        let mut draws = self.draws("last binds fail");
        if draws.bool() {
            return Vec::new();
        }
        let begins = busy - u64::from(LAST) * 1000;
        let rates = ApiRates { conflict: 1.0, ..ApiRates::default() };
        let mut events = vec![Event { at: begins, what: What::ApiFaults { rates, seconds: LAST } }];
        for number in 0..draws.usize(1..=3) {
            let name = format!("last{}-{number}", self.hour);
            let pods = vec![self.short_pod(&mut draws, &name)];
            events.push(Event { at: begins + draws.u64(..1000), what: What::Create { pods } });
            let gone = begins + draws.u64(3000..7500);
            events.push(Event { at: gone, what: What::Delete { pod: name, grace: Some(0) } });
        }
        events
    }

    /// In every other hour the host of a replica is frozen as pods are bound, for about as long as its Lease lasts: it goes on with what
    /// it was about to do, when another one has placed other pods.
    pub(super) fn deposed_amid_binds(&self, busy: u64) -> Vec<Event> {
        let mut draws = self.draws("deposed amid binds");
        let controls = self.controls();
        if controls.len() < 2 || draws.bool() {
            return Vec::new();
        }
        let at = draws.u64(..busy - u64::from(FROZEN) * 1000);
        // In a quarter, with a short Lease, another leads before kube-scheduler gives up the bind.
        let (on, is_short) = (controls[draws.usize(..controls.len())], draws.u8(..4) == 0);
        let seconds = draws.u32(2..=if is_short { SHORT } else { FROZEN });
        let frozen = at + draws.u64(5..=if is_short { 60 } else { 500 });
        let later = at + draws.u64(1000..=u64::from(seconds) * 1000);
        let create = |draws: &mut Rng, at, batch: &str| {
            let name = |number| format!("amid{}-{batch}{number}", self.hour);
            let pods = (0..AMID).map(|number| self.short_pod(draws, &name(number))).collect();
            Event { at, what: What::Create { pods } }
        };
        let freeze = Event { at: frozen, what: What::Freeze { part: "node".to_owned(), on, seconds } };
        vec![create(&mut draws, at, "a"), freeze, create(&mut draws, later, "b")]
    }

    fn short_pod(&self, draws: &mut Rng, name: &str) -> Value {
        let ends_after = Some(draws.u32(1..=60));
        let mut pod = self.shape(draws, ends_after);
        pod["metadata"]["name"] = name.into();
        pod
    }
}
