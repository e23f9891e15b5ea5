//! Which waiting pod's record a preference offers, and which pod a request is likely for. Likeness decides nothing else: what
//! kubelet gave is corrected on the record once the checkpoint says it. Asked by `engine`.

use neuron_core::ids::CoreSet;
use neuron_core::names::Resource;
use neuron_core::occupancy::Occupancy;
use neuron_core::placement::{Given, Turn, best_set_of_pod};
use neuron_core::request::{ContainerRequest, PodRequest};

use crate::ledger::Ledger;
use crate::ledger::answer::Asked;
use crate::ledger::holders::Trust;
use crate::ledger::slot::Slot;

/// A question for the ids to prefer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The name that is asked under, such as `aws.amazon.com/neuron`.
    pub name: &'static str,
    /// What one id of that name stands for.
    pub resource: Resource,
    /// Number of ids, at least 1.
    pub count: u32,
    /// The cores that kubelet takes for free under this name, with those of `must`.
    pub available: CoreSet,
    /// The cores that are to be among them: what an init container hands down.
    pub must: CoreSet,
    /// Whose word counts for what is free.
    pub trust: Trust,
}

/// A pod as far as it is admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmidAdmission {
    /// What it requests.
    pub request: PodRequest,
    /// What its containers have got.
    pub given: Vec<Given>,
    /// Index of the container that kubelet asks for.
    pub container: usize,
}

impl AmidAdmission {
    /// The set to choose with which its other containers can have theirs, if one is found.
    pub fn best_set(&self, question: &Question, occupancy: &Occupancy) -> Option<CoreSet> {
        let Question { resource, must, available: within, .. } = *question;
        let AmidAdmission { request, given, container } = self;
        let container = *container;
        best_set_of_pod(occupancy, &Turn { request, given, container, resource, must, within })
    }
}

/// When kubelet asks for a slot, soonest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    /// It is the next one of a pod that has been given something.
    Now,
    /// It is the first one of its pod.
    NextPod,
    /// Another container of its pod comes first.
    Later,
}

impl Question {
    fn allows(&self, set: CoreSet) -> bool {
        !set.is_empty() && set.is_subset(self.available) && self.must.is_subset(set)
    }
}

impl Ledger {
    /// What somebody else holds than the asking pod.
    pub fn held_by_others(&self, slots: &[Slot], question: &Question) -> CoreSet {
        self.held(slots, question.name, question.trust, None).difference(question.must)
    }

    /// As [`Ledger::held_by_others`], as far as it has cores that kubelet takes for free: mostly nothing, which costs less to tell.
    pub fn available_held_by_others(&self, slots: &[Slot], question: &Question) -> CoreSet {
        let held = self.held(slots, question.name, question.trust, Some(question.available));
        held.difference(question.must)
    }

    /// The recorded set to offer for a question, `held` by nobody: of the earliest bound pod that asks for as much and was not given it
    /// yet. A record of which a container that waits would get `unhealthy` cores is of no use to the others of its pod either.
    pub fn offer(
        &self,
        slots: &[Slot],
        question: &Question,
        held: CoreSet,
        unhealthy: CoreSet,
    ) -> Option<CoreSet> {
        let waiting = self
            .waiting(slots, question.resource, question.count)
            .filter(|slot| !self.is_broken(slots, slot, unhealthy));
        first_free(waiting, question, held)
    }

    /// The recorded set of a pod that asked for as much and was given another: so the records together stay right about what is taken
    /// until each is corrected.
    pub fn offer_of_another(&self, slots: &[Slot], question: &Question, held: CoreSet) -> Option<CoreSet> {
        let alike =
            slots.iter().filter(|slot| slot.resource == question.resource && slot.count == question.count);
        let given = alike.filter(|slot| slot.started || self.entry_of(slot).is_some());
        first_free(given, question, held)
    }

