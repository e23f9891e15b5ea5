//! Serves one filter's listener: receives calls, finds out which device is meant, and answers. Run by [`super::supervisor`].

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fake_neuron_seccomp::{Call, Event, Listener, Notification, StatForm, read_path};
use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::caller::Process;
use super::command::Command;
use super::driver::Request;
use super::host::{Host, State};
use super::layout::u64_at;
use super::memory::{Memory, ProcessMemory};
use super::opens::{FILE_NAME, Opened, id_of};
use super::paths::{Node, Visible, is_read_only, machine_file};
use super::stat;
use super::supervisor::Served;
use crate::Reads;

/// How often what processes have closed is looked at, while any has a device open.
const REFRESH: Duration = Duration::from_secs(1);
/// How often an open that waits for a reset looks again.
const RESET_POLL: Duration = Duration::from_millis(50);

/// One listener being served.
pub(crate) struct Service<'a> {
    pub(crate) host: &'a Host,
    pub(crate) listener: Listener,
    pub(crate) visible: &'a Visible,
    /// Where connections to the metadata service go.
    pub(crate) metadata_service: Option<SocketAddrV4>,
    /// Where opens are counted.
    pub(crate) reads: Option<&'a Mutex<Reads>>,
    /// Whether writes of sysfs files that nobody may write are refused.
    pub(crate) writes_are_refused: bool,
    /// Who has asked for devices.
    pub(crate) callers: BTreeSet<Process>,
}

/// An open that waits for its device's reset to end.
struct Waiting {
    call: Notification,
    device: u8,
    flags: OFlags,
}

