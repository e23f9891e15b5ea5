//! One host's driver, shared by everybody it serves, and the files that tell others about it. Called by [`super::service`].

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::driver::Driver;
use super::hardware::Hardware;
use crate::Machine;
use crate::fault::{Faults, append_record};
use crate::state::{NeuronProcess, write_processes};

/// A machine's driver.
#[derive(Debug)]
pub(crate) struct Host {
    root: PathBuf,
    state: Mutex<State>,
}

/// What calls change.
#[derive(Debug)]
pub(crate) struct State {
    root: PathBuf,
    pub(crate) driver: Driver,
    /// What `processes.json` says.
    written: Vec<NeuronProcess>,
}

impl Host {
    pub(crate) fn new(machine: &Machine) -> Host {
        let driver = Driver::new(Hardware::of(machine.description()));
        let root = machine.root().to_owned();
        Host { root: root.clone(), state: Mutex::new(State { root, driver, written: Vec::new() }) }
    }

    /// Where the machine stands.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves nothing half done: each change is one call to the driver.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The faults in force; none where their file makes no sense, which the log says.
    pub(crate) fn faults(&self) -> Faults {
        Faults::read(&self.root).unwrap_or_else(|error| {
            tracing::warn!(%error, "faults are ignored");
            Faults::default()
        })
    }
}

impl State {
    /// Looks at what processes have closed, and tells who is left.
    pub(crate) fn refresh(&mut self) {
        self.driver.refresh();
        self.tell();
    }

    /// Writes the list of processes where it has changed, and the lines for the kernel log.
    pub(crate) fn tell(&mut self) {
        let list: Vec<NeuronProcess> = self.driver.processes().collect();
        if list != self.written {
            match write_processes(&self.root, &list) {
                Ok(()) => self.written = list,
                Err(error) => tracing::warn!(%error, "who uses the machine cannot be told"),
            }
        }
        for line in std::mem::take(&mut self.driver.log) {
            if let Err(error) = append_record(&self.root, &line.replace('\n', " ")) {
                tracing::warn!(%error, line, "a line for the kernel log is lost");
            }
        }
    }
}
