//! Which ids suit best: the answer to GetPreferredAllocation.

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use neuron_core::ids::{CoreSet, DeviceSet};
use neuron_core::occupancy::Occupancy;
use neuron_core::placement::best_set;
use runtime::reached;
use tokio::time::{Instant, timeout_at};

use crate::allocation::deadlines::Deadlines;
use crate::allocation::engine::{Engine, State};
use crate::allocation::refusal::AllocationRefusal;
use crate::handover::mode::HandoverMode;
use crate::hardware::machine::Machine;
use crate::ledger::holders::Trust;
use crate::ledger::preference::{AmidAdmission, Question};
use crate::ledger::slot::Slot;
use crate::ledger::told::Told;
use crate::metrics::Call;
use crate::resource::{AdvertisedResource, ids_of, known_cores};

/// How long sets are sought that no process of a gone pod has open: a process' files may hang.
const LONGEST_LOOK: Duration = Duration::from_secs(2);

/// How long kubelet may take to tell its pods.
const LONGEST_TELLING: Duration = Duration::from_secs(1);

impl Engine {
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
        deadlines: &Deadlines,
    ) -> Result<Vec<String>, AllocationRefusal> {
        let machine = self.machine().ok_or(AllocationRefusal::NotReady)?;
        let (topology, unit) = (&machine.topology, resource.unit);
        let must = known_cores(topology, unit, must_include);
        let available = known_cores(topology, unit, available).union(must);
        let question =
            Question { name: resource.name, resource: unit, count, available, must, trust: Trust::Nobody };
        let mut changes = self.pods.changes();
        let (mut is_live, mut is_read) = (false, false);
        let mut told = None;
        loop {
            self.read_checkpoint_for_call(Call::GetPreferredAllocation, &machine, deadlines).await;
            if told.is_none() {
                told = self.told_who_asks(&machine, &question, deadlines).await;
            }
            let known = Known { machine: &machine, told: told.as_ref() };
            let (recorded, is_late) = self.recorded(&known, &question);
            // Where the pods cannot be read for long any linked set will do; none at all is worth asking for them again.
            let choose = |question| self.choose(&known, question, CoreSet::EMPTY);
            let is_guess = || Instant::now() >= deadlines.unread && choose(&question).is_some();
            let is_enough = || is_live && !is_late && (is_read || is_guess());
            if recorded.is_some() || Instant::now() >= deadlines.holder || is_enough() {
                // Where nobody tells whether a pod has ended, a linked set of what kubelet takes for free is the best guess: Allocate waits
                // for the end. What is promised to another pod that waits comes after that, though it is surely free.
                let trusting = Question { trust: Trust::Kubelet, ..question };
                let set = recorded
                    .or_else(|| choose(&question))
                    .or_else(|| self.recorded(&known, &trusting).0)
                    .or_else(|| choose(&trusting))
                    .or_else(|| self.choose_promised(&known, &question));
                let Some(set) = set else { return Ok(Vec::new()) };
                let set = self.not_open(&known, &question, set, deadlines).await;
                return Ok(ids_of(topology, unit, set));
            }
            if is_live {
                self.until_changed(Call::GetPreferredAllocation, &mut changes, deadlines.holder).await;
            }
            // The watch may lag the Binding, and the end of a pod whose devices kubelet offers.
            reached("plugin: live read for a preference");
            changes.mark_unchanged();
            let read = self.read_pods(Call::GetPreferredAllocation, !is_live, deadlines).await;
            is_read |= read.is_ok();
            if let Err(error) = read {
                reached("plugin: pods not read");
                // Planted: nothing is preferred then.
                #[cfg(planted)]
                if crate::pods::unread_prefers_nothing() {
                    return Ok(Vec::new());
                }
                if !is_live {
                    let (node, resource) = (&self.node, resource.name);
                    tracing::warn!(node, resource, reason = %error, "the pods could not be read; their records are not known");
                }
            }
            is_live = true;
        }
    }

    /// What kubelet tells of its pods, where it matters which one asks: it has a pod before it asks for it, and may not have one yet
    /// that was bound earlier.
    async fn told_who_asks(
        &self,
        machine: &Machine,
        question: &Question,
        deadlines: &Deadlines,
    ) -> Option<Told> {
        let is_unsure = {
            let (state, slots) = self.current(machine);
            state.ledger.is_unsure(&slots, question)
        };
        if !is_unsure {
            return None;
        }
        reached("plugin: kubelet asked whose question it is");
        let began = Instant::now();
        let told = timeout_at(deadlines.within(LONGEST_TELLING), self.pods.ask_kubelet()).await;
        self.metrics.holder_wait(Call::GetPreferredAllocation, began.elapsed());
        told.unwrap_or_default()
    }

    /// The ledger with the slots, of which those wait that kubelet may be asking for.
    fn current_for(&self, known: &Known<'_>) -> (MutexGuard<'_, State>, Arc<[Slot]>) {
        let (state, slots) = self.current(known.machine);
        let Some(told) = known.told else { return (state, slots) };
        let may_be_asked_for = |slot: &Slot| told.has(&slot.kubelet_uid);
        let slots =
            slots.iter().map(|slot| Slot { may_be_asked_for: may_be_asked_for(slot), ..slot.clone() });
        (state, slots.collect())
    }

    /// The recorded set to prefer, and if there is none, whether one may yet be: kubelet offers what a pod holds that it knows to have
    /// ended.
    fn recorded(&self, known: &Known<'_>, question: &Question) -> (Option<CoreSet>, bool) {
        let (state, slots) = self.current_for(known);
        let unhealthy = known.machine.topology.cores_of(known.machine.unhealthy());
        let held = state.ledger.available_held_by_others(&slots, question);
        let own = state.ledger.offer(&slots, question, held, unhealthy);
        if own.is_some() {
            return (own, false);
        }
        let held = state.ledger.held_by_others(&slots, question);
        let of_another = state.ledger.offer_of_another(&slots, question, held);
        let pod = of_another.and_then(|_| state.ledger.amid_admission(&slots, question));
        let taken = state.ledger.taken(&slots, question, held);
        let may_come =
            held.intersects(question.available) && state.ledger.has_record_for(&slots, question, unhealthy);
        drop(state);
        let is_fine = |set: &CoreSet| {
            pod.as_ref().is_none_or(|pod| leaves_enough(known.machine, question, taken, pod, *set))
        };
        let offer = of_another.filter(is_fine);
        let is_late = offer.is_none() && may_come;
        (offer, is_late)
    }

    /// The set, or another one where a process of a gone pod still has some of it open: the Allocate for that would have to wait, and
    /// might be refused. The first where all have, and where a pod may be asking that gets more than this: its record is right as a
    /// whole.
    async fn not_open(
        &self,
        known: &Known<'_>,
        question: &Question,
        set: CoreSet,
        deadlines: &Deadlines,
    ) -> CoreSet {
        let topology = &known.machine.topology;
        let is_part = {
            let (state, slots) = self.current_for(known);
            state.ledger.may_get_more(&slots, question)
        };
        if self.handover.mode != HandoverMode::Wait || is_part {
            return set;
        }
        let closed = async {
            let (mut preferred, mut open) = (set, CoreSet::EMPTY);
            loop {
                let gone = self.state().ledger.gone_holders(preferred, |uid| self.pods.life(uid));
                let devices = |(uid, cores): (&String, &CoreSet)| (uid.clone(), topology.devices_of(*cores));
                let devices = gone.iter().map(devices).collect();
                let Some(process) = self.handover.look(&devices, deadlines.answer).await.unwrap_or_default()
                else {
                    return preferred;
                };
                reached("plugin: set not preferred, still open");
                let of_device = topology.cores_of(DeviceSet::single(process.device));
                let had = gone.get(&process.pod_uid).copied().unwrap_or(preferred);
                open = open.union(had.intersection(of_device));
                match self.choose(known, question, open) {
                    Some(other) => preferred = other,
                    None => return set,
                }
            }
        };
        // Processes that cannot be looked at are waited for by Allocate, once.
        let began = Instant::now();
        let closed = timeout_at(deadlines.within(LONGEST_LOOK), closed).await;
        self.metrics.handover_wait(began.elapsed());
        closed.unwrap_or(set)
    }

    /// The best linked set that is free, without what is to be avoided: if a pod with more containers may be asking, one that leaves
    /// a set to each of them. What an init container hands down has to be among what comes after it.
    fn choose(&self, known: &Known<'_>, question: &Question, avoided: CoreSet) -> Option<CoreSet> {
        let (state, slots) = self.current_for(known);
        let held = state.ledger.held_by_others(&slots, question);
        let taken = state.ledger.taken(&slots, question, held).union(avoided);
        let pod = state.ledger.amid_admission(&slots, question);
        drop(state);
        best_beside(known.machine, question, taken, pod.as_ref())
    }

    /// The best linked set that nobody holds, though a record promises it to a pod that waits: another pod took what the asking one's
    /// record says. Without it kubelet would take any ids, which are refused or break more promises. Whoever gets nothing now has its
    /// record corrected, or is told.
    fn choose_promised(&self, known: &Known<'_>, question: &Question) -> Option<CoreSet> {
        let (state, slots) = self.current_for(known);
        let held = state.ledger.held_by_others(&slots, question);
        let pod = state.ledger.amid_admission(&slots, question);
        drop(state);
        let set = best_beside(known.machine, question, held, pod.as_ref())?;
        reached("plugin: set preferred that is promised to another pod");
        Some(set)
    }
}

