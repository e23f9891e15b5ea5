//! What `/proc` of this host says of its CPUs, its memory and a process. Called by [`super::system`] and [`super::runtimes`].

use std::collections::BTreeMap;
use std::fs;
use std::io;

use crate::go::Float;
use crate::monitor::record::{CpuShares, MemoryInfo};

/// Ticks of one CPU since the host started, in the order of `/proc/stat`: user, nice, system, idle, io_wait, irq, soft_irq.
type Ticks = [u64; 7];

/// Ticks in a second on every architecture that Neuron hosts have.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cpus {
    all: Ticks,
    each: BTreeMap<u32, Ticks>,
    context_switches: u64,
}

impl Cpus {
    pub(super) fn read() -> io::Result<Cpus> {
        Ok(Cpus::parse(&fs::read_to_string("/proc/stat")?))
    }

    fn parse(stat: &str) -> Cpus {
        let mut cpus = Cpus::default();
        for line in stat.lines() {
            let mut words = line.split_ascii_whitespace();
            let name = words.next().unwrap_or_default();
            let mut numbers = words.map_while(|word| word.parse().ok());
            if name == "ctxt" {
                cpus.context_switches = numbers.next().unwrap_or(0);
            } else if let Some(number) = name.strip_prefix("cpu") {
                let ticks = std::array::from_fn(|_| numbers.next().unwrap_or(0));
                match number.parse() {
                    Ok(number) => drop(cpus.each.insert(number, ticks)),
                    Err(_) => cpus.all = ticks,
                }
            }
        }
        cpus
    }

    /// What all CPUs did between `earlier` and this reading.
    pub(super) fn average_since(&self, earlier: &Cpus) -> CpuShares {
        shares(&self.all, &earlier.all)
    }

    pub(super) fn each_since(&self, earlier: &Cpus) -> BTreeMap<u32, CpuShares> {
        let none = Ticks::default();
        self.each
            .iter()
            .map(|(cpu, ticks)| (*cpu, shares(ticks, earlier.each.get(cpu).unwrap_or(&none))))
            .collect()
    }

    pub(super) fn context_switches_since(&self, earlier: &Cpus) -> u64 {
        self.context_switches.saturating_sub(earlier.context_switches)
    }
}

/// Percentages of the time between two readings; zeros where none has passed.
fn shares(now: &Ticks, earlier: &Ticks) -> CpuShares {
    let spent: Ticks = std::array::from_fn(|kind| now[kind].saturating_sub(earlier[kind]));
    let total: u64 = spent.iter().sum();
    let [user, nice, system, idle, io_wait, irq, soft_irq] =
        spent.map(|ticks| Float::percent(ticks as f64 * 100.0 / total.max(1) as f64));
    CpuShares { user, nice, system, idle, io_wait, irq, soft_irq }
}

pub(super) fn memory() -> io::Result<MemoryInfo> {
    Ok(parse_memory(&fs::read_to_string("/proc/meminfo")?))
}

fn parse_memory(meminfo: &str) -> MemoryInfo {
    let bytes = |name: &str| {
        let value = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kibibytes = value.and_then(|value| value.trim().trim_end_matches(" kB").parse().ok());
        kibibytes.map_or(0, |kibibytes: u64| kibibytes * 1024)
    };
    let (total, swap) = (bytes("MemTotal"), bytes("SwapTotal"));
    MemoryInfo {
        memory_total_bytes: total,
        memory_used_bytes: total.saturating_sub(bytes("MemAvailable")),
        swap_total_bytes: swap,
        swap_used_bytes: swap.saturating_sub(bytes("SwapFree")),
    }
}

/// Seconds that a process has spent in its own code and in the kernel's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ProcessTime {
    pub(super) user: f64,
    pub(super) system: f64,
}

impl ProcessTime {
    /// The error is the text that was captured where the process is gone.
    pub(super) fn read(pid: u32) -> Result<ProcessTime, String> {
        let path = format!("/proc/{pid}/stat");
        let told = |error: &io::Error| match error.kind() {
            io::ErrorKind::NotFound => format!("open {path}: no such file or directory"),
            _ => format!("open {path}: {error}"),
        };
        let stat = fs::read_to_string(&path).map_err(|error| told(&error))?;
        // The program's name is in parentheses and may have spaces.
        let after_name = stat.rsplit_once(')').map_or(stat.as_str(), |(_, after)| after);
        let mut ticks = after_name.split_ascii_whitespace().skip(11).map(|word| word.parse().unwrap_or(0.0));
        let mut seconds = || ticks.next().unwrap_or(0.0) / TICKS_PER_SECOND;
        Ok(ProcessTime { user: seconds(), system: seconds() })
    }
}

/// NEURON_PROCESS_TAG of a process, by which it is filtered and named; its id where it has none.
pub(super) fn tag(pid: u32) -> String {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let tag =
        environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(b"NEURON_PROCESS_TAG="));
    tag.map_or_else(|| pid.to_string(), |tag| String::from_utf8_lossy(tag).into_owned())
}
