//! The driver's counter files for a usage: path below the device's folder and text. Pure. Called by [`super::Load`].
//!
//! What a counter's `total` and `present` mean is not documented for every file: `total` counts since the driver was loaded,
//! `present` what the running process has added (docs/reference/neuron.md §4.3). Here one process runs since the start, so both
//! are the same; of memory both are what is in use.

use super::{CoreUsage, DeviceUsage, Memory};

/// Hundred millions of tensor engine cycles in a second; made up (1.4 GHz).
const CYCLES: u64 = 14;

/// The files of one core that its usage changes, without their folder `neuron_coreK`.
pub fn core_files(usage: &CoreUsage) -> Vec<(String, String)> {
    let mut files = Vec::with_capacity(64);
    let mut count = |name: &str, value: u64| {
        for last in ["total", "present"] {
            files.push((format!("stats/{name}/{last}"), format!("{value}\n")));
        }
    };
    count("status/success", usage.completed);
    count("status/resource_error", usage.failed);
    count("status/failure", usage.failed);
    count("other_info/inference_count", usage.completed + usage.failed);
    count("other_info/model_load_count", usage.models_loaded);
    count("other_info/flop_count", usage.flops);
    count("other_info/nc_time_in_use", usage.busy_microseconds);
    let (now, highest) = (usage.memory, usage.highest_memory);
    memory(&mut files, "stats/memory_usage/device_mem", now.total(), highest.total());
    for (name, part) in PARTS {
        memory(&mut files, &format!("stats/memory_usage/device_mem/{name}"), part(now), part(highest));
    }
    files.push(("stats/tensor_engine/pe_cntrs".to_owned(), tensor_engine(usage)));
    files
}

/// The files of one device that its usage changes. `epoch` is the time now in seconds since 1970.
pub fn device_files(usage: &DeviceUsage, epoch: u64) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let host = "stats/memory_usage/host_mem/application_memory";
    memory(&mut files, host, usage.host_memory, usage.highest_host_memory);
    let percent = |hundredths: u64| format!("{}.{:02}", hundredths / 100, hundredths % 100);
    let power = match usage.power {
        Some([least, most, mean]) => format!(
            "POWER_STATUS_VALID,{},{},{},{}\n",
            // The driver sums up once a minute.
            epoch / 60 * 60,
            percent(least),
            percent(most),
            percent(mean)
        ),
        None => format!("POWER_STATUS_NO_DATA,{},0.00,0.00,0.00\n", epoch / 60 * 60),
    };
    // What the raw file has in place of it is not known: the same form is chosen here, as in `core/data/driver-layouts.json`.
    for name in ["utilization", "utilization_raw"] {
        files.push((format!("stats/power/{name}"), power.clone()));
    }
    files
}

type Part = fn(Memory) -> u64;

const PARTS: [(&str, Part); 5] = [
    ("model_code", |memory| memory.model_code),
    ("constants", |memory| memory.constants),
    ("tensors", |memory| memory.tensors),
    ("model_shared_scratchpad", |memory| memory.model_shared_scratchpad),
    ("runtime_memory", |memory| memory.runtime_memory),
];

fn memory(files: &mut Vec<(String, String)>, folder: &str, now: u64, highest: u64) {
    for (name, value) in [("total", now), ("present", now), ("peak", highest)] {
        files.push((format!("{folder}/{name}"), format!("{value}\n")));
    }
}

/// Cycles of the four groups of rows: multiplying, loading weights, idle.
fn tensor_engine(usage: &CoreUsage) -> String {
    // One microsecond has a thousand cycles and a few hundred.
    let busy = usage.busy_microseconds * CYCLES * 100;
    let row = |group: u32| format!("{group},{busy},{},0\n", busy / 8);
    let rows: String = (0..4).map(row).collect();
    format!("xrow_grp,mm_active,wl_active,idle\n{rows}")
}
