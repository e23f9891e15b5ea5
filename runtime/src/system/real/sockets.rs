//! The kernel's sockets.

use std::io;
use std::path::PathBuf;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::system::sockets::{Address, Connection, Listener, Sockets};

/// The kernel's sockets.
pub(super) struct Kernel;

impl Sockets for Kernel {
    fn listen(&self, address: &Address) -> io::Result<Box<dyn Listener>> {
        Ok(match address {
            Address::Tcp(address) => {
                let listener = std::net::TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                Box::new(TcpListener::from_std(listener)?)
            }
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
            Ok(Connection::new(stream, peer.to_string()))
        }
        .boxed()
    }

    fn address(&self) -> Address {
        let unknown = ([0, 0, 0, 0], 0).into();
        Address::Tcp(self.local_addr().unwrap_or(unknown))
    }
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
