//! Answers kubelet's questions: which ids suit best, and what a container gets for its ids. The gRPC services of all
//! resources share one engine, and so one ledger.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kubelet_api::deviceplugin::v1beta1::ContainerAllocateResponse;
use neuron_core::ids::{CoreSet, DeviceSet};
use neuron_core::names::Resource;
use neuron_core::occupancy::Occupancy;
use neuron_core::placement::{self, best_set};
use neuron_core::report::NodeReport;
use neuron_core::topology::Topology;
use tokio::sync::{Notify, watch};

use crate::config::{Config, Numbering};
use crate::discovery::Machine;
use crate::export::export;
use crate::gate::Gate;
use crate::judge::{Holder, Judgement};
use crate::ledger::Ledger;
use crate::offer::{self, Offer, UnknownId};
use crate::pods::Pods;
use crate::slot::{Slot, slots, unrecorded};
use crate::voice::{Voice, pod_reference};

/// Why kubelet's question is answered with an error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No device is known yet.
    #[error("no Neuron device is advertised yet; see the plugin's log or /healthz for the reason")]
    NotReady,
    /// An id of another node, resource or time.
    #[error(transparent)]
    Unknown(#[from] UnknownId),
    /// A device that must not be used.
    #[error("{id} is unhealthy: {why}; it can be used again once that is over")]
    Unhealthy {
        /// The id.
        id: String,
        /// What is wrong with it.
        why: String,
    },
    /// Ids that do not belong together.
    #[error("{ids} of {resource} cannot be given: {why}{doubt}")]
    NotAllowed {
        /// The ids.
        ids: String,
        /// The resource asked under.
        resource: &'static str,
        /// What the instance type allows.
        why: String,
        /// What could not be confirmed, if anything.
        doubt: String,
    },
    /// Ids that another pod has, under this name or the other.
    #[error(
        "{ids} of {resource} cannot be given: {holders}; they are free again when that pod has ended{doubt}"
    )]
    Held {
        /// The ids in question.
        ids: String,
        /// The resource asked under.
        resource: &'static str,
        /// Who has them.
        holders: String,
        /// What could not be confirmed, if anything.
        doubt: String,
    },
}

/// What the services share.
pub struct Engine {
    /// The machine, once discovered.
    pub machine: watch::Sender<Option<Arc<Machine>>>,
    /// This node's pods.
    pub pods: Pods,
    /// Keeps kubelet's books closed while it allocates.
    pub gate: Gate,
    /// Told when the ledger has changed.
    pub changed: Notify,
    /// Writes events.
    pub voice: Voice,
    root: PathBuf,
    node: String,
    numbering: Numbering,
    books: Mutex<Books>,
}

/// What the plugin has written down.
#[derive(Debug, Default)]
pub struct Books {
    /// Who holds what.
    pub ledger: Ledger,
    /// The report last written to the node.
    pub report: Option<NodeReport>,
    /// The kubelet socket seen last; another one means that kubelet has restarted.
    pub kubelet: Option<u64>,
}

impl Engine {
    /// Knows nothing yet.
    pub fn new(config: &Config, client: kube::Client) -> Self {
        Engine {
            machine: watch::Sender::new(None),
            pods: Pods::new(client.clone(), &config.node_name, config.api_deadline),
            gate: Gate::new(config.quiet),
            changed: Notify::new(),
            voice: Voice::new(client, &config.node_name, config.api_deadline),
            root: config.root.clone(),
            node: config.node_name.clone(),
            numbering: config.container_numbering,
            books: Mutex::default(),
        }
    }

    /// The machine, if it is known.
    pub fn machine(&self) -> Option<Arc<Machine>> {
        self.machine.borrow().clone()
    }

