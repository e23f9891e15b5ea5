//! What is counted since the start. Values that are known before are shown as 0, so that a first one is an increase.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::{Registry, Unit};
use runtime::metrics::{Seconds, seconds};

use super::Call;
use super::labels::{OfCall, OfOutcome, OfReason, OfResource, OfResult};

/// The counters.
#[derive(Debug)]
pub(super) struct Counters {
    pub(super) allocate: Seconds<OfOutcome>,
    pub(super) preferred: Seconds<OfOutcome>,
    pub(super) refusals: Family<OfReason, Counter>,
    pub(super) registrations: Family<OfOutcome, Counter>,
    pub(super) already_connected: Family<OfResource, Counter>,
    pub(super) holder_waits: Family<OfCall, Counter<f64, AtomicU64>>,
    pub(super) checkpoint_waits: Family<OfCall, Counter<f64, AtomicU64>>,
    pub(super) handovers: Family<OfResult, Counter>,
    pub(super) handover_waits: Counter<f64, AtomicU64>,
    pub(super) corrections: Family<OfResult, Counter>,
}

impl Default for Counters {
    fn default() -> Self {
        let counters = Self {
            allocate: seconds(),
            preferred: seconds(),
            refusals: Family::default(),
            registrations: Family::default(),
            already_connected: Family::default(),
            holder_waits: Family::default(),
            checkpoint_waits: Family::default(),
            handovers: Family::default(),
            handover_waits: Counter::default(),
            corrections: Family::default(),
        };
        for call in [Call::Allocate, Call::GetPreferredAllocation] {
            drop(counters.holder_waits.get_or_create(&OfCall { call: name(call) }));
            drop(counters.checkpoint_waits.get_or_create(&OfCall { call: name(call) }));
        }
        for result in ["closed", "refused", "marked"] {
            drop(counters.handovers.get_or_create(&OfResult { result }));
        }
        for result in ["corrected", "failed"] {
            drop(counters.corrections.get_or_create(&OfResult { result }));
        }
        counters
    }
}

impl Counters {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "allocate",
            "Allocate calls, by the time that they took",
            Unit::Seconds,
            self.allocate.clone(),
        );
        registry.register_with_unit(
            "preferred_allocation",
            "GetPreferredAllocation calls, by the time that they took",
            Unit::Seconds,
            self.preferred.clone(),
        );
        registry.register("refusals", "Allocate calls that were refused", self.refusals.clone());
        registry.register("registrations", "Registrations with kubelet", self.registrations.clone());
        registry.register(
            "already_connected",
            "Registrations that kubelet refused because it still held the path of the socket",
            self.already_connected.clone(),
        );
        registry.register_with_unit(
            "holder_wait",
            "Time that calls have waited for the end of a pod whose devices kubelet offers, and for lists of pods",
            Unit::Seconds,
            self.holder_waits.clone(),
        );
        registry.register_with_unit(
            "checkpoint_wait",
            "Time that calls have waited for kubelet's checkpoint",
            Unit::Seconds,
            self.checkpoint_waits.clone(),
        );
        registry.register(
            "handovers",
            "Allocate calls whose devices a process of a gone pod had open",
            self.handovers.clone(),
        );
        registry.register_with_unit(
            "handover_wait",
            "Time that calls have waited for processes of gone pods",
            Unit::Seconds,
            self.handover_waits.clone(),
        );
        registry.register(
            "record_corrections",
            "Records that said something else than what kubelet had given",
            self.corrections.clone(),
        );
    }
}

pub(super) fn name(call: Call) -> &'static str {
    match call {
        Call::Allocate => "Allocate",
        Call::GetPreferredAllocation => "GetPreferredAllocation",
    }
}
