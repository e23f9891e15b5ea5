//! Decides which ids suit best and whether a container gets the ids that kubelet chose. The services of all resources
//! share one engine, and so one ledger.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kubelet_api::deviceplugin::v1beta1::ContainerAllocateResponse;
use neuron_core::ids::{CoreSet, DeviceSet};
use neuron_core::names::Resource;
use neuron_core::occupancy::Occupancy;
use neuron_core::placement::best_set;
use neuron_core::report::NodeReport;
use neuron_core::topology::Topology;
use runtime::system::FileStatus;
use runtime::{System, reached};
use tokio::sync::{Notify, watch};

use crate::allocation::export::export;
use crate::allocation::refusal::AllocationRefusal;
use crate::config::{Config, Numbering};
use crate::events::{Events, pod_reference};
use crate::hardware::machine::Machine;
#[cfg(planted)]
use crate::kubelet::podresources::Assignment;
use crate::ledger::Ledger;
use crate::ledger::gate::Gate;
use crate::ledger::judge::Judgement;
use crate::ledger::slot::{Slot, slots, unrecorded};
use crate::pods::Pods;
use crate::probe::Sizes;
use crate::resource::{AdvertisedResource, cores_of, count_of, ids_of, known_cores};

/// What the services share.
pub struct Engine {
    /// The machine, once discovered.
    pub machine: watch::Sender<Option<Arc<Machine>>>,
    /// This node's pods.
    pub pods: Pods,
    /// Keeps podresources unread while kubelet allocates.
    pub gate: Gate,
    /// Told when the ledger has changed.
    pub changed: Notify,
    /// Writes events.
    pub events: Events,
    system: System,
    root: PathBuf,
    node: String,
    numbering: Numbering,
    state: Mutex<State>,
}

/// What the plugin has written down.
#[derive(Debug, Default)]
pub struct State {
    /// Who holds what.
    pub ledger: Ledger,
    /// The report last written to the node.
    pub report: Option<NodeReport>,
    /// The kubelet socket seen last; another one means that kubelet has restarted.
    pub kubelet: Option<FileStatus>,
    /// The last answer: for which pod and how many ids it was, and when it was given.
    #[cfg(planted)]
    answered: Option<(String, usize, tokio::time::Instant, ContainerAllocateResponse)>,
    /// What kubelet's books said first of each pod's name.
    #[cfg(planted)]
    said: Vec<Assignment>,
}

