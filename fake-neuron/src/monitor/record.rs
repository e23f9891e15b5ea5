//! The record of `neuron-monitor`: its keys, in the order of captures. Filled in by [`super::collect`].

use std::collections::BTreeMap;

use serde::Serialize;

use crate::go::Float;

#[derive(Debug, Serialize)]
pub(super) struct Record {
    pub(super) neuron_runtime_data: Vec<RuntimeData>,
    pub(super) system_data: SystemData,
    pub(super) instance_info: InstanceInfo,
    pub(super) neuron_hardware_info: HardwareInfo,
}

#[derive(Debug, Serialize)]
pub(super) struct RuntimeData {
    pub(super) pid: u32,
    /// Documented; empty since runtimes have no socket any more.
    pub(super) address: &'static str,
    pub(super) neuron_runtime_tag: String,
    pub(super) error: String,
    pub(super) report: Report,
}

/// Groups that were collected for this record; others are left out.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) execution_stats: Option<Timed<ExecutionStats>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory_used: Option<Timed<MemoryUsed>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) neuron_runtime_vcpu_usage: Option<Timed<RuntimeVcpuUsage>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) neuroncore_counters: Option<Timed<CoreCounters>>,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct SystemData {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory_info: Option<Timed<MemoryInfo>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) neuron_hw_counters: Option<Timed<HwCounters>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) vcpu_usage: Option<Timed<VcpuUsage>>,
}

