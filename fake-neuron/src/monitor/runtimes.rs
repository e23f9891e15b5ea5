//! What `neuron-monitor` tells of each process that runs the Neuron runtime, by the numbers of a load profile. Called by
//! [`super::collect`].

use std::collections::BTreeMap;
use std::os::unix::process::parent_id;

use neuron_core::catalog::Generation;

use crate::go::Float;
use crate::host::{Device, Host};
use crate::load::{CoreUsage, DeviceUsage, Memory, Profile, core_memory};
use crate::monitor::record::{
    CoreCounters, CoreInUse, CoreMemory, ErrorSummary, ExecutionStats, ExecutionSummary, HostMemory,
    LatencyStats, LoadedModel, MemoryUsed, Percentiles, Subgraph, SubgraphBreakdown, SubgraphDeviceMemory,
    SubgraphMemory, UsageBreakdown, UsedBytes, Utilization,
};

/// A process and its physical cores, by the logical core that they make up.
pub(super) struct Runtime<'a> {
    pub(super) pid: u32,
    cores: BTreeMap<u32, Vec<(&'a Device, u8)>>,
    host: &'a Host,
}

impl<'a> Runtime<'a> {
    /// Every process that reserved cores. Where there is none but the devices do something all the same, the process that
    /// started the monitor stands for whoever does it, with every core.
    pub(super) fn all(host: &'a Host, profile: Profile) -> Vec<Runtime<'a>> {
        let users = host.processes.iter().filter(|process| !process.cores.is_empty());
        let mut runtimes: Vec<Runtime<'a>> = users
            .map(|process| {
                let cores = process.cores.iter().filter_map(|core| host.physical_core(*core));
                Runtime::of(host, process.pid, cores)
            })
            .filter(|runtime| !runtime.cores.is_empty())
            .collect();
        if runtimes.is_empty() && profile != Profile::Idle {
            let cores =
                host.devices.iter().flat_map(|device| (0..device.cores).map(move |core| (device, core)));
            runtimes.push(Runtime::of(host, parent_id(), cores));
        }
        runtimes
    }

    fn of(host: &'a Host, pid: u32, physical: impl Iterator<Item = (&'a Device, u8)>) -> Runtime<'a> {
        let mut cores: BTreeMap<u32, Vec<(&'a Device, u8)>> = BTreeMap::new();
        for (device, core) in physical {
            let logical = host.logical_core_ids(device).start + u32::from(core / host.lnc.max(1));
            cores.entry(logical).or_default().push((device, core));
        }
        Runtime { pid, cores, host }
    }

    fn usage(&self, profile: Profile, second: u64, (device, core): (&Device, u8)) -> CoreUsage {
        CoreUsage::of(profile, second, device.host_id, core, core_memory(self.host.generation))
    }

    pub(super) fn core_counters(&self, profile: Profile, second: u64) -> CoreCounters {
        let is_trn3 = self.host.generation == Generation::Trn3;
        let version = if is_trn3 { "nc_v4" } else { "nc_v3" };
        let of_core = |physical: &Vec<(&Device, u8)>| {
            let busy = |core| self.usage(profile, second, core).busy_percent as f64;
            let flops = |core| {
                self.usage(profile, second + 1, core)
                    .flops
                    .wrapping_sub(self.usage(profile, second, core).flops)
            };
            let name = |(device, core): &(&Device, u8)| {
                format!("{version}.{}", u32::from(device.id) * u32::from(device.cores) + u32::from(*core))
            };
            let parts = physical.iter().map(|core| {
                (name(core), Utilization { neuroncore_utilization: Float::percent(busy(*core)) })
            });
            let sum: f64 = physical.iter().map(|core| busy(*core)).sum();
            let parts = (self.host.lnc > 1).then(|| parts.collect());
            let (v3d, v4d) = if is_trn3 { (None, parts) } else { (parts, None) };
            CoreInUse {
                neuroncore_utilization: Float::percent(sum / physical.len().max(1) as f64),
                flops: physical.iter().map(|core| flops(*core)).sum(),
                v3d,
                v4d,
            }
        };
        CoreCounters {
            neuroncores_in_use: self.cores.iter().map(|(id, cores)| (*id, of_core(cores))).collect(),
        }
    }

