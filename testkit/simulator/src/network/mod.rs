//! Connections in memory: over links between hosts, which can be slow, lossy or cut (`link`), and on a host, where they take no
//! time unless the host is busy.

mod addresses;
mod link;
mod of_process;
mod pipe;

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use runtime::system::Connection;
use tokio::sync::mpsc;
use tokio::time::Instant;

pub(crate) use self::addresses::HostAddress;
use self::addresses::HostAddresses;
pub use self::link::{Link, LinkQuality};
pub(crate) use self::of_process::ProcessSockets;
use self::pipe::Pipe;
use crate::random::{self, Rng};

/// How a process ends, as those see it whom it is connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Its kernel resets its connections.
    Killed,
    /// Its kernel closes its connections.
    Exited,
    /// Nobody is told.
    Vanished,
}

/// All links, listeners and connections.
pub(crate) struct Network {
    seed: u64,
    hosts: HostAddresses,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    quality: LinkQuality,
    /// How it is within each host.
    within_host: LinkQuality,
    /// By the numbers of the hosts that it leads from and to.
    links: BTreeMap<(usize, usize), Arc<Link>>,
    listeners: BTreeMap<SocketAddrV4, Listening>,
    /// Addresses that stand for others.
    services: BTreeMap<SocketAddrV4, Service>,
    /// Connections of processes, by the process' number.
    pipes: BTreeMap<u64, Vec<Arc<Pipe>>>,
    ports: u16,
}

/// An address that stands for others.
struct Service {
    backends: Vec<SocketAddrV4>,
    /// Those from a later time on.
    next: Option<(Instant, Vec<SocketAddrV4>)>,
    /// Chooses among them.
    draws: Rng,
}

/// A TCP port that somebody listens on.
#[derive(Clone)]
struct Listening {
    process: u64,
    connections: mpsc::UnboundedSender<Connection>,
}

impl Network {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, hosts: HostAddresses::default(), state: Mutex::default() }
    }

    /// Adds a host.
    pub(crate) fn add_host(&self) -> HostAddress {
        self.hosts.add()
    }

    /// Sets how links are that nobody has set apart.
    pub(crate) fn set_quality(&self, quality: LinkQuality) {
        let mut state = self.state();
        state.quality = quality;
        let between_hosts = state.links.iter().filter(|((from, to), _)| from != to);
        between_hosts.for_each(|(_, link)| link.set_quality(quality));
    }

    /// Sets how long messages take within each host.
    pub(crate) fn set_within_host(&self, quality: LinkQuality) {
        let mut state = self.state();
        state.within_host = quality;
        let within_host = state.links.iter().filter(|((from, to), _)| from == to);
        within_host.for_each(|(_, link)| link.set_quality(quality));
    }

    /// The link from one host to another.
    pub(crate) fn link(&self, from: usize, to: usize) -> Arc<Link> {
        let mut state = self.state();
        let quality = if from == to { state.within_host } else { state.quality };
        let new = || {
            let draws = random::stream(self.seed, &format!("link {from}-{to}"));
            Arc::new(Link::new(quality, draws))
        };
        Arc::clone(state.links.entry((from, to)).or_insert_with(new))
    }

    /// The process has ended: so do its connections and listeners.
    pub(crate) fn process_ends(&self, process: u64, how: Ending) {
        let mut state = self.state();
        state.listeners.retain(|_, listening| listening.process != process);
        let pipes = state.pipes.remove(&process).unwrap_or_default();
        drop(state);
        pipes.iter().for_each(|pipe| pipe.process_ends(process, how));
    }

    /// Resets the connections between two hosts, by their numbers.
    pub(crate) fn reset(&self, one: usize, other: usize) {
        let state = self.state();
        let Some(link) = state.links.get(&(one, other)) else { return };
        let pipes: Vec<Arc<Pipe>> =
            state.pipes.values().flatten().filter(|pipe| pipe.leads_over(link)).cloned().collect();
        drop(state);
        pipes.iter().for_each(|pipe| pipe.reset());
    }

    /// Listens on the port, which must be free; port 0 is any.
    fn listen(
        &self,
        process: u64,
        (ip, port): (Ipv4Addr, u16),
    ) -> io::Result<(SocketAddrV4, mpsc::UnboundedReceiver<Connection>)> {
        let mut state = self.state();
        let port = if port == 0 {
            state.ports = state.ports.wrapping_add(1);
            32_768 + state.ports % 28_000
        } else {
            port
        };
        let address = SocketAddrV4::new(ip, port);
        if state.listeners.contains_key(&address) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let (connections, accepted) = mpsc::unbounded_channel();
        state.listeners.insert(address, Listening { process, connections });
        Ok((address, accepted))
    }

    /// Has connections to `service` go to one of `backends` on which somebody listens, as kube-proxy does.
    pub(crate) fn set_service(&self, service: SocketAddrV4, backends: Vec<SocketAddrV4>, from: Instant) {
        let draws = random::stream(self.seed, &format!("service {service}"));
        let new = Service { backends: Vec::new(), next: None, draws };
        self.state().services.entry(service).or_insert(new).next = Some((from, backends));
    }

    /// The address that a connection to `address` goes to.
    fn backend(&self, address: SocketAddrV4) -> SocketAddrV4 {
        let State { services, listeners, .. } = &mut *self.state();
        let Some(Service { backends, next, draws }) = services.get_mut(&address) else { return address };
        if let Some((_, now)) = next.take_if(|(from, _)| *from <= Instant::now()) {
            *backends = now;
        }
        let ready: Vec<SocketAddrV4> =
            backends.iter().copied().filter(|backend| listeners.contains_key(backend)).collect();
        draws.choice(&ready).or(backends.first()).copied().unwrap_or(address)
    }

    fn listening(&self, address: SocketAddrV4) -> Option<Listening> {
        self.state().listeners.get(&address).cloned()
    }

    /// Two ends of a connection between two processes. `links` lead from the first to the second and back.
    fn connect(&self, [first, second]: [u64; 2], links: Option<[Arc<Link>; 2]>) -> [pipe::End; 2] {
        let (pipe, ends) = Pipe::new([first, second], links);
        let mut state = self.state();
        for process in [first, second] {
            let pipes = state.pipes.entry(process).or_default();
            // Connections come and go; those that are over are dropped now and then.
            if pipes.len().is_power_of_two() {
                pipes.retain(|pipe| !pipe.is_over());
            }
            pipes.push(Arc::clone(&pipe));
        }
        ends
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
