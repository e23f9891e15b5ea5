//! What one core and one device have done and hold at a moment of a load. Pure.

use neuron_core::catalog::Generation;

use super::Profile;

/// Executions that a core completes in a second in which it is busy.
const EXECUTIONS: u64 = 10;
/// Floating point operations of a fully busy core in a second; made up, in the order of a NeuronCore-v2's dense BF16 peak.
const FLOPS: u64 = 90_000_000_000_000;

/// Bytes by what they are used for. The names are those of the driver's folders (docs/reference/neuron.md §4.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Bytes of compiled models.
    pub model_code: u64,
    /// Bytes of constants, such as weights.
    pub constants: u64,
    /// Bytes of tensors.
    pub tensors: u64,
    /// Bytes of scratch space that models share.
    pub model_shared_scratchpad: u64,
    /// Bytes of the runtime's own.
    pub runtime_memory: u64,
}

/// One core at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreUsage {
    /// How busy it is in this second, in percent, 0 to 100.
    pub busy_percent: u64,
    /// Executions that were completed since the start.
    pub completed: u64,
    /// Executions that failed for want of memory since the start.
    pub failed: u64,
    /// Models that were loaded since the start.
    pub models_loaded: u64,
    /// Floating point operations since the start, modulo 2^64 as in the driver's counter: some 60 hours at full use.
    pub flops: u64,
    /// Microseconds in which it was busy since the start.
    pub busy_microseconds: u64,
    /// Device memory in use now, in bytes.
    pub memory: Memory,
    /// The most of each that was in use since the start, in bytes.
    pub highest_memory: Memory,
}

/// One device at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceUsage {
    /// Host memory that its workload has, in bytes.
    pub host_memory: u64,
    /// The most host memory since the start, in bytes.
    pub highest_host_memory: u64,
    /// Smallest, largest and mean power of the last minute, in hundredths of a percent of the device's; `None`: no data.
    pub power: Option<[u64; 3]>,
}

/// Bytes of device memory that one physical core of the generation can use (docs/reference/neuron.md §1.1): the device's, in
/// equal parts.
pub fn core_memory(generation: Generation) -> u64 {
    let gibibytes_and_cores = match generation {
        Generation::Inf1 => (8, 4),
        Generation::Inf2 | Generation::Trn1 => (32, 2),
        Generation::Trn2 => (96, 8),
        Generation::Trn3 => (144, 8),
    };
    (gibibytes_and_cores.0 << 30) / gibibytes_and_cores.1
}

impl Memory {
    /// All of it, in bytes.
    pub fn total(self) -> u64 {
        self.model_code + self.constants + self.tensors + self.model_shared_scratchpad + self.runtime_memory
    }

    /// Thousandths of a core's memory, shared out as a language model in training would.
    fn of(thousandths: u64, memory: u64) -> Memory {
        let used = memory / 1000 * thousandths;
        let (constants, code, scratch, runtime) = (used / 5, used / 50, used / 10, used / 100);
        Memory {
            model_code: code,
            constants,
            tensors: used - constants - code - scratch - runtime,
            model_shared_scratchpad: scratch,
            runtime_memory: runtime,
        }
    }
}

impl CoreUsage {
    /// The core in this second since the load's start. `core` is the physical core within its device, `memory` what it can use
    /// ([`core_memory`]).
    pub fn of(profile: Profile, second: u64, device: u8, core: u8, memory: u64) -> CoreUsage {
        let mut usage = CoreUsage {
            busy_percent: profile.busy(second, device, core),
            models_loaded: u64::from(profile.has_model(second) || profile.highest_fill(second) > 0),
            memory: Memory::of(profile.fill(second), memory),
            highest_memory: Memory::of(profile.highest_fill(second), memory),
            ..CoreUsage::default()
        };
        // Only the seconds that are over count.
        for past in Past::of(second) {
            let busy = profile.busy(past.second, device, core);
            usage.completed += past.times * if busy > 0 { EXECUTIONS } else { 0 };
            usage.failed += past.times * if profile.is_full(past.second) { EXECUTIONS } else { 0 };
            usage.busy_microseconds += past.times * busy * 10_000;
            let flops = past.times.wrapping_mul(FLOPS / 100 * busy);
            usage.flops = usage.flops.wrapping_add(flops);
        }
        usage
    }
}

impl DeviceUsage {
    /// The device in this second since the load's start. `cores` is the number of its physical cores.
    pub fn of(profile: Profile, second: u64, device: u8, cores: u8) -> DeviceUsage {
        // A workload keeps about as much on the host as it has in flight: 64 MiB a core when full.
        let host = |thousandths: u64| thousandths * u64::from(cores) * (64 << 20) / 1000;
        let mean = |second: u64| {
            let busy: u64 = (0..cores).map(|core| profile.busy(second, device, core)).sum();
            // An idle device takes 12 percent, a busy one up to 92.
            1200 + busy * 80 / u64::from(cores.max(1))
        };
        let minute: Vec<u64> = (second.saturating_sub(60)..second).map(mean).collect();
        let power = match (profile, minute.iter().min(), minute.iter().max()) {
            // Idle devices of the public driver say that they have no data.
            (Profile::Idle, ..) => None,
            (_, Some(least), Some(most)) => {
                Some([*least, *most, minute.iter().sum::<u64>() / minute.len() as u64])
            }
            _ => None,
        };
        DeviceUsage {
            host_memory: host(profile.fill(second)),
            highest_host_memory: host(profile.highest_fill(second)),
            power,
        }
    }
}

/// A second that stands for all that are like it.
struct Past {
    second: u64,
    times: u64,
}

impl Past {
    /// After this many seconds every profile repeats itself every [`Past::PERIOD`] seconds: the leak is full, the model loaded.
    const SETTLED: u64 = 180;
    /// A multiple of every period of a profile.
    const PERIOD: u64 = 30;

    /// The seconds before `second`, so that a load of days costs no more than one of minutes.
    fn of(second: u64) -> impl Iterator<Item = Past> {
        let rest = second.saturating_sub(Past::SETTLED);
        let first = (0..second.min(Past::SETTLED)).map(|second| Past { second, times: 1 });
        let repeated = (0..Past::PERIOD).map(move |offset| {
            let times = rest / Past::PERIOD + u64::from(offset < rest % Past::PERIOD);
            Past { second: Past::SETTLED + offset, times }
        });
        first.chain(repeated)
    }
}
