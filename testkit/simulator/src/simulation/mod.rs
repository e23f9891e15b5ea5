//! A simulation under way: its time, its hosts, its trace. Made by [`run`], which gives it a thread of its own.

mod options;
mod run;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

pub use self::options::{Options, POLL_LIMIT};
pub use self::run::{Finished, run};
use crate::host::Host;
use crate::network::{Link, LinkQuality};
use crate::panics;
use crate::parts::Activity;
use crate::process::Shared;
use crate::random::Rng;

/// A simulation under way. Clones are the same one.
#[derive(Clone)]
pub struct Simulation {
    shared: Arc<Shared>,
}

impl Simulation {
    fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Adds a host. Its processes reach all others over links.
    pub fn host(&self, name: &str) -> Host {
        Host::new(&self.shared, name)
    }

    /// Simulated time since the beginning.
    pub fn elapsed(&self) -> Duration {
        self.shared.clock.elapsed()
    }

    /// The stream of random numbers of this label.
    pub fn stream(&self, label: &str) -> Rng {
        self.shared.stream(label)
    }

    /// Adds an event to the trace: part of what two runs are compared by.
    pub fn event(&self, part: &str, what: fmt::Arguments<'_>) {
        self.shared.trace.event(part, what);
    }

    /// Adds an event that comes again and again and explains nothing, such as a heartbeat: it is part of what two runs are
    /// compared by, and not among the last events.
    pub fn routine(&self, part: &str, what: fmt::Arguments<'_>) {
        self.shared.trace.routine(part, what);
    }

    /// The link from one host to another, in that direction alone.
    pub fn link(&self, from: &Host, to: &Host) -> Arc<Link> {
        self.shared.network.link(from.number(), to.number())
    }

    /// Has connections to an address that is nobody's go to one of `backends` on which somebody listens, chosen by the seed, as
    /// a Kubernetes Service has them. From a time on, as it takes a while until every node knows.
    pub fn set_service(&self, service: SocketAddrV4, backends: Vec<SocketAddrV4>, from: Instant) {
        self.shared.network.set_service(service, backends, from);
    }

    /// Resets all connections between two hosts, as what lies between them may do.
    pub fn reset_connections(&self, one: &Host, other: &Host) {
        self.shared.network.reset(one.number(), other.number());
    }

    /// Sets how all links between hosts are.
    pub fn set_links(&self, quality: LinkQuality) {
        self.shared.network.set_quality(quality);
    }

    /// Sets how long messages over Unix sockets take: no time on a host that has nothing else to do, as it is without this.
    pub fn set_within_host(&self, quality: LinkQuality) {
        self.shared.network.set_within_host(quality);
    }

    /// The last events, in words, the latest last.
    pub fn last_events(&self) -> Vec<String> {
        self.shared.trace.last()
    }

    /// What each part has done so far.
    pub fn activity(&self) -> BTreeMap<String, Activity> {
        self.shared.parts.activity()
    }

    /// Number of panics so far.
    pub fn panics(&self) -> usize {
        panics::count_on_this_thread()
    }
}
