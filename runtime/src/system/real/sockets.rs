//! The kernel's sockets.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use rustix::io::Errno;
use rustix::net::sockopt::set_ipv6_v6only;
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};

use crate::system::sockets::{Address, Connection, Listener, Sockets};

/// Connections that wait to be accepted: as many as mio has, beyond which the kernel lets clients try again.
const BACKLOG: u32 = 1024;

/// The kernel's sockets.
pub(super) struct Kernel;

impl Sockets for Kernel {
    fn listen(&self, address: &Address) -> io::Result<Box<dyn Listener>> {
        Ok(match address {
            Address::Tcp(address) => Box::new(listen_on_any(*address)?),
            Address::Unix(path) => Box::new(Unix { listener: UnixListener::bind(path)?, path: path.clone() }),
        })
    }

    fn connect(&self, address: &Address) -> BoxFuture<'static, io::Result<Connection>> {
        match address.clone() {
            Address::Tcp(address) => async move {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Ok(Connection::new(stream, address.to_string()))
            }
            .boxed(),
            Address::Unix(path) => {
                async move { Ok(Connection::new(UnixStream::connect(path).await?, "")) }.boxed()
            }
        }
    }
}

impl Listener for TcpListener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Connection>> {
        async {
            let (stream, peer) = TcpListener::accept(self).await?;
            stream.set_nodelay(true)?;
            // A client over IPv4 has an IPv6 address on a socket of both.
            let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
            Ok(Connection::new(stream, peer.to_string()))
        }
        .boxed()
    }

    fn address(&self) -> Address {
        let unknown = ([0, 0, 0, 0], 0).into();
        Address::Tcp(self.local_addr().unwrap_or(unknown))
    }
}

/// Listens at the address: at `[::]` for IPv6 and IPv4 alike, or for IPv4 alone where the kernel has no IPv6.
fn listen_on_any(address: SocketAddr) -> io::Result<TcpListener> {
    let error = match listen(address) {
        Ok(listener) => return Ok(listener),
        Err(error) => error,
    };
    let has_no_ipv6 = [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()));
    if is_any_of_ipv6(address) && has_no_ipv6 {
        return listen((Ipv4Addr::UNSPECIFIED, address.port()).into());
    }
    Err(error)
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv6() { TcpSocket::new_v6()? } else { TcpSocket::new_v4()? };
    if is_any_of_ipv6(address) {
        // Else net.ipv6.bindv6only decides.
        set_ipv6_v6only(&socket, false)?;
    }
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn is_any_of_ipv6(address: SocketAddr) -> bool {
    address.is_ipv6() && address.ip().is_unspecified()
}

struct Unix {
    listener: UnixListener,
    path: PathBuf,
}

impl Listener for Unix {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Connection>> {
        async { Ok(Connection::new(self.listener.accept().await?.0, "")) }.boxed()
    }

    fn address(&self) -> Address {
        Address::Unix(self.path.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    #[tokio::test]
    async fn any_address_of_ipv6_takes_clients_over_ipv4() {
        let mut listener = Kernel.listen(&Address::Tcp((Ipv6Addr::UNSPECIFIED, 0).into())).unwrap();
        let Address::Tcp(address) = listener.address() else { unreachable!("TCP was asked for") };
        let mut client = Ipv4Addr::LOCALHOST.into();
        for _ in 0..2 {
            let there = Address::Tcp(SocketAddr::new(client, address.port()));
            let connected = Kernel.connect(&there).await;
            let errno =
                connected.as_ref().err().and_then(io::Error::raw_os_error).map(Errno::from_raw_os_error);
            if let Some(Errno::ADDRNOTAVAIL | Errno::NETUNREACH | Errno::AFNOSUPPORT) = errno {
                eprintln!("skipped over IPv6: this machine has none");
                break;
            }
            let (_client, accepted) = (connected.unwrap(), listener.accept().await.unwrap());
            let from: SocketAddr = accepted.peer().parse().unwrap();
            assert_eq!(from.ip(), client, "logs have the address as its network writes it");
            client = Ipv6Addr::LOCALHOST.into();
        }
    }

    #[tokio::test]
    async fn an_address_that_is_taken_is_an_error() {
        let first = Kernel.listen(&Address::Tcp((Ipv6Addr::UNSPECIFIED, 0).into())).unwrap();
        assert_eq!(Kernel.listen(&first.address()).err().unwrap().kind(), io::ErrorKind::AddrInUse);
    }
}
