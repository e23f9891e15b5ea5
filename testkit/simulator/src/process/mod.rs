//! A process on a host: what a program runs as. It can be killed before any poll of its tasks, frozen, and go by a clock of its
//! own.

mod changes;
mod shared;
mod state;

use std::sync::{Arc, Weak};

use runtime::System;
use runtime::system::Platform;

pub(crate) use self::changes::Spawned;
pub(crate) use self::shared::Shared;
pub(crate) use self::state::{MayBePolled, ProcessState};
use crate::machine::Machine;
use crate::network::Ending;

/// A running process. Clones are the same one. Dropping it leaves it running.
#[derive(Clone)]
pub struct Process {
    state: Arc<ProcessState>,
}

impl Process {
    pub(crate) fn start(shared: &Arc<Shared>, machine: &Arc<Machine>, part: &str) -> Self {
        Self { state: ProcessState::start(shared, machine, part) }
    }

    /// Adds itself to the processes of its host, and drops those that have ended.
    pub(crate) fn joins(&self, processes: &mut Vec<Weak<ProcessState>>) {
        processes.retain(|known| known.upgrade().is_some_and(|known| !known.life.has_ended()));
        processes.push(Arc::downgrade(&self.state));
    }

    /// What its program is given.
    pub fn system(&self) -> System {
        System::on(Arc::clone(&self.state) as Arc<dyn Platform>)
    }

    /// Kills it: none of its tasks is polled again, its connections are reset, its locks are free. One that has ended stays as it
    /// is.
    pub fn kill(&self) {
        self.state.kill(false);
    }

    /// Kills it once the tasks of its part were polled so many times more; a later call replaces an earlier one.
    pub fn kill_after(&self, polls: u64) {
        self.state.kill_after(polls);
    }

    /// Ends it as a program that returns from its main function: what it still runs ends, its connections are closed.
    pub fn exit(&self) {
        self.state.end(Ending::Exited);
    }

    /// Stops it where it is, as SIGSTOP does: its sockets take connections and bytes, and nobody answers.
    pub fn freeze(&self) {
        self.state.freeze();
    }

    /// Lets a frozen process go on.
    pub fn thaw(&self) {
        self.state.thaw();
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.state.life.has_ended()
    }

    /// Waits until it has ended.
    pub async fn ended(&self) {
        self.state.life.ended().await;
    }

    /// Sets how far its wall clock is ahead of the true time, in nanoseconds; negative: behind.
    pub fn set_skew(&self, nanoseconds: i64) {
        self.state.set_skew(nanoseconds);
    }

    /// Its number among all processes of the simulation, from 0.
    pub fn number(&self) -> u64 {
        self.state.id
    }

    /// The name of its part.
    pub fn part(&self) -> String {
        self.state.part.to_string()
    }

    /// Its host's name.
    pub fn host_name(&self) -> &str {
        &self.state.machine.name
    }
}
