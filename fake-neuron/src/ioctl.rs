//! What `/dev/neuronN` answers: opens, the discovery ioctls and, where asked for, the node's type. A [`Supervisor`] answers the calls
//! of processes under a filter ([`filter`]); what it answers is decided by a model of the driver that knows nothing of processes'
//! memory. Called by `fake-neuron exec` for one program and by [`crate::agent`] for the containers of a node.
//!
//! Structures and numbers are those of docs/reference/neuron.md §4.2; what that leaves open (what is written for a failed
//! reservation, which errors) was read in the driver's public source, 2.24.7.0. Commands that move data or program engines are
//! refused as the driver refuses unknown ones.
//!
//! What no supervisor sees: calls by io_uring or of 32-bit programs, and `close`. So a device is let go, and a reservation ends, when
//! its process ends or next is looked at (within a second).

mod answers;
mod caller;
mod command;
mod core_map;
mod discovered;
mod driver;
mod hardware;
mod host;
mod layout;
mod memory;
mod opens;
mod paths;
mod pods;
mod reservations;
mod reserved;
mod service;
mod stat;
mod supervisor;

use fake_neuron_seccomp::{Filter, Stats, Watched};

pub(crate) use caller::start_of;
pub use command::Command;
pub(crate) use command::TYPE as COMMAND_TYPE;
pub use discovered::{Discovered, discover};
pub use paths::Visible;
pub use reserved::Reserved;
pub use supervisor::{Served, Supervisor, SupervisorError};

/// What a filter watches besides opens and the driver's ioctls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    /// Whether `/dev/neuronN` shall look like a character device although it is none: where nodes cannot be made. Each `stat` of each
    /// program then costs a round trip; else only those of open files do, since what an open gives is never a node.
    pub node_types: bool,
    /// Whether connections to the instance metadata service shall be answered ([`Supervisor::with_metadata_service`]).
    pub metadata_service: bool,
}

/// The filter for a program that a [`Supervisor`] shall serve.
pub fn filter(watch: Watch) -> Filter {
    Filter::new(Watched {
        ioctl_type: command::TYPE,
        stat: if watch.node_types { Stats::All } else { Stats::OfDescriptors },
        connect: watch.metadata_service,
    })
}