    /// The ledger and what belongs to it. Never hold it across an await.
    pub fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ledger with what has ended taken out, and the slots it was compared with; no slots while no pod was read.
    pub fn current(&self, machine: &Machine) -> (MutexGuard<'_, Books>, Vec<Slot>) {
        let mut books = self.books();
        // Read under the lock, so that two callers cannot bring an older list after a newer one.
        let Some((pods, ended)) = self.pods.look() else { return (books, Vec::new()) };
        let slots = slots(&self.node, &machine.topology, books.report.as_ref(), &pods);
        books.ledger.note_ended(&ended.iter().flat_map(unrecorded).collect::<Vec<_>>());
        books.ledger.release(&slots);
        books.ledger.follow_admission(&slots);
        (books, slots)
    }

    /// The ids to prefer: the set recorded for a pod that waits for one, else the best linked set that is free.
    ///
    /// # Errors
    /// No device is known yet.
    pub async fn prefer(
        &self,
        offer: &Offer,
        available: &[String],
        must: &[String],
        size: u32,
    ) -> Result<Vec<String>, Refusal> {
        let _open = self.gate.enter().await;
        let machine = self.machine().ok_or(Refusal::NotReady)?;
        let topology = &machine.topology;
        let known = |ids: &[String]| {
            let each = |id: &String| offer::hardware(topology, offer.resource, std::slice::from_ref(id)).ok();
            ids.iter().filter_map(each).fold(CoreSet::EMPTY, CoreSet::union)
        };
        let (available, must) = (known(available).union(known(must)), known(must));
        let recorded = || {
            let (books, slots) = self.current(&machine);
            books.ledger.offer(&slots, offer.resource, size, available, must)
        };
        let mut set = recorded();
        if set.is_none() {
            // The watch may lag the Binding: look for the record once more before choosing for oneself.
            match self.pods.read_live().await {
                Ok(()) => set = recorded(),
                Err(error) => tracing::warn!("choosing {} ids without a fresh look: {error}", offer.name),
            }
        }
        let set = set.or_else(|| self.choose(&machine, offer.resource, size, available, must));
        Ok(set.map(|set| offer::ids_of(topology, offer.resource, set)).unwrap_or_default())
    }

    fn choose(
        &self,
        machine: &Machine,
        resource: Resource,
        size: u32,
        available: CoreSet,
        must: CoreSet,
    ) -> Option<CoreSet> {
        let topology = &machine.topology;
        let mut occupancy = Occupancy::empty(Arc::clone(topology));
        let (books, slots) = self.current(machine);
        occupancy.hold(books.ledger.held(&slots));
        drop(books);
        occupancy.set_unhealthy(machine.unhealthy());
        // Without one there is nothing to advise: what kubelet takes then is refused.
        best_set(&occupancy, resource, size, must, available)
    }

    /// What a container gets for `ids`, exactly what they mean.
    ///
    /// # Errors
    /// Ids that do not exist, are unhealthy, do not belong together or belong to another live pod.
    pub async fn allocate(
        &self,
        offer: &Offer,
        ids: &[String],
    ) -> Result<ContainerAllocateResponse, Refusal> {
        let _open = self.gate.enter().await;
        let machine = self.machine().ok_or(Refusal::NotReady)?;
        let topology = &machine.topology;
        let cores = offer::hardware(topology, offer.resource, ids)?;
        let bad = machine.faults.iter().find(|(id, _)| topology.devices_of(cores).contains(**id));
        if let Some((id, why)) = bad {
            let id = offer::ids_of(
                topology,
                offer.resource,
                cores.intersection(topology.cores_of(DeviceSet::single(*id))),
            );
            return Err(Refusal::Unhealthy { id: id.join(","), why: why.clone() });
        }
        let container = match self.decide(&machine, offer.resource, cores, None) {
            Some(Ok(container)) => container,
            _ => {
                let doubt = match self.pods.read_live().await {
                    Ok(()) => String::new(),
                    Err(error) => format!(" (not confirmed: {error})"),
                };
                self.decide(&machine, offer.resource, cores, Some(doubt)).unwrap_or(Err(Refusal::NotReady))?
            }
        };
        self.changed.notify_one();
        Ok(export(&self.root, topology, self.numbering, offer.resource, cores, container))
    }

