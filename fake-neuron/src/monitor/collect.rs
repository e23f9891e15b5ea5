//! Which groups are due, and what was read before: one record after the other. Called by [`crate::monitor`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::go::Float;
use crate::host::{Host, Identity};
use crate::imds::Zone;
use crate::load::{LoadInForce, Profile};
use crate::monitor::config::{Config, Group, Metric};
use crate::monitor::proc::{self, Cpus, ProcessTime};
use crate::monitor::record::{
    Record, Report, RuntimeData, RuntimeVcpuUsage, SystemData, Timed, UserAndSystem,
};
use crate::monitor::runtimes::Runtime;
use crate::monitor::system::{self, Errors};

pub(super) struct Collector {
    root: PathBuf,
    config: Config,
    /// That of `--load`; `None`: the one that is written down below the root.
    load: Option<LoadInForce>,
    started: Instant,
    /// When the record before this one was made.
    before: Option<Instant>,
    collected: BTreeMap<Place, Instant>,
    /// Second of the load in which each place was collected.
    load_seconds: BTreeMap<Place, u64>,
    cpus: Cpus,
    errors: Errors,
    process_times: BTreeMap<u32, ProcessTime>,
}

/// A group's place in the config: the filter's number, or none for the system's, and the group.
type Place = (Option<usize>, Group);

/// A place that is due, and how long it was not collected.
#[derive(Clone, Copy)]
struct Due {
    place: Place,
    period: Duration,
}

impl Collector {
    pub(super) fn new(root: PathBuf, config: Config, load: Option<Profile>) -> Collector {
        Collector {
            root,
            config,
            load: load.map(LoadInForce::begun),
            started: Instant::now(),
            before: None,
            collected: BTreeMap::new(),
            load_seconds: BTreeMap::new(),
            cpus: Cpus::default(),
            errors: Errors::new(),
            process_times: BTreeMap::new(),
        }
    }

    /// When the next record is due.
    pub(super) fn next(&self) -> Instant {
        let last = self.before.unwrap_or(self.started);
        let due = self
            .metrics()
            .map(|(place, metric)| self.collected.get(&place).unwrap_or(&last).to_owned() + metric.period);
        due.min().unwrap_or(last + self.config.period)
    }

    /// Collects what is due now.
    pub(super) fn record(&mut self) -> Record {
        let now = Instant::now();
        let is_first = self.before.replace(now).is_none();
        let due: Vec<Due> = self.due(now, is_first);
        let host = Host::read(&self.root, |name| std::env::var(name).ok());
        let load = self.load.unwrap_or_else(|| LoadInForce::read(&self.root));
        let mut system_data = SystemData::default();
        for due in due.iter().filter(|due| due.place.0.is_none()) {
            self.collect_system(&mut system_data, *due, host.as_ref().ok());
        }
        if is_first {
            // The first reading of what happens in a period is only kept.
            system_data = SystemData { memory_info: system_data.memory_info, ..SystemData::default() };
        }
        let runtimes = host.as_ref().map(|host| self.runtimes(host, load, &due, is_first));
        let identity = Identity::read(&self.root);
        Record {
            neuron_runtime_data: runtimes.unwrap_or_default(),
            system_data,
            instance_info: system::instance_info(&identity, &Zone::of_machine(&self.root)),
            neuron_hardware_info: system::hardware_info(host.as_ref()),
        }
    }

    fn metrics(&self) -> impl Iterator<Item = (Place, &Metric)> {
        let of_runtimes = self.config.runtimes.iter().enumerate().flat_map(|(number, filter)| {
            filter.metrics.iter().map(move |metric| ((Some(number), metric.group), metric))
        });
        of_runtimes.chain(self.config.system.iter().map(|metric| ((None, metric.group), metric)))
    }

    /// What is due, with the time since it was collected; from now on it counts as collected.
    fn due(&mut self, now: Instant, is_first: bool) -> Vec<Due> {
        let since = |place: &Place| now - *self.collected.get(place).unwrap_or(&self.started);
        let due: Vec<Due> = self
            .metrics()
            .filter(|(place, metric)| is_first || since(place) >= metric.period)
            .map(|(place, _)| Due { place, period: since(&place) })
            .collect();
        self.collected.extend(due.iter().map(|due| (due.place, now)));
        due
    }