    /// Whether a pod that waits has a record that would be offered if nobody held any of it.
    pub fn has_record_for(&self, slots: &[Slot], question: &Question, unhealthy: CoreSet) -> bool {
        let mut waiting = self
            .waiting(slots, question.resource, question.count)
            .filter(|slot| !self.is_broken(slots, slot, unhealthy));
        waiting.any(|slot| slot.recorded.is_some_and(|set| question.allows(set)))
    }

    /// Whether the record of the slot's pod gives `unhealthy` cores to one of its containers that waits.
    fn is_broken(&self, slots: &[Slot], slot: &Slot, unhealthy: CoreSet) -> bool {
        let waiting = slots.iter().filter(|own| own.uid == slot.uid && self.waits(own));
        waiting.filter_map(|own| own.recorded).any(|set| set.intersects(unhealthy))
    }

    /// Whether pods that may be asking differ in what else they ask for: then it matters which one asks, and no question says it.
    pub fn is_unsure(&self, slots: &[Slot], question: &Question) -> bool {
        let asks_for = |uid: &str| {
            let own = slots.iter().filter(|slot| slot.uid == uid);
            own.map(|slot| (&slot.container, slot.role, slot.resource, slot.count)).collect::<Vec<_>>()
        };
        let mut asking =
            self.waiting(slots, question.resource, question.count).map(|slot| asks_for(&slot.uid));
        let first = asking.next();
        asking.any(|other| first.as_ref() != Some(&other))
    }

    /// Whether a pod that may be asking has more to get than what is asked for: what its containers get depends on one another, as what
    /// an init container hands down has to be among what comes after it.
    pub fn may_get_more(&self, slots: &[Slot], question: &Question) -> bool {
        let mut asking = self.waiting(slots, question.resource, question.count);
        asking.any(|asks| slots.iter().filter(|slot| slot.uid == asks.uid).count() > 1)
    }

    /// What is not to be chosen for a question that no record can be offered for: what is `held`, and what records promise to other pods
    /// than those that may be asking. What is handed down is the asking pod's own, whoever's record promises it.
    pub fn taken(&self, slots: &[Slot], question: &Question, held: CoreSet) -> CoreSet {
        let may_ask =
            |uid: &str| self.waiting(slots, question.resource, question.count).any(|slot| slot.uid == uid);
        let others = slots.iter().filter(|slot| self.entry_of(slot).is_none() && !may_ask(&slot.uid));
        others.filter_map(|slot| slot.recorded).fold(held, CoreSet::union).difference(question.must)
    }

    /// The likeliest pod to be asking of those that have more than one to get, as far as it is admitted; none where there is none.
    pub fn amid_admission(&self, slots: &[Slot], question: &Question) -> Option<AmidAdmission> {
        let mut asking = self.waiting(slots, question.resource, question.count);
        asking.find_map(|asks| self.admitted_so_far(slots, asks))
    }

    /// The request of the pod whose slot `asks`, what it has got, and the asking container's index; none where it has one slot only,
    /// or kubelet would ask for an earlier container first.
    fn admitted_so_far(&self, slots: &[Slot], asks: &Slot) -> Option<AmidAdmission> {
        let (mut request, mut given, mut asking) = (PodRequest::default(), Vec::new(), None);
        let containers = &mut request.containers;
        for slot in slots.iter().filter(|slot| slot.uid == asks.uid) {
            if containers.last().is_none_or(|last| *last.name != *slot.container) {
                let (name, role) = (slot.container.as_str().into(), slot.role);
                containers.push(ContainerRequest { name, role, devices: 0, cores: 0 });
            }
            let container = containers.last_mut()?;
            match slot.resource {
                Resource::Device => container.devices = slot.count,
                Resource::Core => container.cores = slot.count,
            }
            let index = containers.len() - 1;
            match self.entry_of(slot) {
                _ if slot == asks => asking = Some(index),
                Some(cores) => given.push((index, slot.resource, cores)),
                None if asking.is_none() && slot.container != asks.container => return None,
                // kubelet writes down a container's resources together: the answer for its other name stands in no checkpoint yet.
                None if slot.container == asks.container => {
                    let answer = self.answers().iter().rfind(|answer| answer.suits(slot));
                    given.extend(answer.map(|answer| (index, slot.resource, answer.cores)));
                }
                None => {}
            }
        }
        let has_more = slots.iter().filter(|slot| slot.uid == asks.uid).nth(1).is_some();
        Some(AmidAdmission { request, given, container: asking? }).filter(|_| has_more)
    }