    /// What was executed between two seconds of the load. A logical core executes what its first physical core does.
    pub(super) fn execution_stats(&self, profile: Profile, earlier: u64, now: u64) -> ExecutionStats {
        let firsts: Vec<(&Device, u8)> =
            self.cores.values().filter_map(|cores| cores.first().copied()).collect();
        let since = |count: fn(&CoreUsage) -> u64| -> u64 {
            let counted = |second, core| count(&self.usage(profile, second, core));
            firsts.iter().map(|core| counted(now, *core).saturating_sub(counted(earlier, *core))).sum()
        };
        let (completed, failed) = (since(|usage| usage.completed), since(|usage| usage.failed));
        // The executions of the last seconds are those whose latency is told.
        let lately = now.saturating_sub(10).max(earlier)..=now;
        let busy = lately.flat_map(|second| firsts.iter().map(move |core| (second, *core)));
        let busy = busy.map(|(second, core)| self.usage(profile, second, core).busy_percent);
        let busiest = busy.max().unwrap_or(0);
        let is_told = completed > 0;
        ExecutionStats {
            error_summary: ErrorSummary { runtime: failed, ..ErrorSummary::default() },
            execution_summary: ExecutionSummary {
                completed,
                completed_with_err: failed,
                ..ExecutionSummary::default()
            },
            latency_stats: LatencyStats {
                total_latency: is_told.then(|| percentiles(busiest, 0.000_25)),
                device_latency: is_told.then(|| percentiles(busiest, 0.0)),
            },
        }
    }

    pub(super) fn memory_used(&self, profile: Profile, second: u64) -> MemoryUsed {
        let by_core: BTreeMap<u32, Memory> = self
            .cores
            .iter()
            .map(|(id, cores)| {
                let parts = cores.iter().map(|core| self.usage(profile, second, *core).memory);
                (*id, parts.fold(Memory::default(), add))
            })
            .collect();
        let devices: BTreeMap<u8, &Device> =
            self.cores.values().flatten().map(|(device, _)| (device.host_id, *device)).collect();
        let on_host = devices
            .values()
            .map(|device| DeviceUsage::of(profile, second, device.host_id, device.cores).host_memory);
        let on_host: u64 = on_host.sum();
        MemoryUsed {
            neuron_runtime_used_bytes: UsedBytes {
                host: on_host,
                neuron_device: by_core.values().map(|memory| memory.total()).sum(),
                usage_breakdown: UsageBreakdown {
                    host: HostMemory { application_memory: on_host, ..HostMemory::default() },
                    neuroncore_memory_usage: by_core
                        .iter()
                        .map(|(id, memory)| (*id, core_memory_of(memory)))
                        .collect(),
                },
            },
            loaded_models: self.loaded_models(&by_core),
        }
    }

    /// One model on each core that holds something.
    fn loaded_models(&self, by_core: &BTreeMap<u32, Memory>) -> Vec<LoadedModel> {
        let used = by_core.iter().filter(|(_, memory)| memory.total() > 0);
        let models = used.zip(10_001..).filter_map(|((id, memory), model_id)| {
            let (device, _) = self.cores.get(id)?.first()?;
            let subgraph = Subgraph {
                memory_used_bytes: SubgraphMemory {
                    host: 0,
                    neuron_device: memory.constants + memory.model_code,
                    usage_breakdown: SubgraphBreakdown {
                        host: HostMemory::default(),
                        neuron_device: SubgraphDeviceMemory {
                            constants: memory.constants,
                            model_code: memory.model_code,
                            runtime_memory: 0,
                            tensors: 0,
                        },
                    },
                },
                neuroncore_index: id - self.host.logical_core_ids(device).start,
                neuron_device_index: device.id,
            };
            Some(LoadedModel {
                name: "fake-neuron",
                uuid: format!("{:032x}", self.pid),
                model_id,
                is_running: true,
                subgraphs: BTreeMap::from([("sg_00", subgraph)]),
            })
        });
        models.collect()
    }
}

/// Ten executions a second that keep a core as busy as this, a few percent around their middle.
fn percentiles(busy_percent: u64, overhead: f64) -> Percentiles {
    let middle = busy_percent as f64 / 1000.0;
    // Seconds, to the nanosecond.
    let at = |share: f64| Float(((middle * share + overhead) * 1e9).round() / 1e9);
    Percentiles {
        p0: at(0.96),
        p1: at(0.965),
        p100: at(1.08),
        p25: at(0.99),
        p50: at(1.0),
        p75: at(1.01),
        p99: at(1.06),
    }
}

fn add(left: Memory, right: Memory) -> Memory {
    Memory {
        model_code: left.model_code + right.model_code,
        constants: left.constants + right.constants,
        tensors: left.tensors + right.tensors,
        model_shared_scratchpad: left.model_shared_scratchpad + right.model_shared_scratchpad,
        runtime_memory: left.runtime_memory + right.runtime_memory,
    }
}

fn core_memory_of(memory: &Memory) -> CoreMemory {
    CoreMemory {
        constants: memory.constants,
        model_code: memory.model_code,
        model_shared_scratchpad: memory.model_shared_scratchpad,
        runtime_memory: memory.runtime_memory,
        tensors: memory.tensors,
    }
}