/// A group with its period in front and its error behind.
#[derive(Debug, Serialize)]
pub(super) struct Timed<T> {
    /// In seconds.
    pub(super) period: Float,
    #[serde(flatten)]
    pub(super) group: T,
    /// Empty: none.
    pub(super) error: String,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct ExecutionStats {
    pub(super) error_summary: ErrorSummary,
    pub(super) execution_summary: ExecutionSummary,
    pub(super) latency_stats: LatencyStats,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct ErrorSummary {
    pub(super) generic: u64,
    pub(super) numerical: u64,
    pub(super) transient: u64,
    pub(super) model: u64,
    pub(super) runtime: u64,
    pub(super) hardware: u64,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct ExecutionSummary {
    pub(super) completed: u64,
    pub(super) completed_with_err: u64,
    pub(super) completed_with_num_err: u64,
    pub(super) timed_out: u64,
    pub(super) incorrect_input: u64,
    pub(super) failed_to_queue: u64,
}

/// `null` where nothing was executed.
#[derive(Debug, Default, Serialize)]
pub(super) struct LatencyStats {
    pub(super) total_latency: Option<Percentiles>,
    pub(super) device_latency: Option<Percentiles>,
}

/// In seconds.
#[derive(Debug, Serialize)]
pub(super) struct Percentiles {
    pub(super) p0: Float,
    pub(super) p1: Float,
    pub(super) p100: Float,
    pub(super) p25: Float,
    pub(super) p50: Float,
    pub(super) p75: Float,
    pub(super) p99: Float,
}

#[derive(Debug, Serialize)]
pub(super) struct MemoryUsed {
    pub(super) neuron_runtime_used_bytes: UsedBytes,
    pub(super) loaded_models: Vec<LoadedModel>,
}

#[derive(Debug, Serialize)]
pub(super) struct UsedBytes {
    pub(super) host: u64,
    pub(super) neuron_device: u64,
    pub(super) usage_breakdown: UsageBreakdown,
}

#[derive(Debug, Serialize)]
pub(super) struct UsageBreakdown {
    pub(super) host: HostMemory,
    /// By logical core.
    pub(super) neuroncore_memory_usage: BTreeMap<u32, CoreMemory>,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct HostMemory {
    pub(super) application_memory: u64,
    pub(super) constants: u64,
    pub(super) dma_buffers: u64,
    pub(super) tensors: u64,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct CoreMemory {
    pub(super) constants: u64,
    pub(super) model_code: u64,
    pub(super) model_shared_scratchpad: u64,
    pub(super) runtime_memory: u64,
    pub(super) tensors: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct LoadedModel {
    pub(super) name: &'static str,
    pub(super) uuid: String,
    pub(super) model_id: u32,
    pub(super) is_running: bool,
    pub(super) subgraphs: BTreeMap<&'static str, Subgraph>,
}

#[derive(Debug, Serialize)]
pub(super) struct Subgraph {
    pub(super) memory_used_bytes: SubgraphMemory,
    /// Inside its device.
    pub(super) neuroncore_index: u32,
    pub(super) neuron_device_index: u8,
}

#[derive(Debug, Serialize)]
pub(super) struct SubgraphMemory {
    pub(super) host: u64,
    pub(super) neuron_device: u64,
    pub(super) usage_breakdown: SubgraphBreakdown,
}

#[derive(Debug, Serialize)]
pub(super) struct SubgraphBreakdown {
    pub(super) host: HostMemory,
    pub(super) neuron_device: SubgraphDeviceMemory,
}

#[derive(Debug, Serialize)]
pub(super) struct SubgraphDeviceMemory {
    pub(super) constants: u64,
    pub(super) model_code: u64,
    pub(super) runtime_memory: u64,
    pub(super) tensors: u64,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct RuntimeVcpuUsage {
    pub(super) vcpu_usage: UserAndSystem,
}

/// In percent.
#[derive(Debug, Default, Serialize)]
pub(super) struct UserAndSystem {
    pub(super) user: Float,
    pub(super) system: Float,
}

#[derive(Debug, Serialize)]
pub(super) struct CoreCounters {
    /// By logical core.
    pub(super) neuroncores_in_use: BTreeMap<u32, CoreInUse>,
}

#[derive(Debug, Serialize)]
pub(super) struct CoreInUse {
    /// In percent.
    pub(super) neuroncore_utilization: Float,
    /// A second.
    pub(super) flops: u64,
    /// Of the physical cores of a logical one of Trn2, by names such as `nc_v3.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) v3d: Option<BTreeMap<String, Utilization>>,
    /// The same of Trn3, by names such as `nc_v4.0`: chosen after Trn2's, since none was captured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) v4d: Option<BTreeMap<String, Utilization>>,
}

#[derive(Debug, Serialize)]
pub(super) struct Utilization {
    pub(super) neuroncore_utilization: Float,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct MemoryInfo {
    pub(super) memory_total_bytes: u64,
    pub(super) memory_used_bytes: u64,
    pub(super) swap_total_bytes: u64,
    pub(super) swap_used_bytes: u64,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct HwCounters {
    pub(super) neuron_devices: Vec<EccEvents>,
}

/// Errors since the group was collected before: the exporter of AWS adds them up.
#[derive(Debug, Serialize)]
pub(super) struct EccEvents {
    pub(super) neuron_device_index: u8,
    pub(super) mem_ecc_corrected: u64,
    pub(super) mem_ecc_uncorrected: u64,
    pub(super) sram_ecc_uncorrected: u64,
    pub(super) sram_ecc_corrected: u64,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct VcpuUsage {
    pub(super) average_usage: CpuShares,
    /// By CPU.
    pub(super) usage_data: BTreeMap<u32, CpuShares>,
    pub(super) context_switch_count: u64,
}

/// In percent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct CpuShares {
    pub(super) user: Float,
    pub(super) nice: Float,
    pub(super) system: Float,
    pub(super) idle: Float,
    pub(super) io_wait: Float,
    pub(super) irq: Float,
    pub(super) soft_irq: Float,
}

#[derive(Debug, Serialize)]
pub(super) struct InstanceInfo {
    pub(super) instance_name: &'static str,
    pub(super) instance_id: String,
    pub(super) instance_type: String,
    pub(super) instance_availability_zone: String,
    pub(super) instance_availability_zone_id: String,
    pub(super) instance_region: String,
    pub(super) ami_id: String,
    pub(super) subnet_id: String,
    pub(super) error: String,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct HardwareInfo {
    pub(super) neuron_device_type: &'static str,
    pub(super) neuron_device_version: &'static str,
    pub(super) neuroncore_version: &'static str,
    pub(super) neuron_device_count: usize,
    pub(super) neuron_device_memory_size: u64,
    /// Logical.
    pub(super) neuroncore_per_device_count: u8,
    pub(super) logical_neuroncore_config: u8,
    pub(super) error: String,
}
