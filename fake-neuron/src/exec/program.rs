//! The program's process: started, sent what this process is sent, and waited for. Called by [`crate::exec`].

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpgrp, kill_process, waitpid};
use rustix::termios::tcgetpgrp;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};
use tokio::sync::mpsc;

use super::ExecError;

/// Exit code of a shell for a program that is not there.
const NOT_FOUND: u8 = 127;
/// Exit code of a shell for a program that cannot be run.
const NOT_RUNNABLE: u8 = 126;

/// What the program is sent when this process gets it. Stops and the window's size reach the program by the terminal itself.
const FORWARDED: [(SignalKind, Signal); 6] = [
    (SignalKind::hangup(), Signal::HUP),
    (SignalKind::interrupt(), Signal::INT),
    (SignalKind::quit(), Signal::QUIT),
    (SignalKind::terminate(), Signal::TERM),
    (SignalKind::user_defined1(), Signal::USR1),
    (SignalKind::user_defined2(), Signal::USR2),
];

/// The signals of this process, listened for from before the program starts.
#[derive(Debug)]
pub(super) struct Signals {
    children: Stream,
    forwarded: mpsc::UnboundedReceiver<Signal>,
}

impl Signals {
    /// Listens from now on. What this process ignores, as under `nohup`, the program goes on to ignore.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn listen() -> io::Result<Self> {
        let (sender, forwarded) = mpsc::unbounded_channel();
        let ignored = ignored_signals();
        for (kind, what) in FORWARDED {
            if ignored & (1 << (kind.as_raw_value() - 1)) != 0 {
                continue;
            }
            let (mut stream, sender) = (signal(kind)?, sender.clone());
            tokio::spawn(async move { while stream.recv().await.is_some() && sender.send(what).is_ok() {} });
        }
        Ok(Self { children: signal(SignalKind::child())?, forwarded })
    }

    /// Waits for the program's end and forwards signals until then. The exit code of a shell: the program's own, or 128 and the
    /// number of the signal that ended it.
    ///
    /// # Errors
    /// The program cannot be waited for.
    pub(super) async fn until_end(&mut self, program: Pid) -> io::Result<u8> {
        loop {
            if let Some((_, status)) = waitpid(Some(program), WaitOptions::NOHANG)? {
                return Ok(code(status));
            }
            tokio::select! {
                _ = self.children.recv() => {}
                Some(signal) = self.forwarded.recv() => forward(program, signal),
            }
        }
    }
}

/// Why a program did not start.
#[derive(Debug)]
pub(super) enum NotStarted {
    /// What a shell would say of the program, and its exit code.
    Program(String, u8),
    /// It is not about the program.
    Own(ExecError),
}

impl NotStarted {
    /// What the kernel's answer to starting `program`, `supervised` or not, means.
    pub(super) fn of(program: &OsStr, supervised: bool, reason: io::Error) -> Self {
        // Of starting itself these never come.
        let way_out = match reason.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::BUSY) => {
                "a supervisor answers them already, as inside another `fake-neuron exec`: give --no-ioctl"
            }
            Some(Errno::NOSYS | Errno::INVAL | Errno::PERM) => {
                "this kernel has no seccomp user notification, Linux 5.14 or newer has, or a container's seccomp profile forbids \
                 it: with --no-ioctl the program runs, and no ioctl is answered"
            }
            _ => return Self::of_program(program, &reason),
        };
        if supervised {
            Self::Own(ExecError::Unsupervised { reason, way_out })
        } else {
            Self::of_program(program, &reason)
        }
    }

    fn of_program(program: &OsStr, reason: &io::Error) -> Self {
        let is_path = program.as_bytes().contains(&b'/');
        // A folder of PATH that may not be searched makes the kernel say so, though the program is nowhere.
        let is_missing = reason.kind() == io::ErrorKind::NotFound
            || (!is_path && reason.kind() == io::ErrorKind::PermissionDenied && !is_on_path(program));
        let program = program.to_string_lossy();
        match (is_missing, is_path) {
            (true, true) => Self::Program(format!("{program}: no such program"), NOT_FOUND),
            (true, false) => Self::Program(format!("{program}: no such program on PATH"), NOT_FOUND),
            (false, _) => Self::Program(format!("{program} cannot be run: {reason}"), NOT_RUNNABLE),
        }
    }
}

fn is_on_path(program: &OsStr) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn code(status: WaitStatus) -> u8 {
    let signal = status.terminating_signal().map(|signal| 128 + signal);
    u8::try_from(signal.or(status.exit_status()).unwrap_or_default()).unwrap_or(u8::MAX)
}

fn forward(program: Pid, signal: Signal) {
    // The keyboard's signals go to the whole foreground group: the program has had this one already.
    if matches!(signal, Signal::INT | Signal::QUIT) && is_in_foreground() {
        return;
    }
    // It has ended meanwhile, which is seen next.
    let _ = kill_process(program, signal);
}

/// Whether what is typed at this process' terminal is for its group.
fn is_in_foreground() -> bool {
    let terminal = open("/dev/tty", OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty());
    terminal.is_ok_and(|terminal| tcgetpgrp(&terminal).is_ok_and(|group| group == getpgrp()))
}

/// One bit for each signal, the first for signal 1.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}
