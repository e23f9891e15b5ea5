//! Which ids suit best: the answer to GetPreferredAllocation.

use std::sync::Arc;

use neuron_core::ids::CoreSet;
use neuron_core::occupancy::Occupancy;
use neuron_core::placement::best_set;
use runtime::reached;
use tokio::time::Instant;

use crate::allocation::engine::Engine;
use crate::allocation::refusal::AllocationRefusal;
use crate::hardware::machine::Machine;
use crate::ledger::holders::Trust;
use crate::ledger::preference::Question;
use crate::resource::{AdvertisedResource, ids_of, known_cores};

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
    ) -> Result<Vec<String>, AllocationRefusal> {
        let machine = self.machine().ok_or(AllocationRefusal::NotReady)?;
        let (topology, unit) = (&machine.topology, resource.unit);
        let must = known_cores(topology, unit, must_include);
        let available = known_cores(topology, unit, available).union(must);
        let question =
            Question { name: resource.name, resource: unit, count, available, must, trust: Trust::Nobody };
        let deadline = Instant::now() + self.holder_timeout;
        let mut changes = self.pods.changes();
        let (mut is_live, mut is_read) = (false, false);
        loop {
            self.read_checkpoint(&machine).await;
            let (recorded, is_late) = self.recorded(&machine, &question);
            // Where the pods cannot be read any linked set will do; none at all is worth asking for them again.
            let is_enough = || is_live && !is_late && (is_read || self.choose(&machine, &question).is_some());
            if recorded.is_some() || Instant::now() >= deadline || is_enough() {
                // Where nobody tells whether a pod has ended, a linked set of what kubelet takes for free is the best guess.
                let trusting = Question { trust: Trust::Kubelet, ..question };
                let set = recorded
                    .or_else(|| self.choose(&machine, &question))
                    .or_else(|| self.recorded(&machine, &trusting).0)
                    .or_else(|| self.choose(&machine, &trusting));
                return Ok(set.map(|set| ids_of(topology, unit, set)).unwrap_or_default());
            }
            if is_live {
                self.until_changed(&mut changes, deadline).await;
            }
            // The watch may lag the Binding, and the end of a pod whose devices kubelet offers.
            reached("plugin: live read for a preference");
            changes.mark_unchanged();
            let read = self.pods.read_live().await;
            is_read = read.is_ok();
            if let Err(error) = read {
                reached("plugin: pods not read");
                if !is_live {
                    let (node, resource) = (&self.node, resource.name);
                    tracing::warn!(node, resource, reason = %error, "the pods could not be read; their records are not known");
                }
            }
            is_live = true;
        }
    }

    /// The recorded set to prefer, and if there is none, whether one may yet be: kubelet offers what a pod holds that it knows to have
    /// ended.
    fn recorded(&self, machine: &Machine, question: &Question) -> (Option<CoreSet>, bool) {
        let (state, slots) = self.current(machine);
        let offer = state.ledger.offer(&slots, question);
        let held = state.ledger.held(&slots, question.name, question.trust).difference(question.must);
        let is_late = offer.is_none()
            && held.intersects(question.available)
            && state.ledger.has_record_for(&slots, question);
        (offer, is_late)
    }

    fn choose(&self, machine: &Machine, question: &Question) -> Option<CoreSet> {
        let mut occupancy = Occupancy::empty(Arc::clone(&machine.topology));
        let (state, slots) = self.current(machine);
        occupancy.hold(state.ledger.taken(&slots, question));
        drop(state);
        occupancy.set_unhealthy(machine.unhealthy());
        // Nothing is preferred where no set fits, and what kubelet takes instead is refused.
        let Question { resource, count, must, available, .. } = *question;
        best_set(&occupancy, resource, count, must, available)
    }
}
