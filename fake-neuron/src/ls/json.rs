//! `neuron-ls --json-output` as tools before 2.34 print it (docs/reference/neuron.md §4.4): a list in the form of Go's
//! `json.MarshalIndent` without a newline at its end. Called by [`crate::ls`].

use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};

use crate::go::escape_html;
use crate::host::Host;
use crate::ls::processes::Shown;

/// Keys in the order of a capture of 2026 (trn2.48xlarge).
#[derive(Serialize)]
struct Entry<'a> {
    instance_type: &'a str,
    instance_id: &'a str,
    neuron_device: u8,
    bdf: &'a str,
    cpu_affinity: &'a str,
    /// A number in quotes.
    numa_node: String,
    /// `null` rather than an empty list.
    connected_to: Option<&'a [u8]>,
    /// Logical.
    nc_count: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    logical_neuroncore_config: Option<u8>,
    memory_size: u64,
    neuroncore_ids: Vec<u32>,
    neuron_processes: Vec<Process<'a>>,
}

#[derive(Serialize)]
struct Process<'a> {
    pid: u32,
    command: &'a str,
    neuron_runtime_version: &'static str,
}

pub(super) fn text(host: &Host, processes: &[Vec<Shown>]) -> String {
    let entries: Vec<Entry<'_>> = host
        .devices
        .iter()
        .zip(processes)
        .map(|(device, processes)| Entry {
            instance_type: &host.identity.instance_type,
            instance_id: &host.identity.instance_id,
            neuron_device: device.id,
            bdf: &device.pci_address,
            cpu_affinity: &device.cpus,
            numa_node: device.numa_node.to_string(),
            connected_to: Some(device.connected.as_slice()).filter(|links| !links.is_empty()),
            nc_count: host.logical_cores(device),
            logical_neuroncore_config: host.has_logical_cores().then_some(host.lnc),
            memory_size: device.memory_bytes,
            neuroncore_ids: host.logical_core_ids(device).collect(),
            neuron_processes: processes
                .iter()
                .map(|shown| Process {
                    pid: shown.pid,
                    command: &shown.command,
                    neuron_runtime_version: shown.runtime_version,
                })
                .collect(),
        })
        .collect();
    let mut text = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(b"    "));
    // Nothing in an entry can fail to be written into memory.
    let _ = entries.serialize(&mut serializer);
    escape_html(&String::from_utf8_lossy(&text))
}
