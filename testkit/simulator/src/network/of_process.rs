//! A process' sockets: TCP ports of its host's address and of loopback, and Unix sockets among its host's files.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::Path;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use runtime::system::{Address, Connection, Listener, Sockets};
use tokio::sync::mpsc;

use super::{HostAddress, Network};
use crate::files::FileSystem;
use crate::life::Life;

/// Longest path of a Unix socket, in bytes (unix(7)).
const LONGEST_PATH: usize = 107;

/// The sockets of one process.
#[derive(Clone)]
pub(crate) struct ProcessSockets {
    /// The process' number.
    process: u64,
    life: Life,
    host: HostAddress,
    /// Its host's.
    files: Arc<FileSystem>,
    network: Arc<Network>,
}

/// A socket that listens.
struct Accepting {
    address: Address,
    connections: mpsc::UnboundedReceiver<Connection>,
}

impl ProcessSockets {
    /// The sockets of the process with this number and life, on the host with these files.
    pub(crate) fn new(
        process: u64,
        life: Life,
        host: HostAddress,
        files: Arc<FileSystem>,
        network: Arc<Network>,
    ) -> Self {
        Self { process, life, host, files, network }
    }

    fn check_alive(&self) -> io::Result<()> {
        if self.life.has_ended() {
            return Err(io::Error::other("the process has ended"));
        }
        Ok(())
    }

    fn connect_unix(&self, path: &Path) -> io::Result<Connection> {
        check_path(path)?;
        let (server, connections) = self.files.listening(path)?;
        let here = self.host.number;
        let within = self.network.link(here, here);
        let [near, far] = self.network.connect([self.process, server], Some([Arc::clone(&within), within]));
        // The kernel takes connections for a process that does not, until that has ended.
        connections.send(Connection::new(far, "")).map_err(|_| io::ErrorKind::ConnectionRefused)?;
        Ok(Connection::new(near, ""))
    }

    async fn connect_tcp(&self, address: SocketAddrV4) -> io::Result<Connection> {
        let network = &self.network;
        let address = network.backend(SocketAddrV4::new(self.ip(*address.ip()), address.port()));
        let there = network.hosts.host_at(*address.ip()).ok_or(io::ErrorKind::HostUnreachable)?;
        let here = self.host.number;
        let links = (there != here).then(|| [network.link(here, there), network.link(there, here)]);
        if let Some([there, back]) = &links {
            there.pass().await;
            back.pass().await;
        }
        let listening = network.listening(address).ok_or(io::ErrorKind::ConnectionRefused)?;
        let [near, far] = network.connect([self.process, listening.process], links);
        let peer = self.host.ip.to_string();
        listening
            .connections
            .send(Connection::new(far, peer))
            .map_err(|_| io::ErrorKind::ConnectionRefused)?;
        Ok(Connection::new(near, address.to_string()))
    }

    /// Loopback is the process' own host.
    fn ip(&self, ip: Ipv4Addr) -> Ipv4Addr {
        if ip.is_loopback() { self.host.ip } else { ip }
    }
}

impl Sockets for ProcessSockets {
    fn listen(&self, address: &Address) -> io::Result<Box<dyn Listener>> {
        self.check_alive()?;
        let (address, connections) = match address {
            Address::Unix(path) => {
                check_path(path)?;
                (address.clone(), self.files.listen(path, self.process)?)
            }
            Address::Tcp(SocketAddr::V4(wanted)) => {
                let ip = if wanted.ip().is_unspecified() { self.host.ip } else { self.ip(*wanted.ip()) };
                if ip != self.host.ip {
                    return Err(io::ErrorKind::AddrNotAvailable.into());
                }
                let (address, connections) = self.network.listen(self.process, (ip, wanted.port()))?;
                (Address::Tcp(address.into()), connections)
            }
            // No host has IPv6: its any address is that of IPv4 there, as on a real one.
            Address::Tcp(SocketAddr::V6(wanted)) if wanted.ip().is_unspecified() => {
                return self.listen(&Address::Tcp((Ipv4Addr::UNSPECIFIED, wanted.port()).into()));
            }
            Address::Tcp(SocketAddr::V6(_)) => return Err(io::ErrorKind::AddrNotAvailable.into()),
        };
        Ok(Box::new(Accepting { address, connections }))
    }

    fn connect(&self, address: &Address) -> BoxFuture<'static, io::Result<Connection>> {
        let (alive, sockets, address) = (self.check_alive(), self.clone(), address.clone());
        async move {
            alive?;
            match address {
                Address::Unix(path) => sockets.connect_unix(&path),
                Address::Tcp(SocketAddr::V4(address)) => sockets.connect_tcp(address).await,
                Address::Tcp(SocketAddr::V6(_)) => Err(io::ErrorKind::NetworkUnreachable.into()),
            }
        }
        .boxed()
    }
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
