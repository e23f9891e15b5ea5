//! Watches the machine: waits until its devices can be discovered, then keeps their health up to date. Started by `run`.
//!
//! Each device is looked at by a task of its own. A loss reaches the node report first and kubelet at most [`REPORT_FIRST`] later, a
//! recovery reaches kubelet first (`report` waits for it): so the extender never places on what kubelet does not offer.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::OptionFuture;
use neuron_core::ids::{DeviceSet, MAX_DEVICES};
use runtime::system::{TaskEnded, TaskSet};
use runtime::{System, reached};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use crate::events::Events;
use crate::hardware::device_files::device_ids;
use crate::hardware::discovery::{Discovery, DiscoveryError};
use crate::hardware::driver::Driver;
use crate::hardware::health::{DeviceHealth, DeviceWatch, Fault};
use crate::hardware::held_lnc::HeldLnc;
use crate::hardware::machine::Machine;
use crate::hardware::sysfs::FileError;
use crate::status::Status;

/// The part of [`Status`] that is the hardware.
pub(crate) const DEVICES: &str = "devices";
/// The part of [`Status`] that is the LNC in force.
const LNC: &str = "LNC";
/// How long kubelet's list of a lost device waits for the node report at most.
const REPORT_FIRST: Duration = Duration::from_secs(1);
/// How long news of a device waits for that of others, so that a driver's end is one change.
const TOGETHER: Duration = Duration::from_millis(20);

/// Announces the machine to the rest of the plugin; none until it was discovered.
pub(crate) type MachineSender = watch::Sender<Option<Arc<Machine>>>;

/// Looks for the machine every `poll` until it can be discovered, then announces it. One of a type in no catalog is looked at
/// again, every second or more often, until its devices have not changed for `settle`: while a driver loads, they come one by one.
pub(crate) async fn discover(
    discovery: &Discovery<'_>,
    held: Option<&HeldLnc>,
    (poll, settle): (Duration, Duration),
    sender: &MachineSender,
    status: &Status,
) {
    let mut shown: Option<(DeviceSet, Instant)> = None;
    loop {
        let wait = match discovery.look(held).await {
            Ok(machine) => {
                let since = match shown {
                    Some((before, since)) if before == machine.shown => since,
                    _ => Instant::now(),
                };
                if machine.is_known_type || since.elapsed() >= settle {
                    // What the machine would be without holders.
                    let configured = if held.is_some() { Some(discovery.look(None).await) } else { None };
                    announce(&machine, configured, status);
                    sender.send_replace(Some(Arc::new(machine)));
                    status.fine(DEVICES);
                    return;
                }
                reached("plugin: devices still coming");
                shown = Some((machine.shown, since));
                let name = machine.topology.instance_type();
                let ids = machine.shown;
                status.problem(
                    DEVICES,
                    &format!("instance type {name} is in no catalog: waiting until devices {ids} are all there have been for {settle:?}"),
                );
                poll.min(settle / 4).min(Duration::from_secs(1))
            }
            Err(error) => {
                reached("plugin: devices not found");
                shown = None;
                status.problem(DEVICES, &error.to_string());
                poll
            }
        };
        sleep(wait).await;
    }
}

