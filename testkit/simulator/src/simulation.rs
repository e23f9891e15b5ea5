//! A simulation under way: its time, its hosts, its trace. Made by [`run`], which gives it a thread of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use futures::future::BoxFuture;
use runtime::BranchCounts;
use tokio::runtime::Builder;
use tokio::task::coop::unconstrained;

use crate::executor::{Executor, Order, Ready, Spawned};
use crate::host::Host;
use crate::logs::Logs;
use crate::network::{Link, LinkQuality, Network};
use crate::panics::{self, Panic};
use crate::process::{Activity, ProcessState};
use crate::random::{self, Rng};
use crate::trace::{Sink, Trace};
use crate::watchdog::{TellStuck, Watchdog};

/// 2026-01-01T00:00:00Z, at which every simulation begins, since 1970.
const BEGINNING: Duration = Duration::from_secs(1_767_225_600);

/// What a simulation is made of.
pub struct Options {
    /// Everything random comes from it.
    pub seed: u64,
    /// In which order tasks that are ready at one instant are polled.
    pub order: Order,
    /// Where events go, if anybody reads them.
    pub trace: Option<Sink>,
    /// Parts that are killed before a poll of their tasks, by its number over all processes of the part, from 1.
    pub kills: Vec<(String, u64)>,
    /// Is told, on another thread, when a poll does not return for so long in real time.
    pub watchdog: Option<(Duration, TellStuck)>,
}

/// What came of a simulation.
#[derive(Debug)]
pub struct Finished<T> {
    /// What the main future returned; none if it panicked, or waited for what can never come.
    pub result: Option<T>,
    /// The same for two runs that were the same.
    pub hash: u64,
    /// Number of events.
    pub events: u64,
    /// The last events, in words, the latest last.
    pub last_events: Vec<String>,
    /// Simulated time.
    pub elapsed: Duration,
    /// Every panic, in order.
    pub panics: Vec<Panic>,
    /// What each part has done.
    pub activity: BTreeMap<String, Activity>,
    /// How often recovery branches were reached.
    pub branches: BranchCounts,
    /// Why the trace could not be written, if it could not.
    pub trace_error: Option<String>,
}

/// A simulation under way. Clones are the same one.
#[derive(Clone)]
pub struct Simulation {
    shared: Arc<Shared>,
}

/// What all its parts share.
pub(crate) struct Shared {
    pub(crate) seed: u64,
    pub(crate) ready: Ready,
    pub(crate) network: Network,
    pub(crate) watchdog: Arc<Watchdog>,
    elapsed: AtomicU64,
    tasks: AtomicU64,
    processes: AtomicU64,
    hosts: AtomicUsize,
    spawned: Mutex<Vec<Spawned>>,
    ended: Mutex<Vec<Arc<ProcessState>>>,
    parts: Mutex<Parts>,
    trace: Mutex<Trace>,
}

/// Parts by their places.
#[derive(Default)]
struct Parts {
    places: BTreeMap<String, usize>,
    all: Vec<Part>,
    kills: Vec<(String, u64)>,
}

struct Part {
    name: Arc<str>,
    activity: Activity,
    kills: BTreeSet<u64>,
}

impl Options {
    /// A seeded order, no kills, nobody who watches.
    pub fn new(seed: u64) -> Self {
        Self { seed, order: Order::Seeded, trace: None, kills: Vec::new(), watchdog: None }
    }
}

