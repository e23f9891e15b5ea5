//! Runs a simulation on a thread of its own.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use runtime::BranchCounts;
use tokio::runtime::Builder;
use tokio::task::coop::unconstrained;

use super::{Options, Simulation};
use crate::executor::Executor;
use crate::logs::Logs;
use crate::panics::{self, Panic};
use crate::parts::{Activity, Parts};
use crate::process::Shared;
use crate::time::Clock;
use crate::trace::Trace;
use crate::watchdog::{Stuck, Watchdog};

/// Stack of the simulating thread, in bytes: as a main thread has, for which the programs are made. A thread's usual 2 MiB are too
/// few for the futures of a debug build.
const STACK: usize = 8 << 20;

/// What came of a simulation.
#[derive(Debug)]
pub struct Finished<T> {
    /// What the main future returned; none if it panicked, waited for what can never come, or a poll did not return.
    pub result: Option<T>,
    /// The same for two runs that were the same.
    pub hash: u64,
    /// Number of events.
    pub events: u64,
    /// The last events, in words, the latest last.
    pub last_events: Vec<String>,
    /// Simulated time.
    pub elapsed: Duration,
    /// What did not end, if something did not. What only its thread knows is missing: panics and branches.
    pub stuck: Option<Stuck>,
    /// Every panic, in order.
    pub panics: Vec<Panic>,
    /// What each part has done.
    pub activity: BTreeMap<String, Activity>,
    /// How often recovery branches were reached.
    pub branches: BranchCounts,
    /// Why the trace could not be written, if it could not.
    pub trace_error: Option<String>,
}

/// Runs a simulation to the end of its main future, on a thread of its own: what a thread has done before must not matter. Nothing
/// ends a thread whose poll does not return: it is left behind, until the poll returns after all or the process ends.
pub fn run<T, F>(options: Options, main: impl FnOnce(Simulation) -> F + Send + 'static) -> Finished<T>
where
    T: Send + 'static,
    F: Future<Output = T>,
{
    let (seed, order, limit) = (options.seed, options.order, options.poll_limit);
    let clock = Clock::default();
    let trace = Trace::new(clock.clone(), options.trace);
    let shared = Arc::new(Shared::new(seed, clock, trace, Parts::new(options.kills)));
    let of_thread = Arc::clone(&shared);
    let watchdog = Arc::new(Watchdog::default());
    let watched = Arc::clone(&watchdog);
    let (end, ended) = mpsc::sync_channel::<()>(0);
    let thread = thread::Builder::new().name(format!("simulation {seed}")).stack_size(STACK);
    #[allow(clippy::disallowed_methods, reason = "the simulation's one thread")]
    let simulated = thread.spawn(move || {
        // Dropped with everything else of the thread, also by a panic.
        let _end = end;
        let shared = of_thread;
        let edge = libc_edge::enter(shared.stream("process edge").u64(..));
        fastrand::seed(shared.stream("fastrand").u64(..));
        runtime::count_branches();
        panics::catch_on_this_thread();
        let _logs = tracing::subscriber::set_default(Logs::new(Arc::clone(&shared), options.events));
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let result = runtime.ok().and_then(|runtime| {
            let simulation = Simulation::new(Arc::clone(&shared));
            let work = async move {
                let main = main(simulation);
                unconstrained(Executor::new(shared, watched, edge, main, order)).await
            };
            catch_unwind(AssertUnwindSafe(|| runtime.block_on(work))).ok().flatten()
        });
        (result, runtime::counted_branches(), panics::caught_on_this_thread())
    });
    let stuck = watchdog.wait(&ended, limit);
    let stuck = stuck.map(|(part, how)| Stuck { part: shared.parts.name(part).to_string(), how });
    let (result, branches, panics) = match simulated {
        // A thread whose poll does not return has no end.
        Ok(thread) if !stuck.as_ref().is_some_and(Stuck::is_in_a_poll) => thread.join().unwrap_or_default(),
        _ => Default::default(),
    };
    let Shared { trace, parts, clock, .. } = &*shared;
    let trace_error = trace.finish();
    Finished {
        result,
        hash: trace.hash(),
        events: trace.events(),
        last_events: trace.last(),
        elapsed: clock.elapsed(),
        stuck,
        panics: panics.into_iter().map(|panic| panic.of_part(parts)).collect(),
        activity: parts.activity(),
        branches,
        trace_error,
    }
}
