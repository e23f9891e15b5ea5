//! What is now: gauges that are set when somebody asks. Looked up by `healthz`.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::labels::{OfFault, OfHealth, OfState};

/// What the plugin knows at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Numbers of healthy and of unhealthy ids by resource, as kubelet is told.
    pub ids: Vec<(&'static str, [usize; 2])>,
    /// Numbers of healthy devices, of unhealthy ones, and of those of which that is not known; none before they are known.
    pub devices: Option<[usize; 3]>,
    /// Why devices may not be given out, by their ids.
    pub faults: Vec<(u8, &'static str)>,
    /// The LNC in force, 1 or 2; none before the devices are known.
    pub lnc: Option<u8>,
    /// Answers of this plugin that kubelet has not written down yet.
    pub unwritten: usize,
    /// How long ago kubelet's checkpoint was written; none if it is not there.
    pub checkpoint_age: Option<Duration>,
    /// Whether it cannot be read, or is of another form.
    pub checkpoint_unreadable: bool,
    /// How long ago the node report was written; none if it was not yet.
    pub report_age: Option<Duration>,
    /// How many pods with a record of their devices kubelet has failed in admission.
    pub failed_admissions: u64,
}

/// The gauges that show it.
#[derive(Debug, Default)]
pub(super) struct Gauges {
    ids: Family<OfState, Gauge>,
    devices: Family<OfHealth, Gauge>,
    faults: Family<OfFault, Gauge>,
    /// 0: not known yet.
    lnc: Gauge,
    unwritten: Gauge,
    /// Not a number where there is none.
    checkpoint_age: Gauge<f64, AtomicU64>,
    checkpoint_unreadable: Gauge,
    report_age: Gauge<f64, AtomicU64>,
    failed_admissions: Counter,
}

impl Gauges {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("ids", "Ids that kubelet is told of", self.ids.clone());
        registry.register("devices", "Devices by their health", self.devices.clone());
        registry.register(
            "device_fault",
            "Why a device may not be given out; its event and the node report say more",
            self.faults.clone(),
        );
        registry.register("lnc", "Physical cores of one logical core", self.lnc.clone());
        registry.register(
            "unwritten_answers",
            "Answers to Allocate that kubelet has not written down yet",
            self.unwritten.clone(),
        );
        registry.register_with_unit(
            "checkpoint_age",
            "Time since kubelet wrote its checkpoint",
            Unit::Seconds,
            self.checkpoint_age.clone(),
        );
        registry.register(
            "checkpoint_unreadable",
            "Whether kubelet's checkpoint is there and cannot be read, or is of another form",
            self.checkpoint_unreadable.clone(),
        );
        registry.register_with_unit(
            "report_age",
            "Time since the node report was written",
            Unit::Seconds,
            self.report_age.clone(),
        );
        registry.register(
            "failed_admissions",
            "Pods with a record of their devices that kubelet has failed in admission",
            self.failed_admissions.clone(),
        );
    }

    pub(super) fn set(&self, now: &Now) {
        let whole = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        for (resource, counts) in &now.ids {
            for (state, count) in ["healthy", "unhealthy"].into_iter().zip(counts) {
                self.ids.get_or_create(&OfState { resource, state }).set(whole(*count));
            }
        }
        for (health, count) in
            ["Healthy", "Unhealthy", "Unknown"].into_iter().zip(now.devices.into_iter().flatten())
        {
            self.devices.get_or_create(&OfHealth { health }).set(whole(count));
        }
        self.faults.clear();
        for (device, reason) in &now.faults {
            self.faults.get_or_create(&OfFault { device: (*device).into(), reason }).set(1);
        }
        self.unwritten.set(whole(now.unwritten));
        self.lnc.set(now.lnc.unwrap_or_default().into());
        let seconds = |age: Option<Duration>| age.map_or(f64::NAN, |age| age.as_secs_f64());
        self.checkpoint_age.set(seconds(now.checkpoint_age));
        self.checkpoint_unreadable.set(now.checkpoint_unreadable.into());
        self.report_age.set(seconds(now.report_age));
        self.failed_admissions.inc_by(now.failed_admissions.saturating_sub(self.failed_admissions.get()));
    }
}