/// Follows every device's health until one of the tasks that look at them ends, which none should. `reported` are the devices that
/// the node report calls unhealthy.
pub(crate) async fn follow_health(
    system: &System,
    (root, interval): (&Path, Duration),
    sender: &MachineSender,
    mut reported: watch::Receiver<DeviceSet>,
    (events, status): (Events, Arc<Status>),
) -> TaskEnded {
    let Some(machine) = sender.borrow().clone() else { return std::future::pending().await };
    let (tell, mut told) = mpsc::channel(MAX_DEVICES);
    let driver = watch::Sender::new(machine.driver.clone());
    let mut tasks = TaskSet::new(system.clone());
    tasks.spawn(follow_driver(system.clone(), root.to_owned(), interval, driver.clone()));
    if !machine.is_known_type {
        let late = late_devices(system.clone(), root.to_owned(), interval, Arc::clone(&machine), status);
        tasks.spawn(late);
    }
    for watch in machine.watches.iter() {
        let known = machine.health(watch.files.id);
        tasks.spawn(look_again(watch.clone(), known, interval, driver.subscribe(), tell.clone()));
    }
    let tell_events = |note: String| {
        let events = events.clone();
        drop(system.spawn(async move { events.health_changed(note).await }));
    };
    let nothing = Machine { faults: BTreeMap::new(), unknown: BTreeMap::new(), ..Machine::clone(&machine) };
    if let Some(note) = log_health(&nothing, &machine) {
        tell_events(note);
    }
    let mut follow = Follow { machine, lost: BTreeMap::new() };
    let mut looks = Vec::new();
    loop {
        let due: OptionFuture<_> =
            follow.lost.values().min().map(|lost| sleep_until(*lost + REPORT_FIRST)).into();
        tokio::select! {
            biased;
            Some(ended) = tasks.join_next() => return ended.err().unwrap_or(TaskEnded::Aborted),
            Some(()) = due => {}
            Ok(()) = reported.changed(), if !follow.lost.is_empty() => {}
            Some(look) = told.recv() => {
                looks.push(look);
                sleep(TOGETHER).await;
                while let Ok(look) = told.try_recv() {
                    looks.push(look);
                }
            }
        }
        let before = Arc::clone(&follow.machine);
        if follow.step(looks.drain(..), *reported.borrow_and_update(), Instant::now()) {
            if let Some(note) = log_health(&before, &follow.machine) {
                tell_events(note);
            }
            sender.send_replace(Some(Arc::clone(&follow.machine)));
        }
    }
}

/// Looks at the driver every `interval`.
async fn follow_driver(system: System, root: PathBuf, interval: Duration, driver: watch::Sender<Driver>) {
    loop {
        sleep(interval).await;
        let before = driver.borrow().clone();
        let now = Driver::look(&system, &root, &before).await;
        driver.send_if_modified(|driver| std::mem::replace(driver, now) != before);
    }
}

/// Looks for devices that come after a machine of a type in no catalog was offered: its topology stays, so they are only told of.
async fn late_devices(
    system: System,
    root: PathBuf,
    interval: Duration,
    machine: Arc<Machine>,
    status: Arc<Status>,
) {
    let mut told = DeviceSet::EMPTY;
    loop {
        sleep(interval).await;
        let shown = device_ids(&system, &root).await.unwrap_or_default();
        let late = shown.difference(machine.topology.all_devices());
        if !late.is_subset(told) {
            reached("plugin: devices came late");
            told = told.union(late);
            let note = format!(
                "devices {late} came after this machine was offered without them: restart the plugin to serve them, or \
                 raise --settle-seconds"
            );
            status.note(DEVICES, &note);
        }
    }
}

/// Looks at one device every `interval` and when the driver has changed, and tells what has changed.
async fn look_again(
    mut watch: DeviceWatch,
    mut known: DeviceHealth,
    interval: Duration,
    mut driver: watch::Receiver<Driver>,
    tell: mpsc::Sender<(u8, DeviceHealth)>,
) {
    loop {
        tokio::select! {
            // Both lead to the same look.
            biased;
            () = sleep(interval) => {}
            Ok(()) = driver.changed() => {}
        }
        let now = driver.borrow_and_update().clone();
        let health = watch.look(&now).await;
        // Planted: a device that was unhealthy once stays so.
        #[cfg(planted)]
        if runtime::is_planted("unhealthy-for-ever")
            && matches!(known, DeviceHealth::Unhealthy(_))
            && health == DeviceHealth::Healthy
        {
            continue;
        }
        if health != known && tell.send((watch.files.id, health.clone())).await.is_err() {
            return;
        }
        known = health;
    }
}