    /// The slot that a request is for, if only one pod can be meant or one's record says exactly this.
    pub fn likely<'a>(&self, slots: &'a [Slot], asked: &Asked) -> Option<&'a Slot> {
        let asking = self.asking(slots, asked);
        let recorded = asking.iter().find(|slot| slot.recorded == Some(asked.cores));
        let only = || asking.first().filter(|first| asking.iter().all(|slot| slot.uid == first.uid));
        recorded.or_else(only).copied()
    }

    /// The slots that a request can be for.
    pub fn asking<'a>(&self, slots: &'a [Slot], asked: &Asked) -> Vec<&'a Slot> {
        self.waiting(slots, asked.resource, asked.count).collect()
    }

    /// Whether a container that asks under both names may be the one that asks, or another one: then its numbers cannot be counted over
    /// all that it has, and kubelet drops one of two device nodes of one path without a word.
    pub fn is_open_who_asks_for_both(&self, slots: &[Slot], asked: &Asked) -> bool {
        let is_of = |one: &Slot, other: &Slot| one.uid == other.uid && one.container == other.container;
        let asking = self.asking(slots, asked);
        let other_name =
            |asks: &&Slot| slots.iter().find(|slot| is_of(slot, asks) && slot.resource != asks.resource);
        let Some(other) = asking.iter().find_map(other_name) else { return false };
        // kubelet asks for the names of one container one right after the other: the second is numbered as the first.
        if let Some(first) = self.answers().iter().rfind(|answer| answer.suits(other)) {
            return first.by_host;
        }
        let mut all = asking.iter().copied().chain(self.waiting(slots, other.resource, other.count));
        all.any(|slot| !is_of(slot, other))
    }

    /// The slots that ask for so many and wait for them, the likeliest first: kubelet asks for the containers of one pod one right
    /// after another.
    fn waiting<'a>(
        &self,
        slots: &'a [Slot],
        resource: Resource,
        count: u32,
    ) -> impl Iterator<Item = &'a Slot> {
        let is_alike = |slot: &&Slot| slot.resource == resource && slot.count == count && self.waits(slot);
        let mut waiting: Vec<&Slot> = slots.iter().filter(is_alike).collect();
        waiting.sort_by_cached_key(|slot| self.order(slots, slot));
        waiting.into_iter()
    }

    /// Whether it is a waiting slot's turn, as far as the checkpoint shows, which may lag.
    fn order(&self, slots: &[Slot], slot: &Slot) -> Order {
        let own = || slots.iter().filter(|other| other.uid == slot.uid);
        let mut before = own().take_while(|other| other.container != slot.container);
        if before.any(|earlier| self.waits(earlier)) {
            return Order::Later;
        }
        let is_amid = own().any(|other| self.entry_of(other).is_some());
        if is_amid { Order::Now } else { Order::NextPod }
    }

    /// Whether kubelet may yet ask for a slot.
    fn waits(&self, slot: &Slot) -> bool {
        slot.may_be_asked_for && !slot.started && self.entry_of(slot).is_none()
    }
}

/// The first recorded set that the question allows and nobody holds.
fn first_free<'a>(
    records: impl Iterator<Item = &'a Slot>,
    question: &Question,
    held: CoreSet,
) -> Option<CoreSet> {
    let mut recorded = records.filter_map(|slot| slot.recorded);
    recorded.find(|set| question.allows(*set) && !set.intersects(held))
}