/// Runs a simulation to the end of its main future, on a thread of its own: what a thread has done before must not matter.
pub fn run<T, F>(options: Options, main: impl FnOnce(Simulation) -> F + Send + 'static) -> Finished<T>
where
    T: Send + 'static,
    F: Future<Output = T>,
{
    let (seed, order) = (options.seed, options.order);
    let (watchdog, guard) = Watchdog::start(options.watchdog);
    let shared = Arc::new(Shared::new(seed, options.trace, options.kills, watchdog));
    let of_thread = Arc::clone(&shared);
    let simulated = thread::Builder::new().name(format!("simulation {seed}")).spawn(move || {
        let shared = of_thread;
        let edge = libc_edge::enter(shared.stream("process edge").u64(..));
        fastrand::seed(shared.stream("fastrand").u64(..));
        runtime::count_branches();
        panics::catch_on_this_thread();
        let _logs = tracing::subscriber::set_default(Logs::new(Arc::clone(&shared)));
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let result = runtime.ok().and_then(|runtime| {
            let simulation = Simulation { shared: Arc::clone(&shared) };
            let work = async move {
                let main = main(simulation);
                unconstrained(Executor::new(shared, edge, main, order)).await
            };
            catch_unwind(AssertUnwindSafe(|| runtime.block_on(work))).ok().flatten()
        });
        (result, runtime::counted_branches(), panics::caught_on_this_thread())
    });
    let (result, branches, panics) = match simulated.map(thread::JoinHandle::join) {
        Ok(Ok(done)) => done,
        _ => (None, BranchCounts::new(), Vec::new()),
    };
    drop(guard);
    let panics = panics.into_iter().map(|panic| panic.of_part(&shared)).collect();
    let activity = shared.activity();
    let elapsed = shared.elapsed();
    let mut trace = shared.trace();
    trace.finish();
    Finished {
        result,
        hash: trace.hash(),
        events: trace.events(),
        last_events: trace.last().map(str::to_owned).collect(),
        elapsed,
        panics,
        activity,
        branches,
        trace_error: trace.sink_failed.take(),
    }
}

impl Simulation {
    /// Adds a host. Its processes reach all others over links.
    pub fn host(&self, name: &str) -> Host {
        Host::new(&self.shared, name, self.shared.hosts.fetch_add(1, Ordering::Relaxed))
    }

    /// Simulated time since the beginning.
    pub fn elapsed(&self) -> Duration {
        self.shared.elapsed()
    }

    /// The stream of random numbers of this label.
    pub fn stream(&self, label: &str) -> Rng {
        self.shared.stream(label)
    }

    /// Adds an event to the trace: part of what two runs are compared by.
    pub fn event(&self, part: &str, what: fmt::Arguments<'_>) {
        self.shared.event(part, what);
    }

    /// Adds an event that comes again and again and explains nothing, such as a heartbeat: it is part of what two runs are
    /// compared by, and not among the last events.
    pub fn routine(&self, part: &str, what: fmt::Arguments<'_>) {
        self.shared.trace().routine(self.elapsed(), part, what);
    }

    /// The link from one host to another, in that direction alone.
    pub fn link(&self, from: &Host, to: &Host) -> Arc<Link> {
        self.shared.network.link(from.number(), to.number())
    }

    /// Has connections to an address that is nobody's go to one of `backends` on which somebody listens, chosen by the seed, as
    /// a Kubernetes Service has them.
    pub fn set_service(&self, service: SocketAddrV4, backends: Vec<SocketAddrV4>) {
        self.shared.network.set_service(service, backends);
    }

    /// Sets how all links are.
    pub fn set_links(&self, quality: LinkQuality) {
        self.shared.network.set_quality(quality);
    }

    /// The last events, in words, the latest last.
    pub fn last_events(&self) -> Vec<String> {
        self.shared.trace().last().map(str::to_owned).collect()
    }

    /// What each part has done so far.
    pub fn activity(&self) -> BTreeMap<String, Activity> {
        self.shared.activity()
    }

    /// Number of panics so far.
    pub fn panics(&self) -> usize {
        panics::count_on_this_thread()
    }
}

impl Shared {
    fn new(seed: u64, sink: Option<Sink>, kills: Vec<(String, u64)>, watchdog: Arc<Watchdog>) -> Self {
        Self {
            seed,
            ready: Ready::default(),
            network: Network::new(seed),
            watchdog,
            elapsed: AtomicU64::new(0),
            tasks: AtomicU64::new(0),
            processes: AtomicU64::new(0),
            hosts: AtomicUsize::new(0),
            spawned: Mutex::default(),
            ended: Mutex::default(),
            parts: Mutex::new(Parts { kills, ..Parts::default() }),
            trace: Mutex::new(Trace::new(sink)),
        }
    }

    pub(crate) fn stream(&self, label: &str) -> Rng {
        random::stream(self.seed, label)
    }

    pub(crate) fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.elapsed.load(Ordering::Relaxed))
    }

    pub(crate) fn set_elapsed(&self, elapsed: Duration) {
        // 584 years fit.
        self.elapsed.store(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// What a wall clock shows that is so many nanoseconds ahead, since 1970.
    pub(crate) fn wall(&self, elapsed: Duration, skew: i64) -> Duration {
        let true_time = BEGINNING + elapsed;
        let ahead = Duration::from_nanos(skew.unsigned_abs());
        if skew < 0 { true_time.saturating_sub(ahead) } else { true_time + ahead }
    }

    /// Whether there is a host with this address, and its number.
    pub(crate) fn host_at(&self, ip: Ipv4Addr) -> Option<usize> {
        let [10, 0, high, low] = ip.octets() else { return None };
        let number = usize::from(u16::from_be_bytes([high, low])).checked_sub(1)?;
        (number < self.hosts.load(Ordering::Relaxed)).then_some(number)
    }

    pub(crate) fn next_process(&self) -> u64 {
        self.processes.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn spawn(&self, process: Arc<ProcessState>, future: BoxFuture<'static, ()>) {
        // 0 is the main future.
        let id = self.tasks.fetch_add(1, Ordering::Relaxed) + 1;
        locked(&self.spawned).push(Spawned { id, process, future });
        self.ready.look();
    }

    pub(crate) fn take_spawned(&self) -> Vec<Spawned> {
        std::mem::take(&mut locked(&self.spawned))
    }

    pub(crate) fn process_ended(&self, process: Arc<ProcessState>) {
        locked(&self.ended).push(process);
        self.ready.look();
    }

    pub(crate) fn take_ended(&self) -> Vec<Arc<ProcessState>> {
        std::mem::take(&mut locked(&self.ended))
    }

    /// A process of the part starts: the part's place, and how many were started before.
    pub(crate) fn part_starts(&self, name: &str) -> (usize, u64) {
        let mut parts = locked(&self.parts);
        let place = parts.place(name);
        let activity = &mut parts.all[place].activity;
        activity.starts += 1;
        (place, activity.starts - 1)
    }

    /// Counts a poll; its number.
    pub(crate) fn count_poll(&self, part: usize) -> u64 {
        let activity = &mut locked(&self.parts).all[part].activity;
        activity.polls += 1;
        activity.polls
    }

    pub(crate) fn count_log_line(&self, part: usize) {
        locked(&self.parts).all[part].activity.log_lines += 1;
    }

    /// The next poll before which the part is killed.
    pub(crate) fn next_kill(&self, part: usize) -> u64 {
        let parts = locked(&self.parts);
        let Part { activity, kills, .. } = &parts.all[part];
        kills.range(activity.polls + 1..).next().copied().unwrap_or(u64::MAX)
    }

    pub(crate) fn part_name(&self, part: usize) -> Arc<str> {
        Arc::clone(&locked(&self.parts).all[part].name)
    }

    fn activity(&self) -> BTreeMap<String, Activity> {
        locked(&self.parts).all.iter().map(|part| (part.name.to_string(), part.activity)).collect()
    }

    pub(crate) fn event(&self, part: &str, what: fmt::Arguments<'_>) {
        self.trace().add(self.elapsed(), part, what);
    }

    pub(crate) fn event_of(&self, part: usize, what: fmt::Arguments<'_>) {
        self.event(&self.part_name(part), what);
    }

    pub(crate) fn remark_of(&self, part: usize, what: fmt::Arguments<'_>) {
        let name = self.part_name(part);
        self.trace().remark(self.elapsed(), &name, what);
    }

    pub(crate) fn wants_remarks(&self) -> bool {
        self.trace().wants(self.elapsed())
    }

    fn trace(&self) -> MutexGuard<'_, Trace> {
        locked(&self.trace)
    }
}

impl Parts {
    fn place(&mut self, name: &str) -> usize {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        let place = self.all.len();
        let kills = self.kills.iter().filter(|(part, _)| part == name).map(|(_, poll)| *poll).collect();
        self.all.push(Part { name: name.into(), activity: Activity::default(), kills });
        self.places.insert(name.to_owned(), place);
        place
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
