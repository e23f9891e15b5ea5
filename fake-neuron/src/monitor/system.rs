//! What `neuron-monitor` tells of the whole host: its devices' errors, its CPUs, its memory, the instance. Called by
//! [`super::collect`].

use std::collections::BTreeMap;
use std::path::Path;

use neuron_core::catalog::Generation;

use crate::host::{Host, HostError, Identity, error_counters};
use crate::imds::{Instance, Zone};
use crate::monitor::proc::{self, Cpus};
use crate::monitor::record::{EccEvents, HardwareInfo, HwCounters, InstanceInfo, MemoryInfo, VcpuUsage};

/// A group, and its error; empty: none.
pub(super) type Told<T> = (T, String);

pub(super) fn memory_info() -> Told<MemoryInfo> {
    told(proc::memory())
}

/// What the CPUs did since they were read before, which `before` keeps.
pub(super) fn vcpu_usage(before: &mut Cpus) -> Told<VcpuUsage> {
    told(Cpus::read().map(|now| {
        let usage = VcpuUsage {
            average_usage: now.average_since(before),
            usage_data: now.each_since(before),
            context_switch_count: now.context_switches_since(before),
        };
        *before = now;
        usage
    }))
}

fn told<T: Default>(found: std::io::Result<T>) -> Told<T> {
    match found {
        Ok(group) => (group, String::new()),
        Err(error) => (T::default(), error.to_string()),
    }
}

/// Counters of a device in sysfs, in the order of [`EccEvents`].
const COUNTERS: [&str; 4] =
    ["mem_ecc_corrected", "mem_ecc_uncorrected", "sram_ecc_uncorrected", "sram_ecc_corrected"];

/// What the counters of each device, by host id, were when they were read before.
pub(super) type Errors = BTreeMap<u8, [u64; 4]>;

/// Errors since they were read before, which `before` keeps. A driver without a counter has no such errors.
pub(super) fn hw_counters(root: &Path, host: &Host, before: &mut Errors) -> HwCounters {
    let mut now = Errors::new();
    let devices = host.devices.iter().map(|device| {
        let counted = error_counters(root, device, COUNTERS);
        let earlier = before.get(&device.host_id).copied().unwrap_or(counted);
        now.insert(device.host_id, counted);
        let since: [u64; 4] = std::array::from_fn(|index| counted[index].saturating_sub(earlier[index]));
        let [mem_ecc_corrected, mem_ecc_uncorrected, sram_ecc_uncorrected, sram_ecc_corrected] = since;
        EccEvents {
            neuron_device_index: device.id,
            mem_ecc_corrected,
            mem_ecc_uncorrected,
            sram_ecc_uncorrected,
            sram_ecc_corrected,
        }
    });
    let neuron_devices = devices.collect();
    *before = now;
    HwCounters { neuron_devices }
}

/// As the instance's metadata service would say ([`Instance`]); the name is that of its tag, which has none.
pub(super) fn instance_info(identity: &Identity, zone: &Zone) -> InstanceInfo {
    let instance = Instance::of(&identity.instance_type, &identity.instance_id).in_zone(zone);
    let error = if identity.instance_id.is_empty() { "no instance id in DMI" } else { "" };
    InstanceInfo {
        instance_name: "",
        instance_id: instance.instance_id,
        instance_type: instance.instance_type,
        instance_availability_zone: instance.availability_zone,
        instance_availability_zone_id: instance.availability_zone_id,
        instance_region: instance.region,
        ami_id: instance.ami_id,
        subnet_id: instance.subnet_id,
        error: error.to_owned(),
    }
}

/// What the devices are; with an error, and zeros, where there are none. Inferentia and Trainium3 were not captured.
pub(super) fn hardware_info(host: Result<&Host, &HostError>) -> HardwareInfo {
    let host = match host {
        Ok(host) => host,
        // What the real one says is not known: the words are those of neuron-ls.
        Err(error) => return HardwareInfo { error: error.as_the_tools_say(), ..HardwareInfo::default() },
    };
    let joined = host.lnc > 1;
    let (neuron_device_type, neuron_device_version, neuroncore_version) = match host.generation {
        Generation::Inf1 => ("inferentia", "v1", "v1"),
        Generation::Trn1 => ("trainium", "v2", "v2"),
        Generation::Inf2 => ("inferentia2", "v3", "v2"),
        Generation::Trn2 => ("trainium2", "v4", if joined { "v3d" } else { "v3" }),
        Generation::Trn3 => ("trainium3", "v5", if joined { "v4d" } else { "v4" }),
    };
    HardwareInfo {
        neuron_device_type,
        neuron_device_version,
        neuroncore_version,
        neuron_device_count: host.devices.len(),
        neuron_device_memory_size: host.devices.first().map_or(0, |device| device.memory_bytes),
        neuroncore_per_device_count: host.devices.first().map_or(0, |device| host.logical_cores(device)),
        logical_neuroncore_config: host.lnc,
        error: String::new(),
    }
}