#[cfg(planted)]
impl State {
    fn repeated(
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

    pub(crate) fn as_said_first(&mut self, assigned: Vec<Assignment>) -> Vec<Assignment> {
        let first = |now: Assignment| {
            let is_same = |said: &&Assignment| {
                (&said.pod, &said.container, said.unit, said.count)
                    == (&now.pod, &now.container, now.unit, now.count)
            };
            if let Some(said) = self.said.iter().find(is_same) {
                return said.clone();
            }
            self.said.push(now.clone());
            now
        };
        assigned.into_iter().map(first).collect()
    }
}

/// A container that may have its ids.
struct Admitted {
    /// `namespace/name`, if only one pod can be meant.
    pod: Option<String>,
    /// Every device of the container under either resource name, as far as known.
    devices: DeviceSet,
}

/// A request that is refused.
struct Refused {
    refusal: AllocationRefusal,
    /// `namespace/name`, if only one pod can be meant.
    pod: Option<String>,
}

impl<E: Into<AllocationRefusal>> From<E> for Refused {
    fn from(refusal: E) -> Self {
        Refused { refusal: refusal.into(), pod: None }
    }
}

impl Engine {
    /// An engine that knows neither machine nor pods yet.
    pub fn new(system: System, config: &Config, client: kube::Client) -> Self {
        Engine {
            machine: watch::Sender::new(None),
            pods: Pods::new(client.clone(), &config.node_name, config.api_timeout),
            gate: Gate::new(config.quiet),
            changed: Notify::new(),
            events: Events::new(system.clone(), client, &config.node_name, config.api_timeout),
            system,
            root: config.root.clone(),
            node: config.node_name.clone(),
            numbering: config.container_numbering,
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

    /// The ledger without what has ended, and the slots it was compared with; no slots while no pod was read.
    pub fn current(&self, machine: &Machine) -> (MutexGuard<'_, State>, Vec<Slot>) {
        let mut state = self.state();
        // Read under the lock, so that two callers cannot bring an older list after a newer one.
        let Some((pods, ended)) = self.pods.look() else { return (state, Vec::new()) };
        let slots = slots(&self.node, &machine.topology, state.report.as_ref(), &pods);
        state.ledger.note_ended(&ended.iter().flat_map(unrecorded).collect::<Vec<_>>());
        state.ledger.release(&slots);
        state.ledger.follow_admission(&slots);
        (state, slots)
    }

    /// What is kept of pods and of what they hold.
    pub(crate) fn sizes(&self) -> Sizes {
        let pods = self.pods.counts();
        let state = self.state();
        Sizes {
            entries: state.ledger.entries().len(),
            ended: state.ledger.ended.len(),
            pods: pods.known,
            listed: pods.starting,
            ended_pods: pods.ended,
            gone: pods.gone,
            ..Sizes::default()
        }
    }

    /// The ids to prefer: the set recorded for a pod that waits for one, else the best linked set that is free.
    ///
    /// # Errors
    /// No device is known yet.
    pub async fn prefer(
        &self,
        resource: &AdvertisedResource,
        available: &[String],
        must_include: &[String],
        count: u32,
    ) -> Result<Vec<String>, AllocationRefusal> {
        let _open = self.gate.enter().await;
        let machine = self.machine().ok_or(AllocationRefusal::NotReady)?;
        let (topology, unit) = (&machine.topology, resource.unit);
        let must_include = known_cores(topology, unit, must_include);
        let available = known_cores(topology, unit, available).union(must_include);
        let recorded = || {
            let (state, slots) = self.current(&machine);
            state.ledger.offer(&slots, unit, count, available, must_include)
        };
        let mut set = recorded();
        if set.is_none() {
            // The watch may lag the Binding: look for the record once more before the plugin chooses.
            reached("plugin: live read for a preference");
            match self.pods.read_live().await {
                Ok(()) => set = recorded(),
                Err(error) => {
                    reached("plugin: pods not read");
                    tracing::warn!(
                        node = self.node,
                        resource = resource.name,
                        reason = %error,
                        "the pods could not be read; preferring ids without a record"
                    );
                }
            }
        }
        let set = set.or_else(|| self.choose(&machine, unit, count, available, must_include));
        Ok(set.map(|set| ids_of(topology, unit, set)).unwrap_or_default())
    }

    fn choose(
        &self,
        machine: &Machine,
        unit: Resource,
        count: u32,
        available: CoreSet,
        must_include: CoreSet,
    ) -> Option<CoreSet> {
        let mut occupancy = Occupancy::empty(Arc::clone(&machine.topology));
        let (state, slots) = self.current(machine);
        occupancy.hold(state.ledger.held(&slots));
        drop(state);
        occupancy.set_unhealthy(machine.unhealthy());
        // Nothing is preferred where no set fits, and what kubelet takes instead is refused.
        best_set(&occupancy, unit, count, must_include, available)
    }

    /// What a container gets for `ids`: exactly what they mean.
    ///
    /// # Errors
    /// Ids that do not exist, are unhealthy, are no candidate set or are held by another live pod.
    pub async fn allocate(
        &self,
        resource: &AdvertisedResource,
        ids: &[String],
    ) -> Result<ContainerAllocateResponse, AllocationRefusal> {
        let _open = self.gate.enter().await;
        let (node, resource_name) = (&self.node, resource.name);
        match self.try_allocate(resource, ids).await {
            Ok((response, pod, devices, cores)) => {
                self.changed.notify_one();
                tracing::info!(node, pod, resource = resource_name, %devices, %cores, "allocated");
                Ok(response)
            }
            Err(Refused { refusal, pod }) => {
                refusal.count();
                tracing::warn!(node, pod, resource = resource_name, reason = %refusal, "allocation refused");
                Err(refusal)
            }
        }
    }

    async fn try_allocate(
        &self,
        resource: &AdvertisedResource,
        ids: &[String],
    ) -> Result<(ContainerAllocateResponse, Option<String>, DeviceSet, CoreSet), Refused> {
        let machine = self.machine().ok_or(AllocationRefusal::NotReady)?;
        let (topology, unit) = (&machine.topology, resource.unit);
        let cores = cores_of(topology, unit, ids)?;
        let devices = topology.devices_of(cores);
        if let Some((device, fault)) = machine.faults.iter().find(|(device, _)| devices.contains(**device)) {
            let of_device = cores.intersection(topology.cores_of(DeviceSet::single(*device)));
            let id = ids_of(topology, unit, of_device).join(",");
            return Err(AllocationRefusal::Unhealthy { id, why: fault.to_string() }.into());
        }
        let admitted = match self.decide(&machine, unit, cores, None) {
            Some(Ok(admitted)) => admitted,
            _ => {
                reached("plugin: live read for an allocation");
                let doubt = match self.pods.read_live().await {
                    Ok(()) => String::new(),
                    Err(error) => {
                        reached("plugin: pods not read");
                        format!(" (not confirmed: {error})")
                    }
                };
                self.decide(&machine, unit, cores, Some(doubt))
                    .unwrap_or_else(|| Err(AllocationRefusal::NotReady.into()))?
            }
        };
        let response = export(&self.root, topology, self.numbering, unit, cores, admitted.devices);
        // Planted: of two pods that ask for as much at one time the second is told what the first has.
        #[cfg(planted)]
        let response = if runtime::is_planted("answer-repeated") {
            self.state().repeated(admitted.pod.as_deref(), ids.len(), response)
        } else {
            response
        };
        Ok((response, admitted.pod, devices, cores))
    }

    /// Judges and writes down in one step. `doubt` is what a live read could not confirm. It is absent before such a read,
    /// and then only a sure yes is an answer.
    fn decide(
        &self,
        machine: &Machine,
        unit: Resource,
        cores: CoreSet,
        doubt: Option<String>,
    ) -> Option<Result<Admitted, Refused>> {
        let topology = &machine.topology;
        let count = count_of(topology, unit, cores);
        let (mut state, slots) = self.current(machine);
        match state.ledger.judge(&slots, unit, cores, count) {
            Judgement::Allowed(_) if !allowed(topology, &slots, unit, cores) => {
                let waits = |slot: &&Slot| slot.resource == unit && slot.count == count && !slot.admitted;
                let asking: Vec<&Slot> = slots.iter().filter(waits).collect();
                drop(state);
                Some(Err(self.refuse(&asking, AllocationRefusal::not_allowed(topology, unit, cores, doubt?))))
            }
            Judgement::Allowed(slot) if slot.is_some() || doubt.is_some() => {
                state.ledger.allocate(unit, cores, count, slot);
                let same = |other: &&Slot| {
                    slot.is_some_and(|slot| other.uid == slot.uid && other.container == slot.container)
                };
                let all = slots.iter().filter(same).filter_map(|slot| slot.recorded);
                let devices = topology.devices_of(all.fold(CoreSet::EMPTY, CoreSet::union));
                Some(Ok(Admitted { pod: slot.map(|slot| slot.pod.clone()), devices }))
            }
            Judgement::Allowed(_) => None,
            Judgement::Held { holders, asking } => {
                drop(state);
                Some(Err(self.refuse(&asking, AllocationRefusal::held(topology, unit, &holders, doubt?))))
            }
        }
    }

    /// Writes an event about the pod, or about the node if several pods can be meant.
    fn refuse(&self, asking: &[&Slot], refusal: AllocationRefusal) -> Refused {
        let only = asking.first().filter(|first| asking.iter().all(|slot| slot.uid == first.uid));
        let pods = self.pods.known().unwrap_or_default();
        let pod = only.and_then(|slot| pods.iter().find(|pod| pod.pod.uid == slot.uid));
        let (about, events) = (pod.map(|pod| pod_reference(&pod.pod)), self.events.clone());
        let note = refusal.to_string();
        drop(self.system.spawn(async move { events.refused(about, note).await }));
        Refused { refusal, pod: only.map(|slot| slot.pod.clone()) }
    }
}

/// Whether a container may have exactly these: the type allows the set, or a live pod's record that counts says so
/// (whoever placed it).
fn allowed(topology: &Topology, slots: &[Slot], unit: Resource, cores: CoreSet) -> bool {
    topology.is_candidate_set(unit, cores)
        || slots.iter().any(|slot| slot.resource == unit && slot.recorded == Some(cores))
}
