//! One device's sysfs attributes to the byte, as the driver writes them (facts/neuron.md §4.3). Called by
//! [`crate::tree`]. Neighbours are the catalog's `driver_links`: what the driver shows, not what is reachable.

use neuron_core::catalog::Generation;

use crate::board::Board;
use crate::tree::{DRIVER_MAJOR, Entry, Kind, sysfs_folder};

/// Unit of the counters that one piece of memory has, in bytes.
const MEMORY_COUNTERS: [&str; 3] = ["total", "present", "peak"];

const DEVICE_HOST_MEMORY: [&str; 8] = [
    "application_memory",
    "constants",
    "dma_buffers",
    "dma_rings",
    "driver_memory",
    "notifications",
    "tensors",
    "uncategorized",
];

const CORE_DEVICE_MEMORY: [&str; 11] = [
    "collectives",
    "constants",
    "dma_rings",
    "driver_memory",
    "model_code",
    "model_shared_scratchpad",
    "nonshared_scratchpad",
    "notifications",
    "runtime_memory",
    "tensors",
    "uncategorized",
];

const CORE_STATUS: [&str; 24] = [
    "success",
    "failure",
    "timeout",
    "exec_bad_input",
    "hw_error",
    "execute_completed_with_error",
    "execute_completed_with_num_error",
    "generic_error",
    "resource_error",
    "resource_nc_error",
    "execute_failed_to_queue",
    "invalid_error",
    "unsupported_neff_version",
    "oob_error",
    "hw_collectives_error",
    "hw_hbm_ue_error",
    "hw_nc_ue_error",
    "hw_dma_abort_error",
    "execute_sw_nq_overflow",
    "execute_sw_semaphore_error",
    "execute_sw_event_error",
    "execute_sw_psum_collision",
    "execute_sw_sequencer_fatal",
    "hw_repairable_hbm_ue_error",
];

const ECC_COUNTERS: [&str; 5] = [
    "sram_ecc_uncorrected",
    "mem_ecc_uncorrected",
    "mem_ecc_repairable_uncorrected",
    "sram_ecc_corrected",
    "mem_ecc_corrected",
];

/// Every attribute of one device; a counter starts at 0.
pub(crate) fn device(board: &Board, id: u8) -> Vec<Entry> {
    let folder = sysfs_folder(id);
    let names = Names::of(board.generation);
    let links = board.driver_links.get(usize::from(id)).map(Vec::as_slice).unwrap_or_default();
    let mut entries = vec![
        Entry::fixed(format!("{folder}/dev"), format!("{DRIVER_MAJOR}:{id}\n")),
        Entry::writable(
            format!("{folder}/uevent"),
            format!("MAJOR={DRIVER_MAJOR}\nMINOR={id}\nDEVNAME=neuron{id}\n"),
        ),
        Entry {
            path: format!("{folder}/reset"),
            kind: Kind::File { content: "1\n".to_owned(), mode: 0o600 },
        },
        // No newline: clients parse it untrimmed.
        Entry::fixed(format!("{folder}/core_count"), board.cores_per_device.to_string()),
        Entry::fixed(format!("{folder}/connected_devices"), connected_devices(links)),
        Entry::writable(format!("{folder}/info/notify_delay"), "-1\n"),
        Entry::fixed(
            format!("{folder}/info/architecture/arch_type"),
            format!("{}\n", names.device_architecture),
        ),
        Entry::fixed(format!("{folder}/info/architecture/instance_type"), format!("{}\n", names.family)),
        Entry::fixed(format!("{folder}/info/architecture/device_name"), format!("{}\n", names.device)),
    ];
    if board.generation != Generation::Inf1 {
        let serial = format!("{}\n", board.serial_number(id));
        entries.push(Entry::fixed(format!("{folder}/info/serial_number"), serial));
        entries.extend(zeros(&format!("{folder}/stats/hardware"), &ECC_COUNTERS));
    }
    if has_health_status(board.generation) {
        let health = format!("{folder}/stats/hardware/health_status");
        entries.push(Entry::fixed(format!("{health}/unhealthy_components"), "\n"));
        entries.extend(zeros(&health, &["healthcheck_heartbeat", "hw_error_event"]));
    }
    for name in DEVICE_HOST_MEMORY {
        entries.extend(zeros(&format!("{folder}/stats/memory_usage/host_mem/{name}"), &MEMORY_COUNTERS));
    }
    // One folder per *physical* core, whatever the LNC.
    for core in 0..board.cores_per_device {
        entries.extend(self::core(&format!("{folder}/neuron_core{core}"), names.core_architecture));
    }
    entries
}

/// Whether the generation's driver shows `stats/hardware/health_status`.
pub(crate) fn has_health_status(generation: Generation) -> bool {
    matches!(generation, Generation::Trn2 | Generation::Trn3)
}

/// The newest driver that we know to serve the generation; 2.24 is the last one for Inf1 (AWS' announcement
/// "Correction: Neuron Driver support for Inf1").
pub(crate) fn driver_version(generation: Generation) -> &'static str {
    match generation {
        Generation::Inf1 => "2.24.7.0",
        _ => "2.27.4.0",
    }
}

/// One core's attributes under `folder`.
fn core(folder: &str, architecture: &str) -> Vec<Entry> {
    let memory = format!("{folder}/stats/memory_usage");
    let mut entries =
        vec![Entry::fixed(format!("{folder}/info/architecture/arch_type"), format!("{architecture}\n"))];
    for status in CORE_STATUS {
        entries.extend(zeros(&format!("{folder}/stats/status/{status}"), &["total", "present"]));
    }
    entries.extend(zeros(&format!("{memory}/host_mem"), &MEMORY_COUNTERS));
    entries.extend(zeros(&format!("{memory}/device_mem"), &MEMORY_COUNTERS));
    for name in CORE_DEVICE_MEMORY {
        entries.extend(zeros(&format!("{memory}/device_mem/{name}"), &MEMORY_COUNTERS));
    }
    entries
}

fn zeros(folder: &str, names: &[&str]) -> Vec<Entry> {
    names.iter().map(|name| Entry::writable(format!("{folder}/{name}"), "0\n")).collect()
}

/// Ids joined by a comma and a space, then a newline; without neighbours the newline alone.
fn connected_devices(links: &[u8]) -> String {
    let ids: Vec<String> = links.iter().map(u8::to_string).collect();
    format!("{}\n", ids.join(", "))
}

/// What a generation calls itself in `info/architecture`.
struct Names {
    family: &'static str,
    device: &'static str,
    device_architecture: &'static str,
    core_architecture: &'static str,
}

impl Names {
    /// Inf2 says NDv3 although its cores are NCv2: the driver's own table.
    fn of(generation: Generation) -> Names {
        let (family, device, device_architecture, core_architecture) = match generation {
            Generation::Inf1 => ("Inf1", "Inferentia", "NDv1", "NCv1"),
            Generation::Inf2 => ("Inf2", "Inferentia2", "NDv3", "NCv2"),
            Generation::Trn1 => ("Trn1", "Trainium1", "NDv2", "NCv2"),
            Generation::Trn2 => ("Trn2", "Trainium2", "NDv3", "NCv3"),
            Generation::Trn3 => ("Trn3", "Trainium3", "NDv4", "NCv4"),
        };
        Names { family, device, device_architecture, core_architecture }
    }
}
