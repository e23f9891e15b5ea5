//! A process' sockets: TCP ports of its host's address and of loopback, and Unix sockets among its host's files.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::Path;
use std::sync::{Arc, Weak};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use runtime::system::{Address, Connection, Listener, Sockets};
use tokio::sync::mpsc;

use crate::process::ProcessState;

/// Longest path of a Unix socket, in bytes (unix(7)).
const LONGEST_PATH: usize = 107;

/// The sockets of one process.
pub(crate) struct ProcessSockets {
    process: Weak<ProcessState>,
}

/// A socket that listens.
struct Accepting {
    address: Address,
    connections: mpsc::UnboundedReceiver<Connection>,
}

impl ProcessSockets {
    pub(crate) fn new(process: Weak<ProcessState>) -> Self {
        Self { process }
    }

    fn process(&self) -> io::Result<Arc<ProcessState>> {
        let alive = self.process.upgrade().filter(|process| !process.has_ended());
        alive.ok_or_else(|| io::Error::other("the process has ended"))
    }
}

impl Sockets for ProcessSockets {
    fn listen(&self, address: &Address) -> io::Result<Box<dyn Listener>> {
        let process = self.process()?;
        let host = &process.host;
        let (address, connections) = match address {
            Address::Unix(path) => {
                check_path(path)?;
                (address.clone(), host.files.listen(path, process.id)?)
            }
            Address::Tcp(SocketAddr::V4(wanted)) => {
                let ip = if wanted.ip().is_unspecified() { host.ip } else { ip_of(&process, *wanted.ip()) };
                if ip != host.ip {
                    return Err(io::ErrorKind::AddrNotAvailable.into());
                }
                let at = (ip, wanted.port());
                let (address, connections) = process.shared.network.listen(process.id, at)?;
                (Address::Tcp(address.into()), connections)
            }
            Address::Tcp(SocketAddr::V6(_)) => return Err(io::ErrorKind::AddrNotAvailable.into()),
        };
        Ok(Box::new(Accepting { address, connections }))
    }

    fn connect(&self, address: &Address) -> BoxFuture<'static, io::Result<Connection>> {
        let (process, address) = (self.process(), address.clone());
        async move {
            let process = process?;
            match address {
                Address::Unix(path) => connect_unix(&process, &path),
                Address::Tcp(SocketAddr::V4(address)) => connect_tcp(&process, address).await,
                Address::Tcp(SocketAddr::V6(_)) => Err(io::ErrorKind::NetworkUnreachable.into()),
            }
        }
        .boxed()
    }
}

fn connect_unix(process: &ProcessState, path: &Path) -> io::Result<Connection> {
    check_path(path)?;
    let (server, connections) = process.host.files.listening(path)?;
    let [near, far] = process.shared.network.connect([process.id, server], None);
    // The kernel takes connections for a process that does not, until that has ended.
    connections.send(Connection::new(far, "")).map_err(|_| io::ErrorKind::ConnectionRefused)?;
    Ok(Connection::new(near, ""))
}

async fn connect_tcp(process: &ProcessState, address: SocketAddrV4) -> io::Result<Connection> {
    let network = &process.shared.network;
    let ip = ip_of(process, *address.ip());
    let address = network.backend(SocketAddrV4::new(ip, address.port()));
    let host = process.shared.host_at(*address.ip()).ok_or(io::ErrorKind::HostUnreachable)?;
    let here = process.host.number;
    let links = (host != here).then(|| [network.link(here, host), network.link(host, here)]);
    if let Some([there, back]) = &links {
        there.pass().await;
        back.pass().await;
    }
    let listening = network.listening(address).ok_or(io::ErrorKind::ConnectionRefused)?;
    let [near, far] = network.connect([process.id, listening.process], links);
    let peer = process.host.ip.to_string();
    listening.connections.send(Connection::new(far, peer)).map_err(|_| io::ErrorKind::ConnectionRefused)?;
    Ok(Connection::new(near, address.to_string()))
}

/// Loopback is the process' own host.
fn ip_of(process: &ProcessState, ip: Ipv4Addr) -> Ipv4Addr {
    if ip.is_loopback() { process.host.ip } else { ip }
}

fn check_path(path: &Path) -> io::Result<()> {
    if path.as_os_str().len() > LONGEST_PATH {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "path must be shorter than SUN_LEN"));
    }
    Ok(())
}

impl Listener for Accepting {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Connection>> {
        async {
            match self.connections.recv().await {
                Some(connection) => Ok(connection),
                // The process has ended, so nobody waits for this.
                None => std::future::pending().await,
            }
        }
        .boxed()
    }

    fn address(&self) -> Address {
        self.address.clone()
    }
}

/// A Unix socket that somebody listens on. It is known by its file, which may be renamed.
pub(crate) struct UnixListening {
    /// Number of its file.
    pub(crate) inode: u64,
    pub(crate) process: u64,
    pub(crate) connections: mpsc::UnboundedSender<Connection>,
}
