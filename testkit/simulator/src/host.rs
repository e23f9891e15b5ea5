//! A host: files, an address, and the processes on it. It can lose its power.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use crate::files::FileSystem;
use crate::machine::Machine;
use crate::network::Ending;
use crate::process::{Process, ProcessState, Shared};

/// A machine of the simulation. Clones are the same one.
#[derive(Clone)]
pub struct Host {
    shared: Arc<Shared>,
    machine: Arc<Machine>,
    processes: Arc<Mutex<Vec<Weak<ProcessState>>>>,
}

impl Host {
    pub(crate) fn new(shared: &Arc<Shared>, name: &str) -> Self {
        let machine = Machine {
            name: name.to_owned(),
            address: shared.network.add_host(),
            files: Arc::new(FileSystem::new(shared.clock.clone())),
        };
        Self { shared: Arc::clone(shared), machine: Arc::new(machine), processes: Arc::default() }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.machine.name
    }

    /// Its address, in 10.0.0.0/16. Every host reaches every other, unless the link between them is cut.
    pub fn ip(&self) -> Ipv4Addr {
        self.machine.address.ip
    }

    /// Number among all hosts, from 0, as links are named by.
    pub fn number(&self) -> usize {
        self.machine.address.number
    }

    /// Its files, without a process: for those who make the machine.
    pub fn files(&self) -> &FileSystem {
        &self.machine.files
    }

    /// Time since the simulation began, which is when its kernel booted.
    pub fn since_boot(&self) -> Duration {
        self.shared.clock.elapsed()
    }

    /// The time of a wall clock that is right.
    pub fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.shared.clock.wall(0)
    }

    /// Starts a process. `part` names what it does, such as `extender`: what is counted and drawn goes by it.
    pub fn process(&self, part: &str) -> Process {
        let process = Process::start(&self.shared, &self.machine, part);
        process.joins(&mut self.processes());
        process
    }

    /// Ends all its processes at once, without a word to those they were connected to. Files stay, sockets' among them.
    pub fn lose_power(&self) {
        let processes = std::mem::take(&mut *self.processes());
        for process in processes.iter().filter_map(Weak::upgrade) {
            process.end(Ending::Vanished);
        }
    }

    fn processes(&self) -> MutexGuard<'_, Vec<Weak<ProcessState>>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
