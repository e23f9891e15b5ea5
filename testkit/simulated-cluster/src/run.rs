//! Runs a plan from its beginning to its end, or to the first violation that nobody knows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use simulator::executor::Order;
use simulator::trace::Sink;
use simulator::{How, Options, POLL_LIMIT, Simulation};
use tokio::time::{Instant, sleep, sleep_until};

use crate::observer::{Known, Seen, Violation, Violations, without_numbers};
use crate::plan::{Event, EventSource, Plan};
use crate::suite::Suite;
use crate::watcher::Counts;
use crate::world::World;

/// The invariant that every poll returns, with which the signatures of its violations begin. Nothing ends what does not return: a
/// plan that shows it cannot be tried again and again in one process.
pub const STUCK: &str = "stuck";

/// The grace of the pods of a known violation, in seconds.
const HEAL_GRACE: u32 = 1;

/// Is told how far a run is.
pub type TellProgress = Box<dyn FnMut(&Summary) + Send>;

/// How a plan is run.
pub struct RunOptions {
    /// Violations that are known: they are counted, and the run goes on from a cluster that is well again.
    pub known: Vec<Known>,
    /// Where events go, if anybody reads them.
    pub trace: Option<Sink>,
    /// How long a poll may take in real time; one that takes longer ends the run.
    pub poll_limit: Duration,
    /// Is told, every ten simulated minutes or when the next thing happens after them, how far the run is.
    pub progress: Option<TellProgress>,
    /// The bug that the programs have.
    #[cfg(planted)]
    pub planted: Option<String>,
}

impl Default for RunOptions {
    /// Nothing is known, nobody looks on, and a poll may take a minute.
    fn default() -> Self {
        Self {
            known: Vec::new(),
            trace: None,
            poll_limit: POLL_LIMIT,
            progress: None,
            #[cfg(planted)]
            planted: None,
        }
    }
}

/// Simulated time after which it is told how far a run is.
const TELL: Duration = Duration::from_secs(600);
/// Simulated time until a panic ends the run at the latest.
const PANICS_SEEN: Duration = Duration::from_secs(10);

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// The Kubernetes version that the cluster was.
    pub kubernetes: String,
    /// Simulated time, in seconds.
    pub seconds: u64,
    /// Pods that were made.
    pub created: u64,
    /// Pods that were bound to a node.
    pub placed: u64,
    /// Pods that failed their admission.
    pub refused: u64,
    /// Pods that ended or were deleted.
    pub ended: u64,
    /// Processes that were killed or ended, and started again.
    pub restarts: u64,
    /// Processes that were killed.
    pub kills: u64,
    /// Kills of the plan that never came, in words: the part had fewer polls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missed_kills: Vec<String>,
    /// Faults, by kind.
    pub faults: BTreeMap<String, u64>,
    /// How often something was judged, or could not be, by what it was.
    pub judged: BTreeMap<String, u64>,
    /// What must not be, by signature.
    pub violations: Violations,
    /// Signatures that nobody knows.
    pub unknown: Vec<String>,
    /// How often recovery branches were reached.
    pub branches: BTreeMap<String, u64>,
    /// The same for two runs that were the same; hexadecimal.
    pub hash: String,
    /// Events of the trace.
    pub events: u64,
}

/// Runs a plan. `source` says what happens.
///
/// # Errors
/// The plan asks for what cannot be; the trace could not be written.
pub fn run(
    plan: &Plan,
    source: Box<dyn EventSource>,
    suite: Arc<dyn Suite>,
    options: RunOptions,
) -> anyhow::Result<Summary> {
    if let Some(problem) = plan.problem_with(&*suite) {
        anyhow::bail!(problem);
    }
    let RunOptions { known, trace, poll_limit, progress, .. } = options;
    let order = if plan.settings.seeded_order { Order::Seeded } else { Order::ByAge };
    let simulated = Options {
        seed: plan.seed,
        order,
        trace,
        events: fake_cluster::CALLS,
        kills: plan.kills.clone(),
        poll_limit,
    };
    let (kills, kubernetes) = (plan.kills.clone(), plan.kubernetes.clone());
    let (plan, known_there) = (plan.clone(), known.clone());
    let finished = simulator::run(simulated, move |simulation| {
        // This is the simulation's own thread.
        #[cfg(planted)]
        runtime::plant(options.planted);
        let run = Run { simulation, plan, suite, known: known_there, progress };
        run.carry_out(source)
    });
    if let Some(error) = finished.trace_error {
        anyhow::bail!("the trace could not be written: {error}");
    }
    let mut summary = match finished.result {
        Some(result) => result?,
        None => Summary::default(),
    };
    summary.kubernetes = kubernetes;
    summary.seconds = finished.elapsed.as_secs();
    summary.restarts = finished.activity.values().map(|part| part.starts.saturating_sub(1)).sum();
    for (part, poll) in &kills {
        let polls = finished.activity.get(part).map_or(0, |activity| activity.polls);
        if polls < *poll {
            let missed = format!("{part} was not killed before its poll {poll}: it had {polls}");
            summary.missed_kills.push(missed);
        }
    }
    for (part, activity) in &finished.activity {
        summary.kills += activity.kills;
        if activity.kills_by_poll > 0 {
            *summary.faults.entry(format!("kill {}", kind(part))).or_default() += activity.kills_by_poll;
        }
    }
    summary.hash = format!("{:016x}", finished.hash);
    summary.events = finished.events;
    summary.branches = finished.branches.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
    let first = finished.elapsed.as_millis() as u64;
    let mut ends_with = |signature: String, text: String| {
        let last_events = finished.last_events.clone();
        let seen = || Seen { count: 0, first, text, last_events };
        summary.violations.0.entry(signature).or_insert_with(seen).count += 1;
    };
    for panic in finished.panics {
        let signature = format!("panic: {}: {}", kind(&panic.part), without_numbers(&panic.message));
        ends_with(signature, format!("{} panicked at {}: {}", panic.part, panic.location, panic.message));
    }
    if let Some(stuck) = finished.stuck {
        let what = match &stuck.how {
            How::PollDoesNotReturn { .. } => "a poll does not return",
            How::TimeStandsStill { .. } => "time stands still",
        };
        ends_with(format!("{STUCK}: {}: {what}", kind(&stuck.part)), stuck.to_string());
    }
    let is_unknown = |signature: &&String| !known.iter().any(|known| known.is(signature));
    summary.unknown = summary.violations.0.keys().filter(is_unknown).cloned().collect();
    Ok(summary)
}

