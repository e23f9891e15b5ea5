//! Keeps what others read in line with reality: follows kubelet's checkpoint, writes the node report, corrects records. Runs after every change, and never in the way of an answer to kubelet. Started by `run`.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::Client;
use neuron_core::ids::{CoreSet, DeviceSet};
use runtime::reached;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;

use crate::allocation::engine::Engine;
use crate::config::Config;
use crate::hardware::machine::Machine;
use crate::kubelet::folder::PluginFolder;
use crate::report::absence::{Absence, is_long_ago};
use crate::report::failure::{Failure, Failures};
use crate::report::node_report::{Reporter, node_report, waits_until};
use crate::report::records::correct;
use crate::status::Status;

/// First and longest pause before what failed is tried again.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));

/// The API server, in the status.
const API_SERVER: &str = "API server";
/// kubelet's checkpoint, in the status.
pub(crate) const CHECKPOINT: &str = "checkpoint";

/// Why the node report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Occasion {
    /// It may have changed.
    Look,
    /// It may be gone from the Node.
    Interval,
    /// The node's Lease had expired. kube-scheduler hears of no Lease and would try the pods again that were refused for it minutes later;
    /// a report of another time is a change of the Node, after which it tries them.
    Revival,
}

/// The upkeep of one node.
pub struct Upkeep {
    engine: Arc<Engine>,
    folder: PluginFolder,
    poll: Duration,
    reporter: Reporter,
    node: String,
    /// The rules of this plugin's catalog and policy.
    rules: String,
    report_interval: Duration,
    /// How long the API server or kubelet's checkpoint may be away before `/healthz` says so.
    absence_limit: Duration,
    status: Arc<Status>,
    /// Of the API server and of the checkpoint.
    absences: Mutex<[Absence; 2]>,
    failures: Mutex<Failures>,
    /// Told when the node's Lease is renewed after it had expired.
    pub(crate) revived: Arc<Notify>,
    /// The devices that the node report calls unhealthy.
    pub(crate) reported: watch::Sender<DeviceSet>,
}

impl Upkeep {
    /// The upkeep of the engine's node.
    pub fn new(
        engine: Arc<Engine>,
        folder: PluginFolder,
        config: &Config,
        rules: String,
        client: Client,
        status: Arc<Status>,
    ) -> Self {
        Upkeep {
            engine,
            folder,
            poll: config.poll,
            reporter: Reporter::new(client, &config.node_name, config.api_timeout),
            node: config.node_name.clone(),
            rules,
            report_interval: config.report_interval,
            absence_limit: config.absence_limit,
            status,
            absences: Mutex::default(),
            failures: Mutex::default(),
            revived: Arc::default(),
            reported: watch::Sender::default(),
        }
    }

