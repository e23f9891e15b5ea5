//! How the ways to the API server are now. Changed by faults, read by every request.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::Whose;
use crate::plan::{ApiRates, Place};

/// How the ways to the API server are now.
#[derive(Default)]
pub(crate) struct Conditions {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The rates while no fault of them lasts.
    rates: BTreeMap<Whose, ApiRates>,
    /// Those of faults that last, the latest last, by their numbers.
    overridden: Vec<(u64, Whose, ApiRates)>,
    overrides: u64,
    /// How much later watches show everything.
    lags: BTreeMap<Place, Duration>,
    /// How many writes ago the state is that lists show to whom any will do.
    behind: BTreeMap<Place, u64>,
    /// How often the connections of a place were reset.
    resets: BTreeMap<Place, watch::Sender<u64>>,
    /// Faults that were met, by kind.
    met: BTreeMap<&'static str, u64>,
    /// Requests that change something, by part.
    writes: BTreeMap<Arc<str>, u64>,
    /// Requests that change nothing, by part.
    reads: BTreeMap<Arc<str>, u64>,
}

impl Conditions {
    /// The rates now: those of the latest fault that lasts, or the settings'.
    pub(crate) fn rates(&self, whose: Whose) -> ApiRates {
        let state = self.state();
        let latest = state.overridden.iter().rfind(|(_, of, _)| *of == whose);
        latest.map(|(.., rates)| *rates).or_else(|| state.rates.get(&whose).copied()).unwrap_or_default()
    }

    /// These are the rates from now on. Faults of them are over.
    pub(crate) fn set_rates(&self, whose: Whose, rates: ApiRates) {
        let mut state = self.state();
        state.overridden.retain(|(_, of, _)| *of != whose);
        state.rates.insert(whose, rates);
    }

    /// A fault with these rates begins. Its number, by which it ends.
    pub(crate) fn override_rates(&self, whose: Whose, rates: ApiRates) -> u64 {
        let mut state = self.state();
        state.overrides += 1;
        let number = state.overrides;
        state.overridden.push((number, whose, rates));
        number
    }

    /// The fault is over, whichever others last.
    pub(crate) fn restore_rates(&self, number: u64) {
        self.state().overridden.retain(|(other, ..)| *other != number);
    }

    pub(crate) fn lag(&self, place: Place) -> Duration {
        self.state().lags.get(&place).copied().unwrap_or_default()
    }

    /// Has the watches of the place show everything so much later.
    pub(crate) fn set_lag(&self, place: Place, lag: Duration) {
        self.state().lags.insert(place, lag);
    }

    /// How many writes ago the state is that lists of the place show where any will do.
    pub(crate) fn behind(&self, place: Place) -> u64 {
        self.state().behind.get(&place).copied().unwrap_or_default()
    }

    /// Has lists of the place show a state of so many writes ago where any will do.
    pub(crate) fn set_behind(&self, place: Place, writes: u64) {
        self.state().behind.insert(place, writes);
    }

    /// Breaks every connection between the place and the API server.
    pub(crate) fn reset(&self, place: Place) {
        self.state().resets.entry(place).or_default().send_modify(|resets| *resets += 1);
    }

    /// Changes when the place's connections are reset.
    pub(crate) fn resets(&self, place: Place) -> watch::Receiver<u64> {
        self.state().resets.entry(place).or_default().subscribe()
    }

    /// Counts a fault that a request met.
    pub(crate) fn met(&self, fault: &'static str) {
        *self.state().met.entry(fault).or_default() += 1;
    }

    /// Faults that requests met, by kind.
    pub(crate) fn faults(&self) -> BTreeMap<&'static str, u64> {
        self.state().met.clone()
    }

    /// Counts a request that changes something.
    pub(crate) fn wrote(&self, part: &Arc<str>) {
        *self.state().writes.entry(Arc::clone(part)).or_default() += 1;
    }

    /// Requests that change something, by part.
    pub(crate) fn writes(&self) -> BTreeMap<Arc<str>, u64> {
        self.state().writes.clone()
    }

    /// Counts a request that changes nothing.
    pub(crate) fn read(&self, part: &Arc<str>) {
        *self.state().reads.entry(Arc::clone(part)).or_default() += 1;
    }

    /// Requests that change nothing, by part.
    pub(crate) fn reads(&self) -> BTreeMap<Arc<str>, u64> {
        self.state().reads.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_that_overlap_end_each_by_itself() {
        let conditions = Conditions::default();
        let of = |internal| ApiRates { internal, ..ApiRates::default() };
        let now = || conditions.rates(Whose::Suite).internal;
        conditions.set_rates(Whose::Suite, of(0.1));
        let first = conditions.override_rates(Whose::Suite, of(0.5));
        let second = conditions.override_rates(Whose::Suite, of(0.9));
        assert_eq!(now(), 0.9);
        conditions.restore_rates(first);
        assert_eq!(now(), 0.9, "the second lasts");
        conditions.restore_rates(second);
        assert_eq!(now(), 0.1);
        let last = conditions.override_rates(Whose::Suite, of(0.5));
        conditions.set_rates(Whose::Suite, of(0.0));
        conditions.restore_rates(last);
        assert_eq!(now(), 0.0, "a rest ends them all");
    }
}
