//! What the services of all resources share: one machine, one ledger, and what they follow. How a question is answered is in
//! `preferred` and `allocate`.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[cfg(planted)]
use kubelet_api::deviceplugin::v1beta1::ContainerAllocateResponse;
use neuron_core::ids::CoreSet;
use neuron_core::report::NodeReport;
use runtime::system::{FILE_TIMEOUT, FileStatus};
use runtime::{System, reached};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout_at};

use crate::allocation::cross_resource::{CrossResource, Withdrawn};
use crate::allocation::deadlines::Deadlines;
use crate::allocation::injection::DeviceInjection;
use crate::config::{Config, Numbering};
use crate::events::Events;
use crate::handover::Handover;
use crate::hardware::machine::Machine;
use crate::kubelet::checkpoint::{Checkpoint, CheckpointError, CheckpointFile};
use crate::kubelet::pods_api::PodsApi;
use crate::ledger::slot::Slot;
use crate::ledger::slot_cache::SlotCache;
use crate::ledger::{Ledger, Pods as PodsNow};
use crate::metrics::{Call, Metrics};
use crate::pods::{Pods, PodsError};
use crate::probe::Sizes;
use crate::resource::{AdvertisedResource, UnknownId, advertised};
use crate::status::Status;

/// How long a question waits at most between two looks at the pods.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// How long a question waits at most for one look at kubelet's checkpoint: at its status and at its bytes.
const LONGEST_CHECKPOINT: Duration = Duration::from_secs(2 * FILE_TIMEOUT.as_secs());

/// What the services share.
pub struct Engine {
    /// The machine, once discovered.
    pub machine: watch::Sender<Option<Arc<Machine>>>,
    /// This node's pods.
    pub pods: Pods,
    /// What kubelet has written down.
    pub checkpoint: CheckpointFile,
    /// Told when the ledger has changed.
    pub changed: Notify,
    /// What is held under other names.
    pub withdrawn: watch::Sender<Withdrawn>,
    /// Whether kubelet is told of it.
    pub(super) cross_resource: CrossResource,
    /// What is advertised.
    pub(super) resources: Vec<AdvertisedResource>,
    /// Writes events.
    pub events: Events,
    /// How long a question of kubelet waits for the end of a pod whose devices kubelet offers. An open one holds up everything else
    /// that kubelet does.
    pub(super) holder_timeout: Duration,
    /// How long the pods may be unreadable before a set is preferred without them.
    pub(super) api_timeout: Duration,
    /// Looks after processes of gone pods.
    pub handover: Handover,
    /// Counts.
    pub metrics: Arc<Metrics>,
    pub(crate) system: System,
    pub(super) root: PathBuf,
    pub(super) node: String,
    pub(super) numbering: Numbering,
    pub(super) injection: DeviceInjection,
    state: Mutex<State>,
}

/// What the plugin has written down.
#[derive(Debug, Default)]
pub struct State {
    /// Who holds what.
    pub ledger: Ledger,
    /// The slots made last.
    slots: SlotCache,
    /// The slots and the version of the checkpoint by which every record was right.
    pub(crate) right: Option<(Arc<[Slot]>, u64)>,
    /// The report last written to the node.
    pub report: Option<Arc<NodeReport>>,
    /// When it was.
    pub reported_at: Option<Instant>,
    /// Ids in kubelet's checkpoint that are none of this machine's, by pod UID and container.
    pub ignored: Vec<(String, String, UnknownId)>,
    /// The cores that kubelet offers by its checkpoint; none where that cannot be read.
    pub offered: Option<CoreSet>,
    /// Why kubelet's checkpoint says nothing, if it does not.
    pub checkpoint_problem: Option<String>,
    /// Whether there is none: then nobody has anything, and kubelet writes one as soon as it has a list of devices.
    pub checkpoint_missing: bool,
    /// The kubelet socket seen last; another one means that kubelet has restarted.
    pub kubelet: Option<FileStatus>,
    /// The last answer: for which pod and how many ids it was, and when it was given.
    #[cfg(planted)]
    answered: Option<(String, usize, tokio::time::Instant, ContainerAllocateResponse)>,
}

#[cfg(planted)]
impl State {
    pub(super) fn repeated(
        &mut self,
        pod: Option<&str>,
        count: usize,
        answer: ContainerAllocateResponse,
    ) -> ContainerAllocateResponse {
        let (now, Some(pod)) = (tokio::time::Instant::now(), pod) else { return answer };
        let before = self.answered.replace((pod.to_owned(), count, now, answer.clone()));
        let again = before.filter(|(other, as_many, at, _)| {
            other != pod && *as_many == count && now - *at < std::time::Duration::from_secs(1)
        });
        again.map_or(answer, |(_, _, _, before)| before)
    }
}

impl Engine {
    /// An engine that knows neither machine nor pods yet.
    pub fn new(
        system: System,
        config: &Config,
        client: kube::Client,
        status: Arc<Status>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Engine {
            machine: watch::Sender::new(None),
            pods: Pods::new(
                client.clone(),
                &config.node_name,
                config.api_timeout,
                PodsApi::new(system.clone(), &config.kubelet_dir),
            ),
            checkpoint: CheckpointFile::new(system.clone(), &config.plugin_dir()),
            changed: Notify::new(),
            withdrawn: watch::Sender::default(),
            cross_resource: config.cross_resource,
            resources: advertised(config.legacy_resource),
            events: Events::new(system.clone(), client, &config.node_name, config.api_timeout),
            holder_timeout: config.holder_timeout,
            api_timeout: config.api_timeout,
            handover: Handover::new(system.clone(), config, status, Arc::clone(&metrics)),
            metrics,
            system,
            root: config.root.clone(),
            node: config.node_name.clone(),
            numbering: config.container_numbering,
            injection: config.device_injection,
            state: Mutex::default(),
        }
    }

