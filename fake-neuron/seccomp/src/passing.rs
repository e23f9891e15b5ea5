//! Passes descriptors from one process to another over a Unix socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// At most this many descriptors come with one message.
const MOST: usize = 4;

/// Sends these bytes, at least one, and a descriptor with them. Allocates nothing, so it may be called between fork and exec.
///
/// # Errors
/// The socket's refusal.
pub fn send(socket: impl AsFd, bytes: &[u8], descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor];
    // The space is made for one descriptor.
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// All bytes until `is_complete` says so or the sender closes its end, at most `limit` of them, and the descriptors that came with
/// them, which programs started later do not inherit.
///
/// # Errors
/// The socket's refusal; `InvalidData` where more than `limit` bytes come.
pub fn receive(
    socket: impl AsFd,
    limit: usize,
    is_complete: impl Fn(&[u8]) -> bool,
) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let (mut bytes, mut descriptors) = (Vec::new(), Vec::new());
    loop {
        let mut part = [0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received =
            recvmsg(&socket, &mut [IoSliceMut::new(&mut part)], &mut control, RecvFlags::CMSG_CLOEXEC);
        let message = match received {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        for rights in control.drain() {
            if let RecvAncillaryMessage::ScmRights(passed) = rights {
                descriptors.extend(passed);
            }
        }
        bytes.extend_from_slice(&part[..message.bytes]);
        if bytes.len() > limit {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the message is too long"));
        }
        if message.bytes == 0 || is_complete(&bytes) {
            return Ok((bytes, descriptors));
        }
    }
}