    /// Judges and writes down in one step; the devices of the container that it is for, if known. `doubt` is what a
    /// live read could not confirm; before such a read it is absent, and only a sure yes is an answer.
    fn decide(
        &self,
        machine: &Machine,
        resource: Resource,
        cores: CoreSet,
        doubt: Option<String>,
    ) -> Option<Result<DeviceSet, Refusal>> {
        let topology = &machine.topology;
        let count = offer::count_of(topology, resource, cores);
        let (mut books, slots) = self.current(machine);
        match books.ledger.judge(&slots, resource, cores, count) {
            Judgement::Allowed(_) if !allowed(topology, &slots, resource, cores) => {
                let asking = slots
                    .iter()
                    .filter(|slot| slot.resource == resource && slot.count == count && !slot.admitted);
                let asking: Vec<&Slot> = asking.collect();
                drop(books);
                Some(Err(self.refuse(&asking, not_allowed(topology, resource, cores, doubt?))))
            }
            Judgement::Allowed(slot) if slot.is_some() || doubt.is_some() => {
                books.ledger.allocate(resource, cores, count, slot);
                let same = |other: &&Slot| {
                    slot.is_some_and(|slot| other.uid == slot.uid && other.container == slot.container)
                };
                let all = slots.iter().filter(same).filter_map(|slot| slot.recorded);
                Some(Ok(topology.devices_of(all.fold(CoreSet::EMPTY, CoreSet::union))))
            }
            Judgement::Allowed(_) => None,
            Judgement::Held { holders, asking } => {
                drop(books);
                Some(Err(self.refuse(&asking, held(topology, resource, &holders, doubt?))))
            }
        }
    }

    /// Tells the pod too, if only one can be meant.
    fn refuse(&self, asking: &[&Slot], refusal: Refusal) -> Refusal {
        tracing::warn!("{refusal}");
        let only = asking.first().filter(|first| asking.iter().all(|slot| slot.uid == first.uid));
        let pods = self.pods.known().unwrap_or_default();
        let pod = only.and_then(|slot| pods.iter().find(|pod| pod.pod.uid == slot.uid));
        let (about, voice) = (pod.map(|pod| pod_reference(&pod.pod)), self.voice.clone());
        let note = refusal.to_string();
        tokio::spawn(async move { voice.refused(about, note).await });
        refusal
    }
}

/// Whether a container may have exactly these: the type allows the set, or a live pod's record that counts says so
/// (whoever placed it).
fn allowed(topology: &Topology, slots: &[Slot], resource: Resource, cores: CoreSet) -> bool {
    topology.is_candidate_set(resource, cores)
        || slots.iter().any(|slot| slot.resource == resource && slot.recorded == Some(cores))
}

fn not_allowed(topology: &Topology, resource: Resource, cores: CoreSet, doubt: String) -> Refusal {
    let count = offer::count_of(topology, resource, cores);
    let (noun, instance_type) = (resource.noun(), topology.instance_type());
    let why = if topology.supports(resource, count) {
        format!(
            "they are not one of the linked sets of {count} {noun}s that {instance_type} allows; placed by the \
             scheduler extender, the pod waits until such a set is free"
        )
    } else {
        let instance_type = instance_type.to_owned();
        placement::Refusal::UnsupportedCount { instance_type, resource, requested: count }.to_string()
    };
    Refusal::NotAllowed {
        ids: offer::ids_of(topology, resource, cores).join(","),
        resource: resource.name(),
        why,
        doubt,
    }
}

fn held(topology: &Topology, resource: Resource, holders: &[Holder], doubt: String) -> Refusal {
    let ids = |cores| offer::ids_of(topology, resource, cores).join(",");
    let all = holders.iter().fold(CoreSet::EMPTY, |all, holder| all.union(holder.cores));
    let each = holders.iter().map(|holder| format!("{holder} holds {}", ids(holder.cores)));
    Refusal::Held {
        ids: ids(all),
        resource: resource.name(),
        holders: each.collect::<Vec<_>>().join(", "),
        doubt,
    }
}