impl Service<'_> {
    /// Until no process is left under the filter, or `stop` becomes readable or is closed at its other end.
    ///
    /// # Errors
    /// The kernel refuses the listener.
    pub(crate) fn run(&mut self, stop: BorrowedFd<'_>) -> io::Result<Served> {
        let mut waiting: Vec<Waiting> = Vec::new();
        let mut refreshed = Instant::now();
        loop {
            let time = if !waiting.is_empty() {
                Some(RESET_POLL)
            } else if self.host.lock().driver.opens.is_idle() {
                None
            } else {
                Some(REFRESH.saturating_sub(refreshed.elapsed()))
            };
            match self.listener.wait(stop, time)? {
                Event::Call => {
                    if let Some(call) = self.listener.receive()? {
                        waiting.extend(self.answer(call)?);
                    }
                }
                Event::TimedOut => {}
                Event::Ended => {
                    // They are ending, although `/proc` may show them for a moment yet.
                    self.callers.iter().for_each(|caller| self.host.lock().driver.let_go(*caller));
                    return Ok(Served::ToTheEnd);
                }
                Event::Stopped => return self.give_up(&waiting).map(|()| Served::Stopped),
            }
            if !waiting.is_empty() {
                waiting = self.look_again(waiting)?;
            }
            if refreshed.elapsed() >= REFRESH {
                let mut state = self.host.lock();
                state.refresh();
                self.callers.retain(|caller| state.driver.opens.knows(*caller));
                refreshed = Instant::now();
            }
        }
    }

    /// Answers a call, unless it has to wait.
    fn answer(&mut self, call: Notification) -> io::Result<Option<Waiting>> {
        match call.call {
            Call::Open { folder, path, flags } => return self.open(call, folder, path, Ok(flags)),
            Call::OpenHow { folder, path, how, size } => {
                let flags = self.flags_of(call, how, size);
                return self.open(call, folder, path, flags);
            }
            Call::Ioctl { file, command, argument } => self.ioctl(call, file, Command(command), argument)?,
            Call::Stat { folder, path, flags, answer, form } => {
                self.stat(call, folder, path, flags, (answer, form))?;
            }
            Call::Connect { socket, address, length } => self.connect(call, socket, address, length)?,
            Call::Other(_) => self.listener.pass_on(&call)?,
        }
        Ok(None)
    }

    /// The flags of `openat2`.
    fn flags_of(&self, call: Notification, how: u64, size: u64) -> Result<i32, Errno> {
        const SMALLEST: u64 = 24;
        if size < SMALLEST {
            return Err(Errno::INVAL);
        }
        let how = ProcessMemory(call.thread).read(how, 24)?;
        i32::try_from(u64_at(&how, 0)).map_err(|_| Errno::INVAL)
    }

    fn open(
        &mut self,
        call: Notification,
        folder: i32,
        path: u64,
        flags: Result<i32, Errno>,
    ) -> io::Result<Option<Waiting>> {
        self.count(&call, folder, path);
        let follow = flags.is_ok_and(|flags| flags.cast_unsigned() & OFlags::NOFOLLOW.bits() == 0);
        let node = self.node(&call, folder, path, follow);
        let device = node.as_ref().and_then(|node| self.visible.device(node.number));
        let (Some(node), Some(device), Ok(flags)) = (node, device, flags) else {
            return self.open_other(call, folder, path, flags).map(|()| None);
        };
        let flags = OFlags::from_bits_retain(flags.cast_unsigned());
        // These the kernel answers without the driver; so it does where nothing is there.
        let is_the_kernels = flags.intersects(OFlags::PATH | OFlags::DIRECTORY)
            || flags.contains(OFlags::CREATE | OFlags::EXCL)
            || node.stat().is_none();
        if is_the_kernels {
            return self.listener.pass_on(&call).map(|()| None);
        }
        self.open_device(call, device, flags)
    }

    /// Refuses to open for writing what only root could write by mistake; every other file is the kernel's to open.
    fn open_other(
        &self,
        call: Notification,
        folder: i32,
        path: u64,
        flags: Result<i32, Errno>,
    ) -> io::Result<()> {
        let flags = OFlags::from_bits_retain(flags.unwrap_or_default().cast_unsigned());
        let writes = self.writes_are_refused && flags.intersects(OFlags::WRONLY | OFlags::RDWR);
        let is_refused = || {
            read_path(call.thread, path).is_ok_and(|path| is_read_only(call.thread, folder, &path))
                && self.listener.is_valid(&call)
        };
        if writes && is_refused() {
            return self.listener.refuse(&call, Errno::ACCESS.raw_os_error());
        }
        self.listener.pass_on(&call)
    }

    fn open_device(&mut self, call: Notification, device: u8, flags: OFlags) -> io::Result<Option<Waiting>> {
        let faults = self.host.faults();
        let generation = self.host.lock().driver.hardware.generation;
        if faults.driver_is_unloaded() || faults.is_lost(device, generation) {
            // What the kernel says of a node without a driver behind it.
            return self.listener.refuse(&call, Errno::NXIO.raw_os_error()).map(|()| None);
        }
        // The driver asks for this bit alone.
        let free_access = flags.contains(OFlags::WRONLY);
        if !free_access && faults.is_in_reset(device) {
            return Ok(Some(Waiting { call, device, flags }));
        }
        let Some(process) = Process::of_thread(call.thread).filter(|_| self.listener.is_valid(&call)) else {
            return self.listener.pass_on(&call).map(|()| None);
        };
        self.callers.insert(process);
        let mut state = self.host.lock();
        match self.hand_out(&mut state, &call, process, Opened { device, free_access }, flags) {
            Ok(()) => {}
            Err(errno) => self.listener.refuse(&call, errno.raw_os_error())?,
        }
        Ok(None)
    }

    /// Gives the caller a file of its own that stands for the device.
    fn hand_out(
        &self,
        state: &mut State,
        call: &Notification,
        process: Process,
        opened: Opened,
        flags: OFlags,
    ) -> Result<(), Errno> {
        if !opened.free_access {
            if !state.driver.opens.attach(opened.device, process) {
                state.driver.refresh();
                if !state.driver.opens.attach(opened.device, process) {
                    return Err(Errno::BUSY);
                }
            }
            // Told first, so that who was answered finds itself in the list.
            state.tell();
        }
        let file = stand_in(opened.device, flags)?;
        let id = id_of(&file).map_err(errno)?;
        state.driver.opens.insert(id, opened);
        let closes = flags.contains(OFlags::CLOEXEC);
        self.listener.answer_with_file(call, file.as_fd(), closes).map_err(|error| {
            state.driver.opens.remove(id);
            errno(error)
        })
    }

    fn ioctl(&mut self, call: Notification, file: i32, command: Command, argument: u64) -> io::Result<()> {
        let mut state = self.host.lock();
        let opened = state.driver.opens.of_descriptor(call.thread, file);
        let process = opened.and_then(|_| Process::of_thread(call.thread));
        let (Some(opened), Some(process), true) = (opened, process, self.listener.is_valid(&call)) else {
            return self.listener.pass_on(&call);
        };
        self.callers.insert(process);
        let request = Request { process, opened, command, argument };
        let faults = self.host.faults();
        let memory = ProcessMemory(call.thread);
        if command.asks_about_others() {
            // Somebody may have ended or closed the device since, without our seeing it.
            state.driver.refresh();
        }
        let before = state.driver.reservations.clone();
        let answer = state.driver.ioctl(request, &memory, &faults);
        // Told first, so that who was answered finds itself in the list.
        state.tell();
        let heard = match answer {
            Ok(value) => self.listener.answer(&call, value)?,
            Err(errno) => self.listener.refuse(&call, errno.raw_os_error()).map(|()| true)?,
        };
        if !heard {
            // The call comes again, and must not find its own cores taken.
            state.driver.reservations = before;
            state.tell();
        }
        Ok(())
    }

    fn stat(
        &self,
        call: Notification,
        folder: i32,
        path: Option<u64>,
        flags: i32,
        (answer, form): (u64, StatForm),
    ) -> io::Result<()> {
        const SYMLINK_NOFOLLOW: i32 = 0x100;
        const EMPTY_PATH: i32 = 0x1000;
        let memory = ProcessMemory(call.thread);
        let is_empty = |path| flags & EMPTY_PATH != 0 && memory.read(path, 1).is_ok_and(|bytes| bytes == [0]);
        let found = if path.is_none_or(is_empty) {
            let opened = self.host.lock().driver.opens.of_descriptor(call.thread, folder);
            // The node's number and times, as long as it is there: of one file all calls tell the same.
            let file = opened.and_then(|opened| self.visible.stat(call.thread, opened.device));
            let own = || rustix::fs::stat(format!("/proc/{}/fd/{folder}", call.thread)).ok();
            opened.map(|opened| opened.device).zip(file.or_else(own))
        } else {
            let follow = flags & SYMLINK_NOFOLLOW == 0;
            let node = path.and_then(|path| self.node(&call, folder, path, follow));
            node.and_then(|node| self.visible.device(node.number).zip(node.stat()))
        };
        match found.filter(|_| self.listener.is_valid(&call)) {
            None => self.listener.pass_on(&call),
            Some((device, file)) => match memory.write(answer, &stat::of_device(form, device, &file)) {
                0 => self.listener.answer(&call, 0).map(drop),
                _ => self.listener.refuse(&call, Errno::FAULT.raw_os_error()),
            },
        }
    }

    /// Connects the caller's own socket to the fake metadata service where it wants the real one's address.
    fn connect(&self, call: Notification, socket: i32, address: u64, length: u64) -> io::Result<()> {
        /// `sockaddr_in`: family 2, port 80 and 169.254.169.254 in the network's order.
        const METADATA: [u8; 8] = [2, 0, 0, 80, 169, 254, 169, 254];
        let wanted = if length >= 16 { ProcessMemory(call.thread).read(address, 8).ok() } else { None };
        let process = Process::of_thread(call.thread);
        let is_ours = wanted.is_some_and(|wanted| wanted == METADATA) && self.listener.is_valid(&call);
        let (Some(service), Some(process), true) = (self.metadata_service, process, is_ours) else {
            return self.listener.pass_on(&call);
        };
        match connect_for(process, socket, service) {
            Ok(()) => self.listener.answer(&call, 0).map(drop),
            Err(errno) => self.listener.refuse(&call, errno.raw_os_error()),
        }
    }

    /// The node that a path in the caller's memory means.
    fn node(&self, call: &Notification, folder: i32, path: u64, follow: bool) -> Option<Node> {
        Node::meant_by(call.thread, folder, &read_path(call.thread, path).ok()?, follow)
    }

    /// Counts the open of a file of the machine, where opens are counted.
    fn count(&self, call: &Notification, folder: i32, path: u64) {
        let Some(reads) = self.reads else { return };
        let Ok(path) = read_path(call.thread, path) else { return };
        if let Some(path) = machine_file(call.thread, folder, &path, self.host.root()) {
            reads.lock().unwrap_or_else(PoisonError::into_inner).count(&path);
        }
    }

    /// Answers the opens whose device is ready by now; those that still wait.
    fn look_again(&mut self, waiting: Vec<Waiting>) -> io::Result<Vec<Waiting>> {
        let mut still = Vec::new();
        for Waiting { call, device, flags } in waiting {
            if self.listener.is_valid(&call) {
                still.extend(self.open_device(call, device, flags)?);
            }
        }
        Ok(still)
    }

    fn give_up(&self, waiting: &[Waiting]) -> io::Result<()> {
        waiting.iter().try_for_each(|open| self.listener.refuse(&open.call, Errno::INTR.raw_os_error()))
    }
}

/// An empty file in memory, opened as the caller opens the device.
fn stand_in(device: u8, flags: OFlags) -> Result<File, Errno> {
    let made = memfd_create(format!("{FILE_NAME}{device}"), MemfdFlags::CLOEXEC)?;
    let as_asked = flags & (OFlags::ACCMODE | OFlags::NONBLOCK | OFlags::APPEND);
    let path = format!("/proc/self/fd/{}", made.as_raw_fd());
    Ok(rustix::fs::open(path, as_asked | OFlags::CLOEXEC, Mode::empty())?.into())
}

fn connect_for(process: Process, socket: i32, service: SocketAddrV4) -> Result<(), Errno> {
    let id = i32::try_from(process.id).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    let process = pidfd_open(id, PidfdFlags::empty())?;
    let socket = pidfd_getfd(process, socket, PidfdGetfdFlags::empty())?;
    rustix::net::connect(&socket, &service)
}

fn errno(error: io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}