/// The part's name without its place.
fn kind(part: &str) -> &str {
    part.split('/').next().unwrap_or_default()
}

struct Run {
    simulation: Simulation,
    plan: Plan,
    suite: Arc<dyn Suite>,
    known: Vec<Known>,
    progress: Option<TellProgress>,
}

impl Run {
    async fn carry_out(mut self, mut source: Box<dyn EventSource>) -> anyhow::Result<Summary> {
        let began = Instant::now();
        let world = World::start(self.simulation.clone(), &self.plan, Arc::clone(&self.suite))?;
        let end = Duration::from_secs(self.plan.seconds);
        let mut told = Duration::ZERO;
        while let Some(events) = source.next_hour() {
            for event in events {
                if !self.happens(&world, event, began).await {
                    return Ok(self.summary(&world));
                }
                if began.elapsed() >= told + TELL {
                    told = began.elapsed();
                    self.tell(&world);
                }
            }
        }
        self.goes_well(&world, sleep_until(began + end)).await;
        Ok(self.summary(&world))
    }

    fn tell(&mut self, world: &Arc<World>) {
        let summary = self.summary(world);
        if let Some(progress) = &mut self.progress {
            progress(&summary);
        }
    }

    /// Carries an event out. Whether the run goes on.
    async fn happens(&self, world: &Arc<World>, event: Event, began: Instant) -> bool {
        self.goes_well(world, world.happens(event, began)).await
    }

    /// Waits for `what`. Whether nothing unknown was seen meanwhile.
    async fn goes_well(&self, world: &Arc<World>, what: impl Future<Output = ()>) -> bool {
        let mut violations = world.watcher.violations();
        let mut what = std::pin::pin!(what);
        loop {
            let fresh = std::mem::take(&mut world.watcher.state().fresh);
            for violation in fresh {
                let signature = violation.signature();
                if !self.known.iter().any(|known| known.is(&signature)) {
                    return false;
                }
                self.heal(world, &violation);
            }
            if self.simulation.panics() > 0 {
                return false;
            }
            tokio::select! {
                biased;
                Ok(()) = violations.changed() => {}
                () = what.as_mut() => return true,
                // Nobody is told of a panic.
                () = sleep(PANICS_SEEN) => {}
            }
        }
    }

    /// Deletes the pods of a known violation. Deletion by force would repeat it without end: a StatefulSet's next pod would meet
    /// the containers of the one before.
    fn heal(&self, world: &Arc<World>, violation: &Violation) {
        for pod in &violation.pods {
            self.simulation.event("observer", format_args!("heals by deleting {pod}"));
            if let Some((_, name)) = pod.split_once('/') {
                let (world, name) = (Arc::clone(world), name.to_owned());
                let again = Arc::clone(&world);
                world.spawn(async move {
                    again.delete(&name, Some(HEAL_GRACE)).await;
                });
            }
        }
    }

    fn summary(&self, world: &World) -> Summary {
        let state = world.watcher.state();
        let Counts { created, placed, refused, ended } = state.counts;
        let mut faults = world.faults();
        faults.extend(world.conditions.faults().into_iter().map(|(name, count)| (name.to_owned(), count)));
        Summary {
            seconds: self.simulation.elapsed().as_secs(),
            created,
            placed,
            refused,
            ended,
            faults,
            judged: state.judged.iter().map(|(what, count)| ((*what).to_owned(), *count)).collect(),
            violations: state.violations.clone(),
            ..Summary::default()
        }
    }
}