    fn collect_system(&mut self, data: &mut SystemData, due: Due, host: Option<&Host>) {
        match due.place.1 {
            Group::MemoryInfo => data.memory_info = Some(timed(due, system::memory_info())),
            Group::VcpuUsage => data.vcpu_usage = Some(timed(due, system::vcpu_usage(&mut self.cpus))),
            Group::NeuronHwCounters => {
                let counters = host.map(|host| system::hw_counters(&self.root, host, &mut self.errors));
                let error = if counters.is_some() { "" } else { "no Neuron devices" };
                data.neuron_hw_counters = Some(timed(due, (counters.unwrap_or_default(), error.to_owned())));
            }
            _ => {}
        }
    }

    /// The processes that the filters let through, with what is due of them.
    fn runtimes(&mut self, host: &Host, load: LoadInForce, due: &[Due], is_first: bool) -> Vec<RuntimeData> {
        let second = load.second();
        let mut told = Vec::new();
        for runtime in Runtime::all(host, load.profile) {
            let tag = proc::tag(runtime.pid);
            let mut report = Report::default();
            let mut is_let_through = false;
            for (number, filter) in self.config.runtimes.iter().enumerate() {
                if filter.tag.as_ref().is_some_and(|filter| !filter.is_match(&tag)) {
                    continue;
                }
                is_let_through = true;
                for due in due.iter().filter(|due| due.place.0 == Some(number)) {
                    let earlier = *self.load_seconds.get(&due.place).unwrap_or(&second);
                    let vcpus = (due.place.1 == Group::NeuronRuntimeVcpuUsage)
                        .then(|| vcpu_usage(&mut self.process_times, runtime.pid, due.period));
                    if !(is_first && due.place.1.is_of_a_period()) {
                        collect(&mut report, *due, &runtime, load.profile, (earlier, second), vcpus);
                    }
                }
            }
            if is_let_through {
                told.push(RuntimeData {
                    pid: runtime.pid,
                    address: "",
                    neuron_runtime_tag: tag,
                    error: String::new(),
                    report,
                });
            }
        }
        let seconds = due.iter().filter(|due| due.place.0.is_some()).map(|due| (due.place, second));
        self.load_seconds.extend(seconds);
        let pids: Vec<u32> = told.iter().map(|runtime| runtime.pid).collect();
        self.process_times.retain(|pid, _| pids.contains(pid));
        told
    }
}

fn collect(
    report: &mut Report,
    due: Due,
    runtime: &Runtime<'_>,
    profile: Profile,
    (earlier, now): (u64, u64),
    vcpus: Option<system::Told<RuntimeVcpuUsage>>,
) {
    let no_error = String::new;
    match due.place.1 {
        Group::ExecutionStats => {
            report.execution_stats =
                Some(timed(due, (runtime.execution_stats(profile, earlier, now), no_error())));
        }
        Group::MemoryUsed => {
            report.memory_used = Some(timed(due, (runtime.memory_used(profile, now), no_error())))
        }
        Group::NeuroncoreCounters => {
            report.neuroncore_counters = Some(timed(due, (runtime.core_counters(profile, now), no_error())));
        }
        Group::NeuronRuntimeVcpuUsage => {
            report.neuron_runtime_vcpu_usage = vcpus.map(|vcpus| timed(due, vcpus))
        }
        _ => {}
    }
}

fn timed<T>(due: Due, (group, error): system::Told<T>) -> Timed<T> {
    Timed { period: Float(due.period.as_secs_f64()), group, error }
}

/// What a process did since it was looked at before, which `before` keeps.
fn vcpu_usage(
    before: &mut BTreeMap<u32, ProcessTime>,
    pid: u32,
    period: Duration,
) -> system::Told<RuntimeVcpuUsage> {
    match ProcessTime::read(pid) {
        Err(error) => (RuntimeVcpuUsage::default(), error),
        Ok(now) => {
            let earlier = before.insert(pid, now).unwrap_or(now);
            let percent =
                |seconds: f64| Float::percent(seconds * 100.0 / period.as_secs_f64().max(f64::EPSILON));
            let (user, system) = (percent(now.user - earlier.user), percent(now.system - earlier.system));
            (RuntimeVcpuUsage { vcpu_usage: UserAndSystem { user, system } }, String::new())
        }
    }
}
