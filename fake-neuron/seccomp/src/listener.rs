//! The supervisor's end of a filter: receives calls and answers them.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use libc::{c_ulong, c_void, seccomp_notif, seccomp_notif_addfd, seccomp_notif_resp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::Call;

/// Receives the calls of the processes under one filter.
#[derive(Debug)]
pub struct Listener {
    descriptor: OwnedFd,
}

/// A call that waits. Every one wants an answer: its caller sleeps until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The kernel's name for the call.
    pub id: u64,
    /// Id of the calling thread as the supervisor sees it; 0 where it cannot (another pid namespace).
    pub thread: u32,
    /// What it asks for.
    pub call: Call,
}

/// Why [`Listener::wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A call waits to be received.
    Call,
    /// No process is left under the filter.
    Ended,
    /// The caller was told to stop.
    Stopped,
    /// The time is over.
    TimedOut,
}

impl From<OwnedFd> for Listener {
    fn from(descriptor: OwnedFd) -> Listener {
        Listener { descriptor }
    }
}

impl From<Listener> for OwnedFd {
    fn from(listener: Listener) -> OwnedFd {
        listener.descriptor
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Listener {
    /// Waits for a call, until `stop` becomes readable (or is closed at its other end), or until the time is over; without a time for
    /// ever.
    ///
    /// # Errors
    /// The kernel's refusal to poll.
    pub fn wait(&self, stop: BorrowedFd<'_>, time: Option<Duration>) -> io::Result<Event> {
        let time = time.map(Timespec::try_from).transpose().map_err(io::Error::other)?;
        let mut files =
            [PollFd::new(&self.descriptor, PollFlags::IN), PollFd::from_borrowed_fd(stop, PollFlags::IN)];
        match poll(&mut files, time.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(Event::TimedOut),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let [calls, stops] = files.map(|file| file.revents());
        Ok(if !stops.is_empty() {
            Event::Stopped
        } else if calls.contains(PollFlags::IN) {
            Event::Call
        } else {
            Event::Ended
        })
    }

    /// The next call; none where its caller has given up meanwhile. Blocks where none waits: see [`Listener::wait`].
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn receive(&self) -> io::Result<Option<Notification>> {
        // SAFETY: the structure holds numbers only, for which zeros are valid; the kernel insists on zeros.
        let mut raw: seccomp_notif = unsafe { std::mem::zeroed() };
        match self.control(libc::SECCOMP_IOCTL_NOTIF_RECV, &mut raw) {
            Ok(_) => Ok(Some(Notification { id: raw.id, thread: raw.pid, call: Call::from(&raw.data) })),
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the caller still waits. What was read of it by its thread id before is then its own, and not that of a new process of
    /// the same number.
    pub fn is_valid(&self, call: &Notification) -> bool {
        let mut id = call.id;
        self.control(libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &mut id).is_ok()
    }

    /// Ends the call with this value; whether its caller still waited. Where a signal has ended the call meanwhile, it may come again.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn answer(&self, call: &Notification, value: i64) -> io::Result<bool> {
        self.send(seccomp_notif_resp { id: call.id, val: value, error: 0, flags: 0 })
    }

    /// Ends the call with this error, such as `libc::EBUSY`, 1 to 4095.
    ///
    /// # Errors
    /// The kernel's refusal; a caller that has given up is no error.
    pub fn refuse(&self, call: &Notification, errno: i32) -> io::Result<()> {
        self.send(seccomp_notif_resp { id: call.id, val: 0, error: -errno, flags: 0 }).map(drop)
    }

    /// Lets the kernel carry the call out. The caller can change what its memory says meanwhile, so this is no way to forbid
    /// anything.
    ///
    /// # Errors
    /// The kernel's refusal; a caller that has given up is no error.
    pub fn pass_on(&self, call: &Notification) -> io::Result<()> {
        // The flag is 1.
        let flags = u32::try_from(libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE).unwrap_or(1);
        self.send(seccomp_notif_resp { id: call.id, val: 0, error: 0, flags }).map(drop)
    }

    /// Gives the caller a descriptor of this open file and ends its call with the descriptor's number, in one step. The file is
    /// shared, not opened anew: give each caller one of its own.
    ///
    /// # Errors
    /// The kernel's refusal, such as `EMFILE` where the caller has too many; a caller that has given up is no error.
    pub fn answer_with_file(
        &self,
        call: &Notification,
        file: BorrowedFd<'_>,
        close_on_exec: bool,
    ) -> io::Result<()> {
        let mut request = seccomp_notif_addfd {
            id: call.id,
            // The flag is 2.
            flags: u32::try_from(libc::SECCOMP_ADDFD_FLAG_SEND).unwrap_or(2),
            srcfd: file.as_raw_fd().cast_unsigned(),
            newfd: 0,
            newfd_flags: if close_on_exec { libc::O_CLOEXEC.cast_unsigned() } else { 0 },
        };
        unless_gone(self.control(libc::SECCOMP_IOCTL_NOTIF_ADDFD, &mut request)).map(drop)
    }

    fn send(&self, mut response: seccomp_notif_resp) -> io::Result<bool> {
        unless_gone(self.control(libc::SECCOMP_IOCTL_NOTIF_SEND, &mut response))
    }

    /// Carries out one of the listener's ioctls. `argument` is of the structure that the command names.
    fn control<T>(&self, command: libc::Ioctl, argument: &mut T) -> io::Result<i32> {
        // The size that the command expects is in bits 16 to 29; a structure of another size would be overrun.
        let size = (command as c_ulong >> 16) & 0x3fff;
        if usize::try_from(size) != Ok(size_of::<T>()) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let argument = std::ptr::from_mut(argument).cast::<c_void>();
        // SAFETY: the kernel reads and writes at most the bytes that the command's size says, which the check above makes the
        // structure's own; it is alive and borrowed for as long as the call takes.
        let answer = unsafe { libc::ioctl(self.descriptor.as_raw_fd(), command, argument) };
        if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
    }
}

/// False where nobody waits for the answer any more: its caller was killed, or a signal has ended the call.
fn unless_gone(answered: io::Result<i32>) -> io::Result<bool> {
    match answered {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}
