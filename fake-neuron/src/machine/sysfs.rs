//! One device's sysfs attributes to the byte, as the driver writes them (docs/reference/neuron.md §4.3). Called by
//! [`crate::machine::tree`]. The driver's memory and status counters, thousands of files a machine, are left out: discovery
//! and health read none of them. Links are the catalog's `driver_links`: what the driver shows, not what is reachable.

use neuron_core::catalog::Generation;

use crate::machine::description::Description;
use crate::machine::tree::{DRIVER_MAJOR, Entry, Kind, sysfs_folder};

const ECC_COUNTERS: [&str; 5] = [
    "sram_ecc_uncorrected",
    "mem_ecc_uncorrected",
    "mem_ecc_repairable_uncorrected",
    "sram_ecc_corrected",
    "mem_ecc_corrected",
];

/// Every attribute of one device; a counter starts at 0.
pub(crate) fn device(description: &Description, id: u8) -> Vec<Entry> {
    let folder = sysfs_folder(id);
    let names = Names::of(description.generation);
    let links = description.driver_links.get(usize::from(id)).map(Vec::as_slice).unwrap_or_default();
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
        Entry::fixed(format!("{folder}/core_count"), description.cores_per_device.to_string()),
        Entry::fixed(format!("{folder}/connected_devices"), connected_devices(links)),
        Entry::writable(format!("{folder}/info/notify_delay"), "-1\n"),
        Entry::fixed(
            format!("{folder}/info/architecture/arch_type"),
            format!("{}\n", names.device_architecture),
        ),
        Entry::fixed(format!("{folder}/info/architecture/instance_type"), format!("{}\n", names.family)),
        Entry::fixed(format!("{folder}/info/architecture/device_name"), format!("{}\n", names.device)),
    ];
    if description.generation != Generation::Inf1 {
        let serial = format!("{}\n", description.serial_number(id));
        entries.push(Entry::fixed(format!("{folder}/info/serial_number"), serial));
        entries.extend(zeros(&format!("{folder}/stats/hardware"), &ECC_COUNTERS));
    }
    if has_health_status(description.generation) {
        let health = format!("{folder}/stats/hardware/health_status");
        entries.push(Entry::fixed(format!("{health}/unhealthy_components"), "\n"));
        entries.extend(zeros(&health, &["healthcheck_heartbeat", "hw_error_event"]));
    }
    // One folder per *physical* core, whatever the LNC.
    for core in 0..description.cores_per_device {
        let architecture = format!("{folder}/neuron_core{core}/info/architecture/arch_type");
        entries.push(Entry::fixed(architecture, format!("{}\n", names.core_architecture)));
    }
    entries
}

/// Whether the generation's driver shows `stats/hardware/health_status`.
pub(crate) fn has_health_status(generation: Generation) -> bool {
    matches!(generation, Generation::Trn2 | Generation::Trn3)
}

/// The newest driver known to serve the generation. 2.24 is the last one for Inf1 (AWS' announcement "Correction: Neuron
/// Driver support for Inf1").
pub(crate) fn driver_version(generation: Generation) -> &'static str {
    match generation {
        Generation::Inf1 => "2.24.7.0",
        _ => "2.27.4.0",
    }
}

fn zeros(folder: &str, names: &[&str]) -> Vec<Entry> {
    names.iter().map(|name| Entry::writable(format!("{folder}/{name}"), "0\n")).collect()
}

/// Ids joined by a comma and a space, then a newline; without links the newline alone.
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
