//! The faults of a Node's annotation: those that begin at once are part of what is applied, the others run on a thread of their
//! own. Called by [`super::Keeper`] and [`super::apply`].

use crate::Machine;
use crate::fault::{FaultError, FaultSpec, Schedule, Stop};

/// Makes the faults in force those that are wanted, as far as they begin at once and do not end by themselves. What others than the
/// annotation have broken stays.
///
/// # Errors
/// A fault that the machine cannot have, or that contradicts another one; the file system's refusal.
pub(super) fn reconcile(
    machine: &Machine,
    before: &[FaultSpec],
    wanted: &[FaultSpec],
) -> Result<(), FaultError> {
    wanted.iter().try_for_each(|spec| machine.check_fault(spec))?;
    let standing = machine.faults()?.faults;
    let is_over = |spec: &FaultSpec| before.contains(spec) && !wanted.contains(spec);
    for fault in standing.iter().filter(|fault| fault.spec.is_immediate() && is_over(&fault.spec)) {
        machine.lift(fault.id)?;
    }
    let stands = |spec: &FaultSpec| standing.iter().any(|fault| fault.spec == *spec);
    let is_due = |spec: &&FaultSpec| {
        let once = spec.fault.happens_once();
        let done = if once { before.contains(spec) } else { stands(spec) };
        spec.is_immediate() && spec.strikes() && !done
    };
    wanted.iter().filter(is_due).try_for_each(|spec| machine.strike(spec).map(drop))
}

/// The faults that strike later or end by themselves, while they run. A keeper that starts anew begins their times anew.
#[derive(Default)]
pub(super) struct Timed {
    faults: Vec<FaultSpec>,
    running: Option<(Stop, tokio::task::JoinHandle<()>)>,
}

impl Timed {
    /// Ends what runs, and lifts what it has struck, unless these faults are the ones that run.
    pub(super) async fn end_unless(&mut self, wanted: &[FaultSpec]) {
        if self.faults.iter().eq(timed(wanted)) {
            return;
        }
        self.end().await;
    }

    /// Ends what runs, and lifts what it has struck.
    pub(super) async fn end(&mut self) {
        self.faults.clear();
        if let Some((stop, running)) = self.running.take() {
            stop.ask();
            // It reports its own errors.
            let _ = running.await;
        }
    }

    /// Begins these faults' times, unless they run.
    pub(super) fn begin(&mut self, machine: Machine, wanted: &[FaultSpec]) {
        let faults: Vec<FaultSpec> = timed(wanted).cloned().collect();
        if faults.is_empty() || faults == self.faults {
            return;
        }
        self.faults.clone_from(&faults);
        let stop = Stop::default();
        let ends = stop.clone();
        let run = move || {
            let told = |due, spec: &FaultSpec, _| tracing::info!(fault = %spec.fault, ?due, "a fault's time has come");
            if let Err(reason) = Schedule::new(faults).run(&machine, &ends, told) {
                tracing::error!(%reason, "a fault could not be carried out in its time");
            }
        };
        self.running = Some((stop, tokio::task::spawn_blocking(run)));
    }
}

fn timed(faults: &[FaultSpec]) -> impl Iterator<Item = &FaultSpec> {
    faults.iter().filter(|spec| !spec.is_immediate())
}