    /// The machine, once discovered.
    pub fn machine(&self) -> Option<Arc<Machine>> {
        self.machine.borrow().clone()
    }

    /// The ledger and what belongs to it. Never hold it across an await.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ledger as it follows from the pods known now, and their slots; no slots while no pod was read.
    pub fn current(&self, machine: &Machine) -> (MutexGuard<'_, State>, Arc<[Slot]>) {
        let mut state = self.state();
        // Read under the lock, so that two callers cannot bring an older list after a newer one.
        let living = self.pods.living();
        let State { ledger, slots, report, .. } = &mut *state;
        let made = living.map(|living| slots.slots(&self.node, &machine.topology, report.as_ref(), living));
        let (slots, are_new) = made.unzip();
        let told = self.pods.told();
        let pods = PodsNow {
            slots: slots.as_deref(),
            are_new: are_new.unwrap_or_default(),
            version: self.pods.version(),
            life: &|uid| self.pods.life(uid),
            read_live: self.pods.last_read_live(),
            told: told.as_ref(),
        };
        ledger.follow(&pods, Instant::now());
        (state, slots.unwrap_or_default())
    }

    /// Reads kubelet's checkpoint if it may have changed. While it cannot be read, what it said last holds; of another form it says nothing.
    pub async fn read_checkpoint(&self, machine: &Machine) {
        let mut problem = None;
        let began = Instant::now();
        let was_read = self.checkpoint.read(&machine.topology, |read| {
            let offered = read.as_ref().ok().map(Checkpoint::offered);
            let is_missing = read.as_ref().is_ok_and(|checkpoint| !checkpoint.is_there);
            let read = match read {
                Ok(read) => read,
                Err(unread @ CheckpointError::Read { .. }) => {
                    problem = Some(unread);
                    let mut state = self.state();
                    (state.checkpoint_missing, state.offered) = (is_missing, offered);
                    return;
                }
                Err(other_form) => {
                    problem = Some(other_form);
                    Checkpoint::default()
                }
            };
            let Checkpoint { entries, unknown, .. } = read;
            let mut state = self.state();
            state.checkpoint_missing = is_missing;
            state.offered = offered;
            state.ledger.checkpoint(entries, began, Instant::now());
            state.ignored = unknown;
        });
        if was_read.await {
            self.tell_checkpoint(problem);
        } else {
            self.state().ledger.checkpoint_unchanged(began);
        }
    }

    /// The same for a call. Where it takes too long, what was read last still holds.
    pub(super) async fn read_checkpoint_for_call(
        &self,
        call: Call,
        machine: &Machine,
        deadlines: &Deadlines,
    ) {
        let (began, until) = (Instant::now(), deadlines.checkpoint(LONGEST_CHECKPOINT));
        if timeout_at(until, self.read_checkpoint(machine)).await.is_err() {
            reached("plugin: checkpoint not read in time");
        }
        self.metrics.checkpoint_wait(call, began.elapsed());
    }

    /// Says once that the checkpoint says nothing.
    pub(crate) fn tell_checkpoint(&self, problem: Option<CheckpointError>) {
        let Some(problem) = problem else {
            self.state().checkpoint_problem = None;
            return;
        };
        reached("plugin: checkpoint not read");
        let note = problem.to_string();
        if self.state().checkpoint_problem.replace(note.clone()).as_ref() != Some(&note) {
            tracing::warn!(node = self.node, reason = note, "going on without kubelet's checkpoint");
            let events = self.events.clone();
            drop(self.system.spawn(async move { events.checkpoint_unreadable(note).await }));
        }
    }

    /// What is kept of pods and of what they hold.
    pub(crate) fn sizes(&self) -> Sizes {
        let pods = self.pods.counts();
        let state = self.state();
        Sizes {
            entries: state.ledger.entry_count(),
            answers: state.ledger.answers().len(),
            past: state.ledger.past_count(),
            pods: pods.known,
            listed: pods.starting,
            gone: pods.gone,
            ..Sizes::default()
        }
    }

    /// Reads the pods as they are now for a call: `from_kubelet` where kubelet tells them, else from the API server.
    ///
    /// # Errors
    /// kubelet does not tell them, and the API server is away, slow or refuses.
    pub(super) async fn read_pods(
        &self,
        call: Call,
        from_kubelet: bool,
        deadlines: &Deadlines,
    ) -> Result<(), PodsError> {
        let began = Instant::now();
        let read =
            async { if from_kubelet { self.pods.read_now().await } else { self.pods.read_live().await } };
        let read = timeout_at(deadlines.last_read(), read).await;
        self.metrics.holder_wait(call, began.elapsed());
        read.unwrap_or(Err(PodsError::Late))
    }

    /// Waits until the pods have changed, and not for long.
    pub(super) async fn until_changed(
        &self,
        call: Call,
        changes: &mut watch::Receiver<()>,
        deadline: Instant,
    ) {
        reached("plugin: waits for the end of a holder");
        let began = Instant::now();
        // Planted: whether the holder has ended is asked without a pause, and so no time passes in which it could.
        #[cfg(planted)]
        while runtime::is_planted("wait-spins") && Instant::now() < deadline {}
        let changed = async {
            tokio::select! {
                // Each leads to the same look.
                biased;
                _ = changes.changed() => {}
                () = sleep(LOOK_AGAIN) => {}
            }
        };
        let _late = timeout_at(deadline, changed).await;
        self.metrics.holder_wait(call, began.elapsed());
    }
}
