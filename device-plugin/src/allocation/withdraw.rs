//! Withdraws hardware that is held under another name, where that is wanted. Followed by `report::upkeep`, listed by
//! `kubelet::service`.

use std::time::Duration;

use neuron_core::ids::CoreSet;
use tokio::time::Instant;

use crate::allocation::cross_resource::{CrossResource, Withdrawn};
use crate::allocation::engine::Engine;
use crate::hardware::machine::Machine;
use crate::resource::AdvertisedResource;

/// How long after an allocation nothing is withdrawn: a list that changes while kubelet writes down what the next container has can cost
/// its checkpoint that entry (docs/reference/kubernetes.md §7).
const SETTLES: Duration = Duration::from_secs(1);

impl Engine {
    /// Follows what is held under other names, once kubelet has written it down. What kubelet asks for meanwhile is refused.
    pub fn withdraw(&self, machine: &Machine) {
        if self.cross_resource == CrossResource::Refuse || self.settles_at().is_some() {
            return;
        }
        let withdrawn: Withdrawn = {
            let (state, slots) = self.current(machine);
            let held =
                |of: &AdvertisedResource| (of.name, state.ledger.held_under_others(&slots, of.name, of.unit));
            self.resources.iter().map(held).collect()
        };
        self.withdrawn.send_if_modified(|before| {
            let is_news = *before != withdrawn;
            *before = withdrawn;
            is_news
        });
    }

    /// When to follow it again though nobody tells of a change.
    pub fn withdraw_again_at(&self) -> Option<Instant> {
        if self.cross_resource == CrossResource::Refuse {
            return None;
        }
        let lives_until = self.state().ledger.just_given_until(Instant::now());
        self.settles_at().into_iter().chain(lives_until).min()
    }

    fn settles_at(&self) -> Option<Instant> {
        let settles = self.state().ledger.last_given()? + SETTLES;
        Some(settles).filter(|settles| *settles > Instant::now())
    }

    /// The cores that are withdrawn from a name now.
    pub fn withdrawn_from(&self, name: &str) -> CoreSet {
        self.withdrawn.borrow().get(name).copied().unwrap_or_default()
    }

    /// The cores that are withdrawn from any name now.
    pub fn withdrawn(&self) -> CoreSet {
        self.withdrawn.borrow().values().copied().fold(CoreSet::EMPTY, CoreSet::union)
    }
}