/// What is announced, and what of it kubelet is not told yet.
struct Follow {
    machine: Arc<Machine>,
    /// When devices were lost that kubelet is not told of yet, by id.
    lost: BTreeMap<u8, Instant>,
}

impl Follow {
    /// Takes news of devices, and of what the node report says. Whether there is something to announce.
    fn step(
        &mut self,
        looks: impl IntoIterator<Item = (u8, DeviceHealth)>,
        reported: DeviceSet,
        now: Instant,
    ) -> bool {
        let before = &self.machine;
        let mut machine = before.with(looks);
        let unhealthy = machine.unhealthy();
        for device in unhealthy.difference(before.unhealthy()).difference(machine.withheld).iter() {
            self.lost.insert(device, now);
        }
        for device in machine.withheld.difference(unhealthy).iter() {
            machine.recovered.insert(device, now);
        }
        machine.recovered.retain(|device, _| !unhealthy.contains(*device));
        machine.withheld = machine.withheld.intersection(unhealthy);
        self.lost.retain(|device, since| {
            let waits = !reported.contains(*device) && now < *since + REPORT_FIRST;
            let is_lost = unhealthy.contains(*device);
            if is_lost && !waits {
                machine.withheld = machine.withheld.union(DeviceSet::single(*device));
            }
            is_lost && waits
        });
        let is_news = machine.faults != before.faults
            || machine.unknown != before.unknown
            || machine.withheld != before.withheld;
        self.machine = Arc::new(machine);
        is_news
    }
}

fn announce(machine: &Machine, configured: Option<Result<Machine, DiscoveryError>>, status: &Status) {
    let topology = &machine.topology;
    let lnc = topology.lnc();
    tracing::info!(
        instance_type = topology.instance_type(),
        device_count = topology.devices(),
        core_count = topology.cores(),
        lnc,
        "devices discovered"
    );
    match configured {
        Some(Ok(configured)) if configured.topology.lnc() != lnc => {
            reached("plugin: LNC held");
            tracing::warn!(
                lnc,
                configured = configured.topology.lnc(),
                "pods hold cores at another LNC than the configured one; restart the plugin once they have ended"
            );
        }
        Some(Err(bad)) => {
            reached("plugin: LNC held, the configured one is not usable");
            let note = format!(
                "pods hold cores at LNC {lnc}, which stays; without them no device could be offered, because {bad}: correct that"
            );
            status.note(LNC, &note);
        }
        _ => {}
    }
}

/// Logs what has changed. Gives it as the text of an event, if anything has.
fn log_health(before: &Machine, now: &Machine) -> Option<String> {
    let mut notes = Vec::new();
    for device in now.topology.all_devices().iter() {
        let health = now.health(device);
        if before.health(device) == health {
            continue;
        }
        let note = match &health {
            DeviceHealth::Unhealthy(fault) => {
                count(fault);
                tracing::warn!(device, reason = %fault, "device unhealthy");
                format!("neuron{device} is unhealthy: {fault}")
            }
            DeviceHealth::Unknown(unread) => {
                reached("plugin: device health unknown");
                tracing::warn!(device, reason = %unread, "device health unknown");
                format!("neuron{device} is served: {unread}")
            }
            DeviceHealth::Healthy => {
                reached("plugin: device healthy again");
                tracing::info!(device, "device healthy again");
                format!("neuron{device} is healthy again")
            }
        };
        notes.push(note);
    }
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// Counts a fault as a branch.
fn count(fault: &Fault) {
    match fault {
        Fault::Missing { .. } => reached("plugin: device lost"),
        Fault::DriverGone { .. } => reached("plugin: driver gone"),
        Fault::Reset => reached("plugin: device in a reset"),
        Fault::File(FileError::Hangs { .. }) => reached("plugin: device file hangs"),
        _ => reached("plugin: device unhealthy"),
    }
}
