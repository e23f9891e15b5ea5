//! Whether a container gets the ids that kubelet chose: the answer to Allocate.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::ObjectReference;
use kubelet_api::deviceplugin::v1beta1::ContainerAllocateResponse;
use neuron_core::ids::{CoreSet, DeviceSet};
use neuron_core::topology::Topology;
use runtime::reached;
use tokio::time::Instant;

use crate::allocation::cdi::by_name;
use crate::allocation::deadlines::Deadlines;
use crate::allocation::engine::Engine;
use crate::allocation::export::export;
use crate::allocation::injection::DeviceInjection;
use crate::allocation::refusal::AllocationRefusal;
use crate::config::Numbering;
use crate::events::pod_reference;
use crate::handover::mode::HandoverMode;
use crate::hardware::machine::Machine;
use crate::ledger::answer::Asked;
use crate::ledger::holders::Holder;
use crate::ledger::slot::Slot;
use crate::metrics::Call;
use crate::resource::{AdvertisedResource, cores_of, count_of, ids_of};

/// A container that may have its ids.
struct Admitted {
    /// `namespace/name`, if only one pod can be meant.
    pod: Option<String>,
    /// Every device of the container under either resource name, as far as known.
    devices: DeviceSet,
}

/// What is to be done with a request; with the slots that it can be for.
enum Decision {
    Admitted(Admitted),
    NotAllowed(Vec<Slot>),
    Held(Vec<Holder>, Vec<Slot>),
    /// Gone pods have had these of its cores, by UID: their processes are to be looked at first.
    Gone(BTreeMap<String, CoreSet>, Vec<Slot>),
    /// It is not known which pod it is for, which has to be.
    NotSure,
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
    /// What a container gets for `ids`: exactly what they mean.
    ///
    /// # Errors
    /// Ids that do not exist, are unhealthy, are no candidate set or are held by another live pod.
    pub async fn allocate(
        &self,
        resource: &AdvertisedResource,
        ids: &[String],
        deadlines: &Deadlines,
    ) -> Result<ContainerAllocateResponse, AllocationRefusal> {
        let (node, resource_name, began) = (&self.node, resource.name, Instant::now());
        match self.try_allocate(resource, ids, deadlines).await {
            Ok((response, pod, devices, cores)) => {
                self.changed.notify_one();
                self.metrics.allocate(resource_name, began.elapsed(), None);
                tracing::info!(node, pod, resource = resource_name, %devices, %cores, "allocated");
                Ok(response)
            }
            Err(Refused { refusal, pod }) => {
                refusal.count();
                self.metrics.allocate(resource_name, began.elapsed(), Some(refusal.name()));
                tracing::warn!(node, pod, resource = resource_name, reason = %refusal, "allocation refused");
                Err(refusal)
            }
        }
    }

    async fn try_allocate(
        &self,
        resource: &AdvertisedResource,
        ids: &[String],
        deadlines: &Deadlines,
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
        let count = count_of(topology, unit, cores);
        let asked = Asked { name: resource.name, resource: unit, cores, count };
        let admitted = self.admit(&machine, &asked, deadlines).await?;
        let (devices_of_container, told_lnc) = (admitted.devices, machine.told_lnc());
        let response =
            export(&self.root, topology, self.numbering, unit, cores, devices_of_container, told_lnc);
        let response = match self.injection {
            DeviceInjection::DeviceSpecs => response,
            DeviceInjection::Cdi => by_name(response),
        };
        // Planted: of two pods that ask for as much at one time the second is told what the first has.
        #[cfg(planted)]
        let response = if runtime::is_planted("answer-repeated") {
            self.state().repeated(admitted.pod.as_deref(), ids.len(), response)
        } else {
            response
        };
        Ok((response, admitted.pod, devices, cores))
    }

    /// Answers a request as soon as nobody stands in its way. kubelet frees what a pod had before the API server shows that the pod
    /// has ended, and the watch is later still: so long a request waits.
    async fn admit(
        &self,
        machine: &Machine,
        asked: &Asked,
        deadlines: &Deadlines,
    ) -> Result<Admitted, Refused> {
        let mut changes = self.pods.changes();
        let (mut doubt, mut handover) = (None, None);
        // Gone pods whose processes have been looked at.
        let mut looked_at = BTreeSet::new();
        loop {
            self.read_checkpoint_for_call(Call::Allocate, machine, deadlines).await;
            let is_last = Instant::now() >= deadlines.holder;
            match self.decide(machine, asked, doubt.is_some(), &looked_at) {
                Decision::Admitted(admitted) => return Ok(admitted),
                Decision::Gone(gone, asking) => {
                    let until =
                        *handover.get_or_insert_with(|| deadlines.handover(self.handover.wait_at_most()));
                    self.hand_over(machine, asked, &gone, &asking, (until, deadlines.answer)).await?;
                    looked_at.extend(gone.into_keys());
                    continue;
                }
                Decision::NotAllowed(asking) if let Some(doubt) = doubt => {
                    return Err(
                        self.refuse(&asking, AllocationRefusal::not_allowed(&machine.topology, asked, doubt))
                    );
                }
                Decision::Held(holders, asking) if is_last && let Some(doubt) = doubt => {
                    return Err(self.refuse(
                        &asking,
                        AllocationRefusal::held(&machine.topology, asked, &holders, doubt),
                    ));
                }
                Decision::Held(..) if doubt.is_some() => {
                    self.until_changed(Call::Allocate, &mut changes, deadlines.holder).await
                }
                Decision::NotAllowed(_) | Decision::Held(..) | Decision::NotSure => {}
            }
            reached("plugin: live read for an allocation");
            changes.mark_unchanged();
            doubt = Some(match self.read_pods(Call::Allocate, doubt.is_none(), deadlines).await {
                Ok(()) => String::new(),
                Err(error) => {
                    reached("plugin: pods not read");
                    format!(" (not confirmed: {error})")
                }
            });
        }
    }