/// What is known of a question beside what it says.
struct Known<'a> {
    machine: &'a Machine,
    /// What kubelet has told of its pods since it asked; none where it was not asked, or does not tell.
    told: Option<&'a Told>,
}

/// The best linked set beside what is taken; for a whole pod, if one is amid its admission.
fn best_beside(
    machine: &Machine,
    question: &Question,
    taken: CoreSet,
    pod: Option<&AmidAdmission>,
) -> Option<CoreSet> {
    let occupancy = occupancy(machine, taken);
    let of_pod = pod.and_then(|pod| pod.best_set(question, &occupancy));
    if of_pod.is_some() {
        reached("plugin: set chosen for a whole pod");
    }
    // Nothing is preferred where no set fits, and what kubelet takes instead is refused.
    let Question { resource, count, must, available, .. } = *question;
    of_pod.or_else(|| best_set(&occupancy, resource, count, must, available))
}

/// Whether the pod can be placed as a whole with the set, or cannot with another one either.
fn leaves_enough(
    machine: &Machine,
    question: &Question,
    taken: CoreSet,
    pod: &AmidAdmission,
    set: CoreSet,
) -> bool {
    let occupancy = occupancy(machine, taken);
    let with_it = Question { available: set, ..*question };
    pod.best_set(&with_it, &occupancy).is_some() || pod.best_set(question, &occupancy).is_none()
}

fn occupancy(machine: &Machine, taken: CoreSet) -> Occupancy {
    let mut occupancy = Occupancy::empty(Arc::clone(&machine.topology));
    occupancy.hold(taken);
    occupancy.set_unhealthy(machine.unhealthy());
    occupancy
}
