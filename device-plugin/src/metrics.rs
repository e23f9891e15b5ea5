//! Counters for Prometheus, at `/metrics`. Counted by each registration and by `handover`, shown by `healthz`.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The plugin's counters.
#[derive(Debug, Default)]
pub struct Metrics {
    /// By resource name.
    already_connected: Mutex<BTreeMap<&'static str, u64>>,
    handovers: Mutex<Handovers>,
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

#[derive(Debug, Default)]
struct Handovers {
    /// By [`HandoverResult`], in its order.
    counts: [u64; 3],
    waited: Duration,
}

impl Metrics {
    /// The resource is counted from now on.
    pub fn starting(&self, resource: &'static str) {
        self.counts().entry(resource).or_default();
    }

    /// kubelet refused a registration because it still held the path of the socket.
    pub fn already_connected(&self, resource: &'static str) {
        *self.counts().entry(resource).or_default() += 1;
    }

    /// An Allocate found a process of a gone pod with a device open, and has waited so long for it.
    pub fn handover(&self, result: HandoverResult, waited: Duration) {
        let mut handovers = self.handovers();
        handovers.counts[result as usize] += 1;
        handovers.waited += waited;
    }

    /// The text of `/metrics`, in Prometheus' text format.
    pub fn text(&self) -> String {
        let name = "neuron_device_plugin_already_connected_total";
        let help = "Registrations that kubelet refused because it still held the path of the socket.";
        let counts = self.counts();
        let samples =
            counts.iter().map(|(resource, count)| format!("{name}{{resource=\"{resource}\"}} {count}\n"));
        format!("# HELP {name} {help}\n# TYPE {name} counter\n{}", samples.collect::<String>())
            + &self.handovers().text()
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<&'static str, u64>> {
        self.already_connected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handovers(&self) -> MutexGuard<'_, Handovers> {
        self.handovers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handovers {
    fn text(&self) -> String {
        let name = "neuron_device_plugin_handovers_total";
        let help = "Allocates whose devices a process of a gone pod had open.";
        let mut text = format!("# HELP {name} {help}\n# TYPE {name} counter\n");
        for (result, count) in ["closed", "refused", "marked"].into_iter().zip(self.counts) {
            text += &format!("{name}{{result=\"{result}\"}} {count}\n");
        }
        let (name, waited) = ("neuron_device_plugin_handover_wait_seconds_total", self.waited.as_secs_f64());
        let help = "Time that Allocates have waited for processes of gone pods.";
        text + &format!("# HELP {name} {help}\n# TYPE {name} counter\n{name} {waited}\n")
    }
}
