//! What there is of one process: its life, clock, files and sockets. Polled by the executor.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;
use runtime::system::{Files, Platform, Sockets};

use super::shared::Shared;
use crate::files::ProcessFiles;
use crate::life::{Life, Stage};
use crate::machine::Machine;
use crate::network::{Ending, ProcessSockets};
use crate::random::Rng;

/// One process.
pub(crate) struct ProcessState {
    me: Weak<ProcessState>,
    shared: Arc<Shared>,
    pub(super) machine: Arc<Machine>,
    /// Its part's name, and place in the table of parts.
    pub(super) part: Arc<str>,
    place: usize,
    /// Number among all processes.
    pub(super) id: u64,
    pub(super) life: Life,
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

/// Whether a task of a process may be polled.
pub(crate) enum MayBePolled {
    Yes,
    /// It is frozen; the task is ready again when that is over.
    NotNow,
    /// It has ended.
    Never,
}

impl ProcessState {
    pub(super) fn start(shared: &Arc<Shared>, machine: &Arc<Machine>, part: &str) -> Arc<Self> {
        let (place, starts) = shared.parts.starts(part);
        let (id, life) = (shared.next_process(), Life::new());
        let (address, files) = (machine.address, &machine.files);
        let network = Arc::clone(&shared.network);
        let state = Arc::new_cyclic(|me| Self {
            me: me.clone(),
            shared: Arc::clone(shared),
            machine: Arc::clone(machine),
            part: shared.parts.name(place),
            place,
            id,
            stalled: Mutex::default(),
            skew: AtomicI64::new(0),
            kill_before: AtomicU64::new(shared.parts.next_kill(place)),
            random: Mutex::new(shared.stream(&format!("process {part} {starts}"))),
            files: ProcessFiles::new(life.clone(), Arc::clone(files), address.number),
            sockets: ProcessSockets::new(id, life.clone(), address, Arc::clone(files), network),
            life,
        });
        state.event(&format!("starts on {}", machine.name));
        state
    }

    /// Its part's place in the table of parts.
    pub(crate) fn part(&self) -> usize {
        self.place
    }

    /// What its wall clock shows, since 1970.
    pub(crate) fn wall(&self) -> Duration {
        self.shared.clock.wall(self.skew.load(Ordering::Relaxed))
    }

    /// Sets how far its wall clock is ahead, in nanoseconds.
    pub(super) fn set_skew(&self, nanoseconds: i64) {
        self.skew.store(nanoseconds, Ordering::Relaxed);
    }

    /// Counts a poll, before which it may be killed.
    pub(crate) fn poll_begins(self: &Arc<Self>, task: u64) -> MayBePolled {
        match self.life.stage() {
            Stage::Runs => {}
            Stage::Frozen => {
                locked(&self.stalled).push(task);
                return MayBePolled::NotNow;
            }
            Stage::Ended => return MayBePolled::Never,
        }
        if self.shared.parts.count_poll(self.place) >= self.kill_before.load(Ordering::Relaxed) {
            self.kill(true);
            return MayBePolled::Never;
        }
        MayBePolled::Yes
    }

    /// Has it killed once its part was polled so many times more.
    pub(super) fn kill_after(&self, polls: u64) {
        let next = self.shared.parts.polls(self.place).saturating_add(polls).saturating_add(1);
        self.kill_before.store(next.min(self.shared.parts.next_kill(self.place)), Ordering::Relaxed);
    }

    /// Kills it, unless it has ended: by the number of its poll, or because somebody wants it.
    pub(super) fn kill(self: &Arc<Self>, by_poll: bool) {
        if self.end(Ending::Killed) {
            self.shared.parts.count_kill(self.place, by_poll);
        }
    }

    /// Ends it. Whether it had not ended before.
    pub(crate) fn end(self: &Arc<Self>, how: Ending) -> bool {
        let ends = self.life.end();
        if ends {
            self.event(match how {
                Ending::Killed => "is killed",
                Ending::Exited => "exits",
                Ending::Vanished => "loses its power",
            });
            self.shared.network.process_ends(self.id, how);
            self.shared.changes.end(Arc::clone(self));
        }
        ends
    }

    pub(super) fn freeze(&self) {
        if self.life.freeze() {
            self.event("is frozen");
        }
    }

    pub(super) fn thaw(&self) {
        if self.life.thaw() {
            self.event("goes on");
            let ready = &self.shared.changes.ready;
            for task in std::mem::take(&mut *locked(&self.stalled)) {
                ready.put_back(task);
            }
            ready.look();
        }
    }

    fn event(&self, what: &str) {
        self.shared.trace.event(&self.part, format_args!("{what}"));
    }
}

impl Platform for ProcessState {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        // A task that a dying process starts, as in a destructor, is never polled.
        if let Some(process) = self.me.upgrade().filter(|process| !process.life.has_ended()) {
            self.shared.changes.spawn(process, task);
        }
    }

    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.wall()
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
