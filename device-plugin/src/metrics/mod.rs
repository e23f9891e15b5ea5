//! What Prometheus is told, at `/metrics`: what was counted since the start, and what is [`Now`], looked up when it is asked for.
//! Counted by `kubelet`, `allocation`, `handover` and `report`, shown by `healthz`, listed in docs/metrics.md.

mod counters;
mod labels;
mod now;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::registry::Registry;

use self::counters::Counters;
use self::labels::{OfCall, OfOutcome, OfReason, OfResource, OfResult};
use self::now::Gauges;
pub use self::now::Now;

/// What every name begins with.
const PREFIX: &str = "neuron_device_plugin";

/// A call of kubelet that may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// For the ids that kubelet has chosen.
    Allocate,
    /// Before kubelet chooses.
    GetPreferredAllocation,
}

/// What a GetPreferredAllocation was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preferred {
    /// A set of ids.
    Set,
    /// No set fits.
    Nothing,
    /// Nothing is known yet.
    Refused,
}

/// How an Allocate ended whose devices a process of a gone pod had open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandoverResult {
    /// It closed them in time.
    Closed,
    /// The Allocate was refused.
    Refused,
    /// They were given out all the same.
    Marked,
}

/// The plugin's metrics.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    counters: Counters,
    gauges: Gauges,
    /// Held by who shows the gauges: they are set, and what is over is taken away, as somebody asks.
    shown: Mutex<()>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix(PREFIX);
        let (counters, gauges) = (Counters::default(), Gauges::default());
        counters.register(&mut registry);
        gauges.register(&mut registry);
        Self { registry, counters, gauges, shown: Mutex::default() }
    }
}

impl Metrics {
    /// The resource is counted from now on.
    pub fn starting(&self, resource: &'static str) {
        drop(self.counters.already_connected.get_or_create(&OfResource { resource }));
        for result in ["registered", "failed"] {
            drop(self.counters.registrations.get_or_create(&OfOutcome { resource, result }));
        }
    }

    /// kubelet has registered the resource, or has not.
    pub fn registration(&self, resource: &'static str, is_registered: bool) {
        let result = if is_registered { "registered" } else { "failed" };
        self.counters.registrations.get_or_create(&OfOutcome { resource, result }).inc();
    }

    /// kubelet refused a registration because it still held the path of the socket.
    pub fn already_connected(&self, resource: &'static str) {
        self.counters.already_connected.get_or_create(&OfResource { resource }).inc();
    }

    /// An Allocate was answered after so long. `refused`: why, if it was.
    pub fn allocate(&self, resource: &'static str, took: Duration, refused: Option<&'static str>) {
        let result = if refused.is_some() { "refused" } else { "given" };
        self.counters.allocate.get_or_create(&OfOutcome { resource, result }).observe(took.as_secs_f64());
        if let Some(reason) = refused {
            self.counters.refusals.get_or_create(&OfReason { resource, reason }).inc();
        }
    }

    /// A GetPreferredAllocation was answered after so long.
    pub fn preferred(&self, resource: &'static str, took: Duration, answer: Preferred) {
        let result = match answer {
            Preferred::Set => "set",
            Preferred::Nothing => "nothing",
            Preferred::Refused => "refused",
        };
        self.counters.preferred.get_or_create(&OfOutcome { resource, result }).observe(took.as_secs_f64());
    }

    /// A call has waited so long for the end of a pod whose devices kubelet offers, or for what tells of it.
    pub fn holder_wait(&self, call: Call, waited: Duration) {
        let call = counters::name(call);
        self.counters.holder_waits.get_or_create(&OfCall { call }).inc_by(waited.as_secs_f64());
    }

    /// A call has waited so long for kubelet's checkpoint.
    pub fn checkpoint_wait(&self, call: Call, waited: Duration) {
        let call = counters::name(call);
        self.counters.checkpoint_waits.get_or_create(&OfCall { call }).inc_by(waited.as_secs_f64());
    }

    /// A GetPreferredAllocation has looked so long for a set that no process of a gone pod has open.
    pub fn handover_wait(&self, waited: Duration) {
        self.counters.handover_waits.inc_by(waited.as_secs_f64());
    }

    /// An Allocate found a process of a gone pod with a device open, and has waited so long for it.
    pub fn handover(&self, result: HandoverResult, waited: Duration) {
        let result = match result {
            HandoverResult::Closed => "closed",
            HandoverResult::Refused => "refused",
            HandoverResult::Marked => "marked",
        };
        self.counters.handovers.get_or_create(&OfResult { result }).inc();
        self.counters.handover_waits.inc_by(waited.as_secs_f64());
    }

    /// A pod's record said something else than what kubelet had given, and was corrected, or could not be.
    pub fn correction(&self, is_corrected: bool) {
        let result = if is_corrected { "corrected" } else { "failed" };
        self.counters.corrections.get_or_create(&OfResult { result }).inc();
    }

    /// The text of `/metrics`, in OpenMetrics' text format 1.0.0, of what is now.
    pub fn text(&self, now: &Now) -> String {
        let _others_wait = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        self.gauges.set(now);
        runtime::metrics::text(&self.registry)
    }
}
