//! Counters for Prometheus, at `/metrics`. Counted by each registration, shown by `healthz`.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The plugin's counters.
#[derive(Debug, Default)]
pub struct Metrics {
    /// By resource name.
    already_connected: Mutex<BTreeMap<&'static str, u64>>,
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

    /// The text of `/metrics`, in Prometheus' text format.
    pub fn text(&self) -> String {
        let name = "neuron_device_plugin_already_connected_total";
        let help = "Registrations that kubelet refused because it still held the path of the socket.";
        let counts = self.counts();
        let samples =
            counts.iter().map(|(resource, count)| format!("{name}{{resource=\"{resource}\"}} {count}\n"));
        format!("# HELP {name} {help}\n# TYPE {name} counter\n{}", samples.collect::<String>())
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<&'static str, u64>> {
        self.already_connected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
