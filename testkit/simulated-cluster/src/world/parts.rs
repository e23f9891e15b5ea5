//! One part of the cluster, which is started again whenever it ends.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use simulator::Process;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{World, locked};
use crate::observer::{Violation, without_numbers};
use crate::plan::Place;
use crate::watcher::Watcher;

/// How long a part may take to end that was asked to (`terminationGracePeriodSeconds`).
const GRACE: Duration = Duration::from_secs(30);

/// Starts a part in a process at a place; it runs until the future ends, which it may where it was asked to.
pub(super) type PartStart =
    Arc<dyn Fn(Process, Place, CancellationToken) -> BoxFuture<'static, anyhow::Result<()>> + Send + Sync>;

/// A part at its place.
pub(super) struct Part {
    pub(super) name: String,
    pub(super) place: Place,
    /// Whether it runs beside another one of it, on the same host.
    is_beside: bool,
    start: PartStart,
    watcher: Arc<Watcher>,
    running: Mutex<Vec<Process>>,
    /// Asks what runs of it to end.
    shutdown: Mutex<CancellationToken>,
    /// Number of reasons for which it may not run now: its host has no power, or nobody starts it.
    held_back: watch::Sender<u32>,
    /// How far its wall clock is ahead, in nanoseconds.
    skew: Mutex<i64>,
}

impl Part {
    pub(super) fn new(name: &str, place: Place, start: PartStart, watcher: Arc<Watcher>) -> Self {
        Self {
            name: name.to_owned(),
            place,
            is_beside: false,
            start,
            watcher,
            running: Mutex::default(),
            shutdown: Mutex::default(),
            held_back: watch::Sender::new(0),
            skew: Mutex::new(0),
        }
    }

    /// What is said to be done to it: with the node's name, where every node has one.
    pub(super) fn full_name(&self) -> String {
        match self.place {
            Place::Node(_) => format!("{}/{}", self.name, self.place),
            Place::ApiServer | Place::Scheduler | Place::Control | Place::SecondControl => self.name.clone(),
        }
    }

    /// What its processes are counted as, and draw as: of two that run at one time each has a name.
    fn process_name(&self) -> String {
        let name = self.place.process_name(&self.name);
        if self.is_beside { format!("{name}/beside") } else { name }
    }

    /// Starts it, and again whenever it has ended.
    pub(super) async fn supervise(self: Arc<Self>, world: Arc<World>) {
        let mut draws = world.simulation.stream(&format!("restarts {}", self.process_name()));
        let mut held_back = self.held_back.subscribe();
        while held_back.wait_for(|reasons| *reasons == 0).await.is_ok() {
            self.run(&world).await;
            let (shortest, longest) = world.settings.restart_milliseconds;
            sleep(Duration::from_millis(draws.u64(u64::from(shortest)..=u64::from(longest)))).await;
        }
    }

    /// Runs one process of it to its end.
    pub(super) async fn run(&self, world: &World) {
        let process = world.host(self.place).process(&self.process_name());
        process.set_skew(*locked(&self.skew));
        locked(&self.running).push(process.clone());
        self.is_disturbed();
        let shutdown = CancellationToken::new();
        *locked(&self.shutdown) = shutdown.clone();
        let main = process.system().spawn((self.start)(process.clone(), self.place, shutdown.clone()));
        let overdue = async {
            shutdown.cancelled().await;
            sleep(GRACE).await;
        };
        tokio::select! {
            biased;
            () = process.ended() => {}
            () = overdue => process.kill(),
            ended = main => {
                let is_fine = matches!(ended, Ok(Ok(())));
                let reason = match ended {
                    Ok(Ok(())) => "it returned".to_owned(),
                    Ok(Err(error)) => format!("{error:#}"),
                    Err(ended) => ended.to_string(),
                };
                process.exit();
                if !(shutdown.is_cancelled() && is_fine) {
                    self.ended_by_itself(world, &reason);
                }
            }
        }
        locked(&self.running).retain(|running| !running.has_ended());
        self.is_disturbed();
    }

    fn ended_by_itself(&self, world: &World, reason: &str) {
        world.watcher.violation(Violation {
            invariant: "runs",
            cause: format!("{} ended by itself: {}", self.name, without_numbers(reason)),
            text: format!("{} ended by itself: {reason}", self.process_name()),
            pods: Vec::new(),
        });
    }

    /// Tells the observer that something was done to it just now, or that it may not run.
    pub(super) fn is_disturbed(&self) {
        let is_held_back = *self.held_back.borrow() > 0;
        let at = if is_held_back { Duration::MAX } else { self.watcher.state().truth.now };
        self.watcher.disturbs(self.full_name(), at);
    }

    /// Another one of it, which nobody starts again.
    pub(super) fn beside(&self) -> Self {
        let (place, is_beside) =
            if self.place == Place::Control { (Place::SecondControl, false) } else { (self.place, true) };
        let part = Self::new(&self.name, place, Arc::clone(&self.start), Arc::clone(&self.watcher));
        Self { is_beside, ..part }
    }

    /// Whether a process of it runs.
    pub(super) fn runs(&self) -> bool {
        locked(&self.running).iter().any(|process| !process.has_ended())
    }

    /// Kills what runs of it.
    pub(super) fn kill(&self) {
        self.each(Process::kill);
        // Nobody waits for the end of one that ran beside another.
        self.is_disturbed();
    }

    /// Kills what runs of it once its tasks were polled so many times more.
    pub(super) fn kill_after(&self, polls: u64) {
        self.each(|process| process.kill_after(polls));
    }

    /// Asks what runs of it to end.
    pub(super) fn stop(&self) {
        locked(&self.shutdown).cancel();
        self.is_disturbed();
    }

    /// Stops what runs of it where it is.
    pub(super) fn freeze(&self) {
        self.each(Process::freeze);
        self.watcher.disturbs(self.full_name(), Duration::MAX);
    }

    /// Lets what is frozen of it go on.
    pub(super) fn thaw(&self) {
        self.each(Process::thaw);
        self.is_disturbed();
    }

    /// Sets how far its wall clock is ahead, in nanoseconds, for this process and those to come.
    pub(super) fn set_skew(&self, nanoseconds: i64) {
        *locked(&self.skew) = nanoseconds;
        self.each(|process| process.set_skew(nanoseconds));
    }

    /// It is not started again until [`Part::let_run`] was called as often as this.
    pub(super) fn hold_back(&self) {
        self.held_back.send_modify(|reasons| *reasons += 1);
    }

    /// One reason for which it may not run is over.
    pub(super) fn let_run(&self) {
        self.held_back.send_modify(|reasons| *reasons = reasons.saturating_sub(1));
    }

    /// Kills what runs of it, and nobody starts it again for now.
    pub(super) fn goes_away(&self) {
        self.hold_back();
        self.kill();
    }

    fn each(&self, change: impl Fn(&Process)) {
        let running = locked(&self.running).clone();
        running.iter().for_each(change);
    }
}
