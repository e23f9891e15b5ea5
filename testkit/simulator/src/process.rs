//! A process on a host: what a program runs as. It can be killed before any poll of its tasks, frozen, and go by a clock of its
//! own.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::SystemTime;

use futures::future::BoxFuture;
use runtime::System;
use runtime::system::{Files, Platform, Sockets};
use tokio::sync::watch;

use crate::files::ProcessFiles;
use crate::host::HostState;
use crate::network::{Ending, ProcessSockets};
use crate::random::{self, Rng};
use crate::simulation::Shared;

/// A running process. Clones are the same one. Dropping it leaves it running.
#[derive(Clone)]
pub struct Process {
    state: Arc<ProcessState>,
}

/// What a part has done so far, over all its processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Polls of its tasks.
    pub polls: u64,
    /// Lines in its log, of level info and above.
    pub log_lines: u64,
    /// Processes started.
    pub starts: u64,
}

/// One process.
pub(crate) struct ProcessState {
    me: Weak<ProcessState>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) host: Arc<HostState>,
    /// Place in the table of parts.
    part: usize,
    /// Number among all processes.
    pub(crate) id: u64,
    life: watch::Sender<Life>,
    /// Tasks that became ready while it was frozen.
    stalled: Mutex<Vec<u64>>,
    /// How far its wall clock is ahead, in nanoseconds.
    skew: AtomicI64,
    /// The next poll of its part before which it is killed.
    kill_before: AtomicU64,
    random: Mutex<Rng>,
    files: ProcessFiles,
    sockets: ProcessSockets,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Runs,
    Frozen,
    Ended,
}

/// Whether a task of a process may be polled.
pub(crate) enum MayBePolled {
    Yes,
    /// It is frozen; the task is ready again when that is over.
    NotNow,
    /// It has ended.
    Never,
}

impl Process {
    pub(crate) fn start(shared: &Arc<Shared>, host: &Arc<HostState>, part: &str) -> Self {
        let (place, starts) = shared.part_starts(part);
        let id = shared.next_process();
        let random = random::stream(shared.seed, &format!("process {part} {starts}"));
        let state = Arc::new_cyclic(|me| ProcessState {
            me: me.clone(),
            shared: Arc::clone(shared),
            host: Arc::clone(host),
            part: place,
            id,
            life: watch::Sender::new(Life::Runs),
            stalled: Mutex::default(),
            skew: AtomicI64::new(0),
            kill_before: AtomicU64::new(shared.next_kill(place)),
            random: Mutex::new(random),
            files: ProcessFiles::new(me.clone(), Arc::clone(host)),
            sockets: ProcessSockets::new(me.clone()),
        });
        shared.event(part, format_args!("starts on {}", host.name));
        Self { state }
    }

    /// Adds itself to the processes of its host, and drops those that have ended.
    pub(crate) fn joins(&self, processes: &mut Vec<Weak<ProcessState>>) {
        processes.retain(|known| known.upgrade().is_some_and(|known| !known.has_ended()));
        processes.push(Arc::downgrade(&self.state));
    }

    /// What its program is given.
    pub fn system(&self) -> System {
        System::on(Arc::clone(&self.state) as Arc<dyn Platform>)
    }

    /// Kills it: none of its tasks is polled again, its connections are reset, its locks are free. One that has ended stays as it
    /// is.
    pub fn kill(&self) {
        self.state.end(Ending::Killed);
    }

    /// Ends it as a program that returns from its main function: what it still runs ends, its connections are closed.
    pub fn exit(&self) {
        self.state.end(Ending::Exited);
    }

    /// Stops it where it is, as SIGSTOP does: its sockets take connections and bytes, and nobody answers.
    pub fn freeze(&self) {
        if *self.state.life.borrow() == Life::Runs {
            self.state.event("is frozen");
            self.state.life.send_replace(Life::Frozen);
        }
    }

    /// Lets a frozen process go on.
    pub fn thaw(&self) {
        if *self.state.life.borrow() == Life::Frozen {
            self.state.event("goes on");
            self.state.life.send_replace(Life::Runs);
            for task in std::mem::take(&mut *locked(&self.state.stalled)) {
                self.state.shared.ready.put_back(task);
            }
            self.state.shared.ready.look();
        }
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.state.has_ended()
    }

    /// Waits until it has ended.
    pub async fn ended(&self) {
        let mut life = self.state.life.subscribe();
        // The sender lives as long as this handle.
        let _ended = life.wait_for(|life| *life == Life::Ended).await;
    }

    /// Sets how far its wall clock is ahead of the true time, in nanoseconds; negative: behind.
    pub fn set_skew(&self, nanoseconds: i64) {
        self.state.skew.store(nanoseconds, Ordering::Relaxed);
    }

    /// Its number among all processes of the simulation, from 0.
    pub fn number(&self) -> u64 {
        self.state.id
    }

    /// The name of its part.
    pub fn part(&self) -> String {
        self.state.shared.part_name(self.state.part).to_string()
    }

    /// Its host's name.
    pub fn host_name(&self) -> &str {
        &self.state.host.name
    }
}

impl ProcessState {
    pub(crate) fn part(&self) -> usize {
        self.part
    }

    pub(crate) fn skew(&self) -> i64 {
        self.skew.load(Ordering::Relaxed)
    }

    pub(crate) fn has_ended(&self) -> bool {
        *self.life.borrow() == Life::Ended
    }

    /// Counts a poll, before which it may be killed.
    pub(crate) fn poll_begins(self: &Arc<Self>, task: u64) -> MayBePolled {
        match *self.life.borrow() {
            Life::Runs => {}
            Life::Frozen => {
                locked(&self.stalled).push(task);
                return MayBePolled::NotNow;
            }
            Life::Ended => return MayBePolled::Never,
        }
        if self.shared.count_poll(self.part) >= self.kill_before.load(Ordering::Relaxed) {
            self.end(Ending::Killed);
            return MayBePolled::Never;
        }
        MayBePolled::Yes
    }

    pub(crate) fn end(self: &Arc<Self>, how: Ending) {
        if self.life.send_if_modified(|life| std::mem::replace(life, Life::Ended) != Life::Ended) {
            self.event(match how {
                Ending::Killed => "is killed",
                Ending::Exited => "exits",
                Ending::Vanished => "loses its power",
            });
            self.shared.network.process_ends(self.id, how);
            self.shared.process_ended(Arc::clone(self));
        }
    }

    fn event(&self, what: &str) {
        self.shared.event_of(self.part, format_args!("{what}"));
    }
}

impl Platform for ProcessState {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        // A task that a dying process starts, as in a destructor, is never polled.
        if let Some(process) = self.me.upgrade().filter(|process| !process.has_ended()) {
            self.shared.spawn(process, task);
        }
    }

    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.shared.wall(self.shared.elapsed(), self.skew())
    }

    fn random(&self) -> u64 {
        locked(&self.random).u64(..)
    }

    fn files(&self) -> &dyn Files {
        &self.files
    }

    fn sockets(&self) -> &dyn Sockets {
        &self.sockets
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
