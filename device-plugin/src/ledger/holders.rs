//! Who stands in the way of an Allocate. Asked by `engine`.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt;

use neuron_core::ids::CoreSet;
use neuron_core::names::Resource;
use neuron_core::request::Role;

use crate::ledger::answer::Asked;
use crate::ledger::slot::Slot;
use crate::ledger::{Entry, Ledger};

/// Who holds cores of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Who it is.
    pub who: Who,
    /// The cores in question.
    pub cores: CoreSet,
}

/// A holder, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// The pod, as `namespace/name`.
    Pod(String),
    /// The pod that kubelet names by this UID and no list has shown.
    Uid(String),
    /// A container that this plugin has answered for and kubelet has not written down yet.
    Unwritten,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Who::Pod(pod) => write!(f, "pod {pod}"),
            Who::Uid(uid) => write!(f, "the pod with UID {uid}, which the API server does not show,"),
            Who::Unwritten => f.write_str("a container that kubelet has not written down yet"),
        }
    }
}

/// Whose word counts for what is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Only what is known to have ended is free.
    Nobody,
    /// What kubelet takes for free is, under its own name.
    Kubelet,
}

impl Ledger {
    /// Who holds cores of a request; nobody if it may be answered. kubelet's word for what is free counts only under its own name,
    /// and not where the checkpoint or the record of a container that may run says otherwise: after a lost checkpoint, and after somebody's
    /// `List` amid an Allocate, kubelet offers what is held.
    pub fn holders(&self, slots: &[Slot], asked: &Asked) -> Vec<Holder> {
        let mut holders: Vec<Holder> = Vec::new();
        self.each_held(slots, asked.name, Trust::Nobody, Some(asked.cores), |who, held| {
            let (who, cores) = (who(), held.intersection(asked.cores));
            match holders.iter_mut().find(|holder| holder.who == who) {
                Some(holder) => holder.cores = holder.cores.union(cores),
                None => holders.push(Holder { who, cores }),
            }
        });
        holders
    }

    /// Every core that somebody holds, so that nothing may be answered for it under this name. With `among` what has none of those cores is
    /// left out.
    pub(crate) fn held(&self, slots: &[Slot], name: &str, trust: Trust, among: Option<CoreSet>) -> CoreSet {
        let mut all = CoreSet::EMPTY;
        self.each_held(slots, name, trust, among, |_, held| all = all.union(held));
        all
    }

    /// The cores that the checkpoint names under other names than this, and those of containers of the other unit that it has lost.
    /// None that it names under this name: kubelet refuses a container at its next admission whose own ids are unhealthy.
    pub fn held_under_others(&self, slots: &[Slot], name: &str, unit: Resource) -> CoreSet {
        let named = |is_own: bool| {
            let entries = self.living().filter(move |entry| (entry.name == name) == is_own);
            entries.map(|entry| entry.cores).fold(CoreSet::EMPTY, CoreSet::union)
        };
        let lost = slots.iter().filter(|slot| slot.resource != unit && self.holds_unnamed(slot));
        let lost = lost.filter_map(|slot| self.last_known(slot)).fold(CoreSet::EMPTY, CoreSet::union);
        named(false).union(lost).difference(named(true))
    }

    /// What stands in the way of a request under this name, piece by piece, and how to tell who has it: of what has one of the cores
    /// `among`, or of everything.
    fn each_held(
        &self,
        slots: &[Slot],
        name: &str,
        trust: Trust,
        among: Option<CoreSet>,
        mut each: impl FnMut(&dyn Fn() -> Who, CoreSet),
    ) {
        let matters = |cores: CoreSet| among.is_none_or(|among| cores.intersects(among));
        let by_pod = OnceCell::new();
        for entry in self.living().filter(|entry| matters(entry.cores)) {
            let by_pod = by_pod.get_or_init(|| of_pods(slots));
            let own = by_pod.get(entry.uid.as_str()).copied().unwrap_or_default();
            let is_trusted = trust == Trust::Kubelet || !self.pods_known;
            let is_free = entry.name == name && (is_trusted || self.is_handed_down(own, entry));
            // Planted: what kubelet has given under the other name is free.
            #[cfg(planted)]
            let is_free = is_free || entry.name != name && runtime::is_planted("other-name-not-looked-at");
            if !is_free {
                let who = || {
                    let pod = own.first();
                    pod.map_or_else(|| Who::Uid(entry.uid.clone()), |slot| Who::Pod(slot.pod.clone()))
                };
                each(&who, entry.cores);
            }
        }
        for slot in slots.iter().filter(|slot| self.holds_unnamed(slot)) {
            let cores = self.last_known(slot).unwrap_or_default();
            if matters(cores) {
                each(&|| Who::Pod(slot.pod.clone()), cores);
            }
        }
        for slot in slots {
            let more = self.runs_on_with(slot);
            if !more.is_empty() && matters(more) {
                each(&|| Who::Pod(slot.pod.clone()), more);
            }
        }
        let unwritten = self.answers().iter().filter(|answer| answer.name != name && matters(answer.cores));
        for answer in unwritten {
            each(&|| Who::Unwritten, answer.cores);
        }
    }

    /// Whether kubelet may give an init container's ids to a later container of its pod, whose slots these are: there is one that has
    /// none yet. Of a pod that no list has shown nothing is known, but that kubelet asks for the containers of one pod after another's.
    fn is_handed_down(&self, of_pod: &[Slot], entry: &Entry) -> bool {
        if of_pod.is_empty() {
            return true;
        }
        let own = of_pod.iter().filter(|slot| slot.resource == entry.resource);
        let mut later = own.skip_while(|slot| slot.container != entry.container);
        later.next().is_some_and(|slot| slot.role == Role::Init)
            && later.any(|slot| self.entry_of(slot).is_none())
    }
}

/// The slots of each pod, by its UID as kubelet has it: those of one pod stand together.
fn of_pods(slots: &[Slot]) -> BTreeMap<&str, &[Slot]> {
    let of_pod = slots.chunk_by(|one, other| one.kubelet_uid == other.kubelet_uid);
    of_pod.filter_map(|own| Some((own.first()?.kubelet_uid.as_str(), own))).collect()
}
