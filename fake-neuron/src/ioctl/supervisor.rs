//! Serves the processes under filters. One supervisor is one host: its reservations hold across everybody it serves. Called by
//! `fake-neuron exec` and the agent.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use fake_neuron_seccomp::Listener;

use super::host::Host;
use super::paths::Visible;
use super::service::Service;
use crate::{Machine, Reads};

/// Why serving ended early.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// The kernel refused.
    #[error(
        "cannot answer the program's calls: {0}; ioctls need Linux 5.14 or newer with seccomp user notification"
    )]
    Listener(#[from] io::Error),
}

/// Why serving ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// No process is left under the filter.
    ToTheEnd,
    /// The caller was told to stop; processes may live on.
    Stopped,
}

/// Answers for one machine. Its copies are the same one.
#[derive(Clone, Debug)]
pub struct Supervisor {
    host: Arc<Host>,
    metadata_service: Option<SocketAddrV4>,
    reads: Option<Arc<Mutex<Reads>>>,
    writes_are_refused: bool,
}

impl Supervisor {
    /// The supervisor of this machine. It reads the machine's faults, and keeps the list of processes that use it
    /// ([`crate::state`]) and the kernel log (`dev/kmsg` below the root).
    pub fn new(machine: &Machine) -> Supervisor {
        let host = Arc::new(Host::new(machine));
        Supervisor { host, metadata_service: None, reads: None, writes_are_refused: false }
    }

    /// The same with connections to the metadata service's link-local address, port 80, led to `address`, where a filter watches them
    /// ([`super::Watch::metadata_service`]).
    pub fn with_metadata_service(self, address: SocketAddrV4) -> Supervisor {
        Supervisor { metadata_service: Some(address), ..self }
    }

    /// The same, counting which files of the machine are opened.
    pub fn with_reads(self) -> Supervisor {
        Supervisor { reads: Some(Arc::default()), ..self }
    }

    /// The same, refusing even root to open for writing what sysfs lets nobody write. For programs in this process' own mount namespace.
    pub fn refusing_writes(self) -> Supervisor {
        Supervisor { writes_are_refused: true, ..self }
    }

    /// What was opened so far; none where nobody counts.
    pub fn reads(&self) -> Option<Reads> {
        let reads = self.reads.as_ref()?;
        Some(reads.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Answers the calls of everybody under the listener's filter, until none of them lives or `stop` becomes readable (or is closed
    /// at its other end). Whoever lives on then gets `ENOSYS` for each watched call.
    ///
    /// # Errors
    /// The kernel refuses the listener.
    pub fn serve(
        &self,
        listener: OwnedFd,
        visible: &Visible,
        stop: BorrowedFd<'_>,
    ) -> Result<Served, SupervisorError> {
        let listener = Listener::from(listener);
        let (metadata_service, reads) = (self.metadata_service, self.reads.as_deref());
        let mut service = Service {
            host: &self.host,
            listener,
            visible,
            metadata_service,
            reads,
            writes_are_refused: self.writes_are_refused,
            callers: BTreeSet::new(),
        };
        let served = service.run(stop);
        // Whoever was served is gone, or is known to nobody any more.
        self.host.lock().refresh();
        Ok(served?)
    }
}
