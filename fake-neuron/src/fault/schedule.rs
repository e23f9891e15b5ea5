//! Faults in time: which strikes when and which is lifted when, and a run of that on a machine. Run by `fake-neuron fault`,
//! by `exec` on a thread of its own and by `node`.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{FaultError, FaultSpec};
use crate::Machine;

/// Some faults, each with its time and its chance.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schedule {
    /// What strikes, in time; equal times in the order of the list.
    due: Vec<(Duration, Due)>,
    specs: Vec<FaultSpec>,
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// The fault at this place of the list is lifted.
    Lift(usize),
    /// The fault at this place of the list strikes.
    Strike(usize),
}

impl Schedule {
    /// What happens when, counted from a start. A fault whose draw says no never happens.
    pub fn new(specs: Vec<FaultSpec>) -> Schedule {
        let mut due = Vec::new();
        for (place, spec) in specs.iter().enumerate().filter(|(_, spec)| spec.strikes()) {
            due.push((spec.after, Due::Strike(place)));
            if let Some(lasts) = spec.lasts {
                due.push((spec.after.saturating_add(lasts), Due::Lift(place)));
            }
        }
        // At one moment what ends makes room for what begins; but a fault begins before it ends.
        due.sort_by_key(|(at, due)| match due {
            Due::Strike(place) if specs[*place].lasts == Some(Duration::ZERO) => (*at, 0, *place),
            Due::Lift(place) => (*at, 1, *place),
            Due::Strike(place) => (*at, 2, *place),
        });
        Schedule { due, specs }
    }

    /// The faults, in the order given.
    pub fn faults(&self) -> &[FaultSpec] {
        &self.specs
    }

    /// What happens, in order, each with its time since the start.
    pub fn due(&self) -> &[(Duration, Due)] {
        &self.due
    }

    /// When the last thing has happened, since the start.
    pub fn end(&self) -> Duration {
        self.due.last().map(|(at, _)| *at).unwrap_or_default()
    }

    /// Carries the faults out on `machine`, each at its time from now on, and returns when all has happened. Told to stop, it
    /// lifts what it has struck and forgets what is still to come. `told` hears of each thing that happened, with the fault's id if it has
    /// one.
    ///
    /// # Errors
    /// Before anything happens: a fault that the machine cannot have. Later: one that cannot be carried out or lifted; those that
    /// stand are lifted then.
    pub fn run(
        &self,
        machine: &Machine,
        stop: &Stop,
        mut told: impl FnMut(Due, &FaultSpec, Option<u32>),
    ) -> Result<(), FaultError> {
        self.specs.iter().try_for_each(|spec| machine.check_fault(spec))?;
        let start = Instant::now();
        let mut ids = BTreeMap::new();
        let result = self.announce(machine, &mut ids).and_then(|()| {
            for (at, due) in &self.due {
                if stop.wait_until(start + *at) {
                    break;
                }
                let id = self.carry_out(machine, *due, &mut ids)?;
                told(*due, self.spec(*due), id);
            }
            Ok(())
        });
        if result.is_err() || stop.is_asked() {
            for id in ids.values() {
                ignore_cleared(machine.lift(*id))?;
            }
        }
        result
    }

    fn announce(&self, machine: &Machine, ids: &mut BTreeMap<usize, u32>) -> Result<(), FaultError> {
        for (at, due) in &self.due {
            if let Due::Strike(place) = due
                && !at.is_zero()
            {
                ids.insert(*place, machine.announce(&self.specs[*place])?);
            }
        }
        Ok(())
    }

    fn carry_out(
        &self,
        machine: &Machine,
        due: Due,
        ids: &mut BTreeMap<usize, u32>,
    ) -> Result<Option<u32>, FaultError> {
        match due {
            Due::Strike(place) => {
                let spec = &self.specs[place];
                let struck = match ids.remove(&place) {
                    Some(id) => machine.strike_announced(spec, id),
                    None => machine.strike(spec),
                };
                match struck {
                    // Cleared before its time.
                    Err(FaultError::NoFault { .. }) => Ok(None),
                    other => other.inspect(|id| ids.extend(id.map(|id| (place, id)))),
                }
            }
            Due::Lift(place) => {
                let id = ids.remove(&place);
                id.map_or(Ok(()), |id| ignore_cleared(machine.lift(id))).map(|()| id)
            }
        }
    }

    fn spec(&self, due: Due) -> &FaultSpec {
        match due {
            Due::Lift(place) | Due::Strike(place) => &self.specs[place],
        }
    }
}

/// Somebody else has cleared the fault, which is as good.
fn ignore_cleared(lifted: Result<(), FaultError>) -> Result<(), FaultError> {
    match lifted {
        Err(FaultError::NoFault { .. }) => Ok(()),
        other => other,
    }
}

/// By which another thread ends a [`Schedule::run`] or a load early.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<(Mutex<bool>, Condvar)>);

impl Stop {
    /// Asks for the end.
    pub fn ask(&self) {
        let (asked, changed) = &*self.0;
        *asked.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
    }

    /// Whether the end was asked for.
    pub fn is_asked(&self) -> bool {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `at` or until the end is asked for. Whether it was.
    pub fn wait_until(&self, at: Instant) -> bool {
        let (asked, changed) = &*self.0;
        let asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
        let left = at.saturating_duration_since(Instant::now());
        let waited = changed.wait_timeout_while(asked, left, |asked| !*asked);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}
