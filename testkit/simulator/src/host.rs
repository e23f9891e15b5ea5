//! A host: files, an address, and the processes on it. It can lose its power.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::files::FileSystem;
use crate::network::Ending;
use crate::process::{Process, ProcessState};
use crate::simulation::Shared;

/// A machine of the simulation. Clones are the same one.
#[derive(Clone)]
pub struct Host {
    shared: Arc<Shared>,
    state: Arc<HostState>,
}

pub(crate) struct HostState {
    pub(crate) name: String,
    /// Number among all hosts, from 0.
    pub(crate) number: usize,
    pub(crate) ip: Ipv4Addr,
    pub(crate) files: FileSystem,
    processes: Mutex<Vec<Weak<ProcessState>>>,
}

impl Host {
    pub(crate) fn new(shared: &Arc<Shared>, name: &str, number: usize) -> Self {
        let low = u16::try_from(number + 1).unwrap_or(u16::MAX).to_be_bytes();
        let state = HostState {
            name: name.to_owned(),
            number,
            ip: Ipv4Addr::new(10, 0, low[0], low[1]),
            files: FileSystem::new(Arc::clone(shared)),
            processes: Mutex::default(),
        };
        Self { shared: Arc::clone(shared), state: Arc::new(state) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// Its address, in 10.0.0.0/16. Every host reaches every other, unless the link between them is cut.
    pub fn ip(&self) -> Ipv4Addr {
        self.state.ip
    }

    /// Number among all hosts, from 0, as links are named by.
    pub fn number(&self) -> usize {
        self.state.number
    }

    /// Its files, without a process: for those who make the machine.
    pub fn files(&self) -> &FileSystem {
        &self.state.files
    }

    /// Starts a process. `part` names what it does, such as `extender`: what is counted and drawn goes by it.
    pub fn process(&self, part: &str) -> Process {
        let process = Process::start(&self.shared, &self.state, part);
        process.joins(&mut self.state.processes.lock().unwrap_or_else(PoisonError::into_inner));
        process
    }

    /// Ends all its processes at once, without a word to those they were connected to. Files stay, sockets' among them.
    pub fn lose_power(&self) {
        let processes =
            std::mem::take(&mut *self.state.processes.lock().unwrap_or_else(PoisonError::into_inner));
        for process in processes.iter().filter_map(Weak::upgrade) {
            process.end(Ending::Vanished);
        }
    }
}
