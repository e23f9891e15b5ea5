//! What the figures depend on: the machine and what it runs.

use serde::Serialize;

/// The machine a measurement was made on.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Machine {
    /// Model of its processors.
    pub(super) processor: String,
    /// How many of them this program may use.
    pub(super) processors: usize,
    /// Memory in GiB.
    pub(super) memory_gib: u64,
    /// Operating system and version.
    pub(super) kernel: String,
    /// Runnable tasks over the last minute, before the measurement began: what else the machine was doing.
    pub(super) load_before: String,
    /// Image of kube-scheduler.
    pub(super) scheduler: String,
    /// How this program, and with it both extenders, was built.
    pub(super) build: &'static str,
}

/// Counters of /proc/stat over all processors, in hundredths of seconds since the start: all times together, and
/// `steal`, which other machines on the same hardware had.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ProcessorTime {
    all: f64,
    stolen: f64,
}

impl ProcessorTime {
    /// The counters now; none where the system does not say.
    pub(super) fn now() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    fn parse(stat: &str) -> Option<Self> {
        let fields = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        // user, nice, system, idle, waiting for disks, interrupts, soft interrupts, stolen; what guests use is in user.
        let ticks: Vec<f64> =
            fields.split_whitespace().take(8).map_while(|field| field.parse().ok()).collect();
        let stolen = *ticks.get(7)?;
        Some(Self { all: ticks.iter().sum(), stolen })
    }

    /// The share of the time since `before` that was kept for others, from 0 to 1.
    pub(super) fn stolen_since(self, before: Self) -> f64 {
        (self.stolen - before.stolen) / (self.all - before.all).max(1.0)
    }
}

impl Machine {
    /// Looks at this one; what the system does not say reads `unknown`.
    pub(super) fn look() -> Self {
        let line = |path: &str, start: &str| {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix(start).map(str::to_owned));
            line.map(|rest| rest.trim_start_matches([' ', '\t', ':']).to_owned())
        };
        let unknown = || "unknown".to_owned();
        let memory = line("/proc/meminfo", "MemTotal").unwrap_or_default();
        let kib: Option<u64> = memory.split_whitespace().next().and_then(|number| number.parse().ok());
        let load = line("/proc/loadavg", "").unwrap_or_default();
        Self {
            processor: line("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            memory_gib: kib.unwrap_or_default() >> 20,
            kernel: line("/proc/sys/kernel/osrelease", "")
                .map_or_else(unknown, |text| format!("Linux {text}")),
            load_before: load.split_whitespace().next().map_or_else(unknown, str::to_owned),
            scheduler: unknown(),
            build: if cfg!(debug_assertions) { "debug" } else { "release" },
        }
    }

    /// The machine in lines of text.
    pub(super) fn text(&self) -> String {
        format!(
            "{} x {}, {} GiB, {}, load {} before\nkube-scheduler {}, extenders built for {}\n",
            self.processors,
            self.processor,
            self.memory_gib,
            self.kernel,
            self.load_before,
            self.scheduler,
            self.build
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_took_is_a_share_of_all_time() {
        let before =
            ProcessorTime::parse("cpu  100 0 0 100 0 0 0 10 7 7\ncpu0 1 2 3 4 5 6 7 8 9 9\n").unwrap();
        let after = ProcessorTime::parse("cpu  150 10 5 110 5 5 5 20 9 9\n").unwrap();
        assert_eq!(after.stolen_since(before), 0.1);
        assert_eq!(after.stolen_since(after), 0.0);
        assert_eq!(ProcessorTime::parse("cpu  1 2 3\n"), None);
    }
}
