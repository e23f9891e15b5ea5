//! Keeps what others read in line with reality: compares the ledger with kubelet's books at rest, writes the node
//! report, corrects records. Runs after every change, never in the way of an answer to kubelet.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::{Api, Client};
use neuron_core::names::NODE_REPORT;
use neuron_core::report::{HolderReport, NodeReport};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::allocation::engine::Engine;
use crate::config::Config;
use crate::hardware::discovery::Machine;
use crate::kubelet::podresources::{self, Held};
use crate::ledger::reconcile::Real;
use crate::ledger::slot::Slot;
use crate::ledger::{Entry, Ledger, hands_down};
use crate::pods::PodsError;
use crate::report::correction::correction;

/// Longest that one look into kubelet's books may take: its questions wait meanwhile.
const BOOKS_LIMIT: Duration = Duration::from_secs(2);
/// First and longest wait before what failed is tried again.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));
/// Times a record is tried to be written when the pod changes under our hands.
const TRIES: usize = 4;

/// The upkeep of one node.
pub struct Upkeep {
    engine: Arc<Engine>,
    nodes: Api<PartialObjectMeta<Node>>,
    node: String,
    kubelet_dir: PathBuf,
    deadline: Duration,
    report_again: Duration,
}

impl Upkeep {
    /// For the engine's node.
    pub fn new(engine: Arc<Engine>, config: &Config, client: Client) -> Self {
        Upkeep {
            engine,
            nodes: Api::all(client),
            node: config.node_name.clone(),
            kubelet_dir: config.kubelet_dir.clone(),
            deadline: config.api_deadline,
            report_again: config.report_again,
        }
    }

