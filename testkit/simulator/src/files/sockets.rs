//! Unix sockets: who listens on which file of a host. Asked by the sockets of processes, in `network`.

use std::io;
use std::path::Path;

use runtime::system::Connection;
use tokio::sync::mpsc;

use super::FileSystem;
use super::tree::Content;

/// A Unix socket that somebody listens on. It is known by its file, which may be renamed.
pub(super) struct Listening {
    /// Number of its file.
    inode: u64,
    process: u64,
    connections: mpsc::UnboundedSender<Connection>,
}

impl FileSystem {
    /// Makes a socket on which the process listens. The file stays when that has ended.
    pub(crate) fn listen(
        &self,
        path: &Path,
        process: u64,
    ) -> io::Result<mpsc::UnboundedReceiver<Connection>> {
        if self.exists(path) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        if self.state().tree.names(path.parent().unwrap_or(path)).is_err() {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.change(path, |tree, now| tree.put(path, Content::Socket, now))?;
        let mut state = self.state();
        let inode = state.tree.get(path).map(|entry| entry.inode.number).unwrap_or_default();
        let (connections, accepted) = mpsc::unbounded_channel();
        state.listening.retain(|socket| !socket.connections.is_closed());
        state.listening.push(Listening { inode, process, connections });
        Ok(accepted)
    }

    /// Who listens on the socket, and how connections reach it.
    pub(crate) fn listening(&self, path: &Path) -> io::Result<(u64, mpsc::UnboundedSender<Connection>)> {
        let state = self.state();
        let inode = state.tree.get(path).ok_or(io::ErrorKind::NotFound)?.inode.number;
        let socket = state.listening.iter().find(|socket| socket.inode == inode);
        let socket = socket.filter(|socket| !socket.connections.is_closed());
        let socket = socket.ok_or(io::ErrorKind::ConnectionRefused)?;
        Ok((socket.process, socket.connections.clone()))
    }
}