    /// Looks after every change, until `shutdown`.
    pub async fn run(&self, shutdown: CancellationToken) {
        let (mut pods, mut folder) = (self.engine.pods.changes(), self.folder.clone());
        let mut machine = self.engine.machine.subscribe();
        let (mut wait, mut retry_at) = (Duration::ZERO, Some(Instant::now()));
        // The first look writes the report.
        let mut report_again = interval_at(Instant::now() + self.report_interval, self.report_interval);
        report_again.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let retry = async {
                match retry_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // The report before the changes: it comes seldom, and changes may never end. These all lead to one look.
                biased;
                () = shutdown.cancelled() => return,
                // A Node that was deleted and made anew has no report, and nobody tells the plugin.
                _ = report_again.tick() => {
                    tokio::select! {
                        biased;
                        () = shutdown.cancelled() => return,
                        () = self.report_again(Occasion::Interval) => continue,
                    }
                }
                () = self.revived.notified() => {
                    tokio::select! {
                        biased;
                        () = shutdown.cancelled() => return,
                        () = self.report_again(Occasion::Revival) => continue,
                    }
                }
                () = retry => {}
                () = self.engine.changed.notified() => {}
                Ok(()) = pods.changed() => {}
                Ok(()) = machine.changed() => {}
                () = self.checkpoint_changed(&mut folder) => {}
            }
            // What woke this may be an answer to kubelet, which goes out first.
            tokio::task::yield_now().await;
            let done = tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                done = self.look() => done,
            };
            if !done {
                reached("plugin: upkeep tried again");
            }
            wait = if done { Duration::ZERO } else { (wait * 2).clamp(RETRY.0, RETRY.1) };
            retry_at = if done { self.next_look() } else { Some(Instant::now() + wait) };
        }
    }

    /// When to look again though nothing changes.
    fn next_look(&self) -> Option<Instant> {
        let machine = self.engine.machine();
        let offered = self.offered();
        let report_waits = machine.and_then(|machine| waits_until(&machine, offered));
        let live_pods = self.engine.state().ledger.needs_live_pods_at(Instant::now());
        self.engine.withdraw_again_at().into_iter().chain(report_waits).chain(live_pods).min()
    }

    /// The cores that kubelet offers, where that is known. What is withdrawn is held, and not offered for that reason alone.
    fn offered(&self) -> Option<CoreSet> {
        let offered = self.engine.state().offered;
        offered.map(|offered| offered.union(self.engine.withdrawn()))
    }

    /// Learns what pods hold from before this plugin started, as far as kubelet and the API server tell it in time.
    pub async fn adopt(&self) {
        if let Some(machine) = self.engine.machine() {
            let failed = self.follow(&machine).await;
            self.engine.withdraw(&machine);
            self.log_news(failed);
        }
    }

    /// Returns once kubelet may have written something down. It waits first: a file that cannot be read always may have changed.
    async fn checkpoint_changed(&self, folder: &mut PluginFolder) {
        loop {
            tokio::select! {
                // Both lead to the same look.
                biased;
                () = tokio::time::sleep(self.poll) => {}
                () = folder.changed() => {}
            }
            if self.engine.checkpoint.has_changed().await {
                return;
            }
        }
    }

    /// One look; whether everything is in line now.
    async fn look(&self) -> bool {
        let mut changed = self.engine.machine.subscribe();
        let Some(machine) = self.engine.machine() else { return true };
        self.report_losses().await;
        let mut failed = {
            let mut follow = pin!(self.follow(&machine));
            loop {
                tokio::select! {
                    biased;
                    failed = &mut follow => break failed,
                    // A loss is told at once, whatever the look waits for.
                    Ok(()) = changed.changed() => self.report_losses().await,
                }
            }
        };
        let Some(machine) = self.engine.machine() else { return true };
        self.engine.withdraw(&machine);
        // The report first: where two records overlap for a moment, it says which one counts.
        failed.extend(self.report(&machine, Occasion::Look).await.err());
        tokio::select! {
            biased;
            uncorrected = correct(&self.engine, &self.node, &machine) => failed.extend(uncorrected),
            // A loss is told at once, whatever a correction waits for; the next look, which comes now, goes on with those.
            Ok(()) = changed.changed() => reached("plugin: correction put off for a change of the machine"),
        }
        let done = !failed.iter().any(|failure| failure.retry);
        self.log_news(failed);
        self.judge_absences();
        done
    }

    /// Reports devices that were lost since the last report, which waits neither for kubelet's file nor for a list of pods: kubelet's own
    /// list waits for the report, and not for long. What cannot be written the look tries again.
    async fn report_losses(&self) {
        let Some(machine) = self.engine.machine() else { return };
        let is_first = self.engine.state().reported_at.is_none();
        let is_told = machine.unhealthy().is_subset(*self.reported.borrow());
        if !is_first && !is_told {
            let _tried_again = self.report(&machine, Occasion::Look).await;
        }
    }

    /// Reads kubelet's checkpoint, and the pods where only they tell what has become of an entry or an answer.
    async fn follow(&self, machine: &Machine) -> Vec<Failure> {
        self.engine.read_checkpoint(machine).await;
        let ignored = self.engine.state().ignored.clone().into_iter().map(|(uid, container, unknown)| {
            reached("plugin: entry ignored");
            Failure {
                problem: "an entry of kubelet's checkpoint is ignored",
                pod: Some(uid),
                reason: format!("container {container}: {unknown}"),
                retry: false,
            }
        });
        let mut failures: Vec<Failure> = ignored.collect();
        let needs_live_pods = {
            let (state, _) = self.engine.current(machine);
            !self.engine.pods.are_known() || state.ledger.needs_live_pods(Instant::now())
        };
        if needs_live_pods {
            reached("plugin: live read for the ledger");
            if let Err(error) = self.engine.pods.read_live().await {
                reached("plugin: pods not read");
                failures.push(Failure::new("the pods could not be read", None, &error));
            }
        }
        failures
    }

    /// Writes the node report if it has changed, or if the occasion asks for it.
    async fn report(&self, machine: &Machine, occasion: Occasion) -> Result<(), Failure> {
        let report = {
            let offered = self.offered();
            let (state, slots) = self.engine.current(machine);
            let mut report = node_report(machine, &state.ledger, &slots, offered, &self.rules);
            let same = state.report.as_ref().filter(|last| last.says_the_same(&report));
            // The last one that this node had may be gone from it: the first is written in any case.
            if same.is_some() && occasion == Occasion::Look && state.reported_at.is_some() {
                return Ok(());
            }
            report.time = match same {
                Some(last) if occasion != Occasion::Revival => last.time.clone(),
                _ => self.now(),
            };
            report
        };
        let written = self.reporter.write(&report).await;
        written.map_err(|error| {
            reached("plugin: report not written");
            Failure::new("the node report could not be written", None, &error)
        })?;
        self.reported.send_replace(report.unhealthy());
        let mut state = self.engine.state();
        (state.report, state.reported_at) = (Some(Arc::new(report)), Some(Instant::now()));
        Ok(())
    }

    /// The time for the report; none of a clock beyond the year 9999.
    fn now(&self) -> Option<String> {
        let now = Timestamp::try_from(self.engine.system.now()).ok()?;
        Some(now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
    }

    /// Writes the report whether or not it has changed, which costs the API server little where the node has it.
    async fn report_again(&self, occasion: Occasion) {
        let Some(machine) = self.engine.machine() else { return };
        reached("plugin: report written again");
        if let Err(failure) = self.report(&machine, occasion).await
            && self.failures().insert(failure.clone())
        {
            self.log(&failure);
        }
        self.judge_absences();
    }

    /// Says in the status what has been away for too long, and what is back. The report is written again and again: one that was not
    /// tells of the API server.
    fn judge_absences(&self) {
        let (reported_at, problem) = {
            let state = self.engine.state();
            let missing = state.checkpoint_missing.then(|| "kubelet has written none".to_owned());
            (state.reported_at, state.checkpoint_problem.clone().or(missing))
        };
        let (now, limit) = (Instant::now(), self.absence_limit);
        let is_unwritten =
            reported_at.is_some_and(|at| is_long_ago(now.duration_since(at), self.report_interval, limit));
        let [api_server, checkpoint] = {
            let mut absences = self.absences.lock().unwrap_or_else(PoisonError::into_inner);
            [
                absences[0].is_long(reported_at.is_none(), now, limit) || is_unwritten,
                absences[1].is_long(problem.is_some(), now, limit),
            ]
        };
        if api_server {
            self.status.problem(API_SERVER, &format!("the node report could not be written for {limit:?}"));
        } else {
            self.status.fine(API_SERVER);
        }
        match problem {
            Some(problem) if checkpoint => {
                self.status.problem(CHECKPOINT, &format!("it has said nothing for {limit:?}: {problem}"));
            }
            _ => self.status.fine(CHECKPOINT),
        }
    }

    /// Number of failures of the last look.
    pub(crate) fn failure_count(&self) -> usize {
        self.failures().count()
    }

    fn log_news(&self, failed: Vec<Failure>) {
        let news = self.failures().replace(failed);
        news.iter().for_each(|failure| self.log(failure));
    }

    fn log(&self, failure: &Failure) {
        let Failure { problem, pod, reason, retry } = failure;
        tracing::warn!(node = self.node, pod, problem, reason, retry, "upkeep failed");
    }

    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
