//! Starts a program under a filter.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use crate::{Filter, Listener, receive, send};

/// Starts `command` with the filter on it, and hands out its listener. The program waits at its first watched call until somebody
/// answers.
///
/// # Errors
/// The program cannot be started, or the kernel refuses the filter.
pub fn spawn(filter: &Filter, mut command: Command) -> io::Result<(Child, Listener)> {
    let (ours, theirs) = UnixStream::pair()?;
    let filter = filter.clone();
    let install = move || {
        let listener = filter.install()?;
        send(&theirs, b"f", listener.as_fd())
    };
    // SAFETY: between fork and exec `install` makes system calls and nothing else: it takes no lock and allocates nothing, since the
    // filter's program and the socket were made before.
    unsafe { command.pre_exec(install) };
    let mut child = command.spawn()?;
    // Its copy of the socket was closed on exec; ours goes with the command.
    drop(command);
    let received = receive(&ours, 1, |bytes| !bytes.is_empty());
    match received.map(|(_, descriptors)| descriptors.into_iter().next()) {
        Ok(Some(listener)) => Ok((child, Listener::from(listener))),
        failed => {
            // A program that nobody answers would hang for ever.
            let _ = child.kill();
            let _ = child.wait();
            Err(failed.err().unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into()))
        }
    }
}