    /// Waits until no process of these gone pods has the devices open that are asked for, as far as it is to be waited for: `until` then,
    /// and for the last look until the `answer` is due.
    async fn hand_over(
        &self,
        machine: &Machine,
        asked: &Asked,
        gone: &BTreeMap<String, CoreSet>,
        asking: &[Slot],
        (until, answer): (Instant, Instant),
    ) -> Result<(), Refused> {
        let topology = &machine.topology;
        let devices = gone.iter().map(|(uid, cores)| (uid.clone(), topology.devices_of(*cores))).collect();
        let Some(process) = self.handover.wait(&devices, until, answer).await else { return Ok(()) };
        let had = gone.get(&process.pod_uid).copied().unwrap_or(asked.cores);
        let ids = ids_of(topology, asked.resource, had).join(",");
        if self.handover.mode == HandoverMode::Wait {
            let refusal = AllocationRefusal::StillOpen { ids, resource: asked.name, process };
            return Err(self.refuse(asking, refusal));
        }
        reached("plugin: process of a gone pod marked");
        let note = format!("{ids} of {} are given though {process}", asked.name);
        tracing::warn!(node = self.node, resource = asked.name, reason = note, "a device is still open");
        let (about, events) = (self.only_pod(asking), self.events.clone());
        drop(self.system.spawn(async move { events.still_open(about, note).await }));
        Ok(())
    }

    /// Judges and writes down in one step. `is_sure` is whether the pods were read live: before, a container whose devices are counted
    /// from 0 is not answered for whose pod is not known. `looked_at` are gone pods whose processes need not be looked at again.
    fn decide(
        &self,
        machine: &Machine,
        asked: &Asked,
        is_sure: bool,
        looked_at: &BTreeSet<String>,
    ) -> Decision {
        let topology = &machine.topology;
        let (mut state, slots) = self.current(machine);
        let asking = || state.ledger.asking(&slots, asked).into_iter().cloned().collect();
        let holders = state.ledger.holders(&slots, asked);
        if !holders.is_empty() {
            return Decision::Held(holders, asking());
        }
        if !allowed(topology, &slots, asked) {
            return Decision::NotAllowed(asking());
        }
        let slot = state.ledger.likely(&slots, asked).cloned();
        if slot.is_none() && !is_sure && self.numbering == Numbering::Renumbered {
            return Decision::NotSure;
        }
        let gone = state.ledger.gone_holders(asked.cores, |uid| self.pods.life(uid));
        if self.handover.mode != HandoverMode::Off && gone.keys().any(|uid| !looked_at.contains(uid)) {
            return Decision::Gone(gone, asking());
        }
        let by_host =
            self.numbering == Numbering::Renumbered && state.ledger.is_open_who_asks_for_both(&slots, asked);
        state.ledger.answer(asked, Instant::now());
        state.ledger.handed_over(gone.keys(), asked.cores);
        if by_host {
            reached("plugin: numbers of the host where it is open who asks");
            state.ledger.answered_by_host();
            // Among all devices each has its own number.
            let devices = topology.all_devices();
            return Decision::Admitted(Admitted { pod: slot.map(|slot| slot.pod), devices });
        }
        let Some(slot) = slot else {
            return Decision::Admitted(Admitted { pod: None, devices: DeviceSet::EMPTY });
        };
        let same = |other: &&Slot| other.uid == slot.uid && other.container == slot.container;
        let all = slots.iter().filter(same).filter_map(|slot| slot.recorded);
        let devices = topology.devices_of(all.fold(CoreSet::EMPTY, CoreSet::union));
        Decision::Admitted(Admitted { pod: Some(slot.pod), devices })
    }

    /// Writes an event about the pod, or about the node if several pods can be meant.
    fn refuse(&self, asking: &[Slot], refusal: AllocationRefusal) -> Refused {
        let (about, events, note) = (self.only_pod(asking), self.events.clone(), refusal.to_string());
        drop(self.system.spawn(async move { events.refused(about, note).await }));
        Refused { refusal, pod: only(asking).map(|slot| slot.pod.clone()) }
    }

    /// The pod that asks, if only one can be meant.
    fn only_pod(&self, asking: &[Slot]) -> Option<ObjectReference> {
        let uid = &only(asking)?.uid;
        let pods = self.pods.living().unwrap_or_default();
        pods.iter().find(|pod| *pod.pod.uid == **uid).map(|pod| pod_reference(&pod.pod))
    }
}

/// The first slot, if all are of one pod.
fn only(asking: &[Slot]) -> Option<&Slot> {
    asking.first().filter(|first| asking.iter().all(|slot| slot.uid == first.uid))
}

/// Whether a container may have exactly these: the type allows the set, or a live pod's record that counts says so
/// (whoever placed it).
fn allowed(topology: &Topology, slots: &[Slot], asked: &Asked) -> bool {
    topology.is_candidate_set(asked.resource, asked.cores)
        || slots.iter().any(|slot| slot.resource == asked.resource && slot.recorded == Some(asked.cores))
}