    /// Looks after every change, until `shutdown`.
    pub async fn run(&self, shutdown: CancellationToken) {
        let mut pods = self.engine.pods.changes();
        let mut machine = self.engine.machine.subscribe();
        let (mut wait, mut retry_at) = (Duration::ZERO, Some(Instant::now()));
        let mut report_again = tokio::time::interval(self.report_again);
        report_again.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let retry = async {
                match retry_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = retry => {}
                () = self.engine.changed.notified() => {}
                Ok(()) = pods.changed() => {}
                Ok(()) = machine.changed() => {}
                // A Node that was deleted and made anew has none, and nobody tells the plugin.
                _ = report_again.tick() => {
                    tokio::select! {
                        () = shutdown.cancelled() => return,
                        () = self.report_again() => continue,
                    }
                }
            }
            let done = tokio::select! {
                () = shutdown.cancelled() => return,
                done = self.look() => done,
            };
            wait = if done { Duration::ZERO } else { (wait * 2).clamp(RETRY.0, RETRY.1) };
            retry_at = (!done).then(|| Instant::now() + wait);
        }
    }

    /// Takes over what pods hold from before this plugin started.
    pub async fn adopt(&self) {
        if let Some(machine) = self.engine.machine() {
            self.compare(&machine).await;
        }
    }

    /// One look; whether everything is in line now.
    async fn look(&self) -> bool {
        let Some(machine) = self.engine.machine() else {
            // Nothing was given out yet, so what ended meanwhile had nothing.
            self.engine.pods.look();
            return true;
        };
        let seen = self.compare(&machine).await;
        // The report first: where two records overlap for a moment, it says which one counts.
        let reported = self.report(&machine, false).await;
        let corrected = self.correct(&machine).await;
        seen && reported && corrected && self.all_proven(&machine)
    }

    /// Whether kubelet's books name what every admitted pod has. One that has just started may not list them all yet,
    /// and need not do anything more that would be seen.
    fn all_proven(&self, machine: &Machine) -> bool {
        let (books, slots) = self.engine.current(machine);
        let mut listed = slots.iter().filter(|slot| slot.admitted && !hands_down(slot));
        listed.all(|slot| books.ledger.entry_of(slot).is_some_and(Entry::is_proven))
    }

    /// Takes over what kubelet's books say.
    async fn compare(&self, machine: &Machine) -> bool {
        let (before, held) = {
            let _rest = self.engine.gate.rest().await;
            let before = self.engine.books().ledger.now();
            (before, podresources::list(&self.kubelet_dir, &machine.topology, BOOKS_LIMIT).await)
        };
        let held = match held {
            Ok(held) => held,
            Err(error) => {
                tracing::warn!("{error}");
                return false;
            }
        };
        let unowned = self.engine.books().ledger.entries().iter().any(|entry| entry.owner.is_none());
        let stranger = self.real(&held).iter().any(|real| real.uid.is_none());
        let mut fresh = true;
        if unowned || stranger {
            // What the watch does not know yet must not count as gone.
            if let Err(error) = self.engine.pods.read_live().await {
                tracing::warn!("this node's pods could not be read: {error}");
                fresh = false;
            }
        }
        let real = self.real(&held);
        let (mut books, slots) = self.engine.current(machine);
        books.ledger.reconcile(&slots, &real, before, fresh && self.engine.pods.known().is_some());
        fresh
    }

    fn real(&self, held: &[Held]) -> Vec<Real> {
        let pods = self.engine.pods.known().unwrap_or_default();
        let uid = |name: &str| {
            let live = pods.iter().filter(|pod| !pod.pod.terminal);
            live.map(|pod| &pod.pod).find(|pod| pod.full_name() == name).map(|pod| pod.uid.clone())
        };
        let real = |held: &Held| Real {
            uid: uid(&held.pod),
            container: held.container.clone(),
            resource: held.resource,
            cores: held.cores,
            count: held.count,
        };
        held.iter().map(real).collect()
    }

    /// Writes the node report when it has changed, or in any case.
    async fn report(&self, machine: &Machine, in_any_case: bool) -> bool {
        let report = {
            let (books, slots) = self.engine.current(machine);
            let report = machine.report(holders(&books.ledger, &slots));
            if !in_any_case && books.report.as_ref() == Some(&report) {
                return true;
            }
            report
        };
        match self.write_report(&report).await {
            Ok(()) => {
                self.engine.books().report = Some(report);
                true
            }
            Err(why) => {
                tracing::warn!("the report could not be written to node {}: {why}", self.node);
                false
            }
        }
    }

    /// Writes the report whether or not it has changed; it costs the API server little where the node has it.
    async fn report_again(&self) {
        if let Some(machine) = self.engine.machine() {
            self.report(&machine, true).await;
        }
    }

    async fn write_report(&self, report: &NodeReport) -> Result<(), String> {
        let patch = serde_json::json!({"metadata": {"annotations": {NODE_REPORT: report.to_json()}}});
        let params = PatchParams::default();
        let patch = Patch::Merge(&patch);
        let written = self.nodes.patch_metadata(&self.node, &params, &patch);
        match tokio::time::timeout(self.deadline, written).await {
            Ok(answer) => answer.map(drop).map_err(|error| error.to_string()),
            Err(_) => Err(format!("no answer within {:?}", self.deadline)),
        }
    }

    /// Corrects the record of every pod that got something else.
    async fn correct(&self, machine: &Machine) -> bool {
        let mut done = true;
        for uid in self.uids() {
            done &= self.correct_pod(machine, &uid).await;
        }
        done
    }

    async fn correct_pod(&self, machine: &Machine, uid: &str) -> bool {
        for _ in 0..TRIES {
            let pods = self.engine.pods.known().unwrap_or_default();
            let Some(pod) = pods.iter().find(|pod| pod.pod.uid == uid) else { return true };
            let correction = {
                let (books, slots) = self.engine.current(machine);
                let own: Vec<&Slot> = slots.iter().filter(|slot| slot.uid == uid).collect();
                correction(&self.node, &machine.topology, &books.ledger, pod, &own)
            };
            let Some(correction) = correction else { return true };
            match self.engine.pods.annotate(pod, &correction.annotations).await {
                Ok(()) => {
                    if let Some(note) = correction.note {
                        tracing::info!("pod {}: {note}", pod.pod.full_name());
                        self.engine.voice.corrected(&pod.pod, note).await;
                    }
                    return true;
                }
                // The pod has changed or is gone: look at it as it is now.
                Err(PodsError::Api(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {
                    if let Err(error) = self.engine.pods.read_live().await {
                        tracing::warn!("this node's pods could not be read again: {error}");
                        return false;
                    }
                }
                Err(error) => {
                    tracing::warn!(
                        "the record of pod {} could not be corrected: {error}",
                        pod.pod.full_name()
                    );
                    return false;
                }
            }
        }
        false
    }

    fn uids(&self) -> Vec<String> {
        let pods = self.engine.pods.known().unwrap_or_default();
        pods.into_iter().filter(|pod| !pod.pod.terminal).map(|pod| pod.pod.uid).collect()
    }
}

/// The pods that kubelet gave devices to, by its own books; init containers by the plugin's.
fn holders(ledger: &Ledger, slots: &[Slot]) -> Vec<HolderReport> {
    let mut holders: Vec<HolderReport> = Vec::new();
    for slot in slots {
        let Some(entry) = ledger.entry_of(slot) else { continue };
        if !(entry.is_proven() || hands_down(slot)) {
            continue;
        }
        match holders.iter_mut().find(|holder| holder.uid == slot.uid) {
            Some(holder) => holder.cores = holder.cores.union(entry.cores),
            None => holders.push(HolderReport {
                pod: slot.pod.clone(),
                uid: slot.uid.clone(),
                cores: entry.cores,
            }),
        }
    }
    holders.sort_by(|a, b| (&a.pod, &a.uid).cmp(&(&b.pod, &b.uid)));
    holders
}
