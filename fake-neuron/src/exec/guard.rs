//! Ends every process that is left in the machine's mount namespace. Called by [`crate::exec`] when the program has ended, and by a
//! guard, a process of its own, when fake-neuron itself was killed: the kernel's own way (`PR_SET_PDEATHSIG`) reaches neither the
//! program's children nor a program that has changed its user.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal, setsid};

/// The hidden command of the process that guards.
pub const GUARD_COMMAND: &str = "exec-guard";

/// How long processes have to end after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long after SIGKILL the kernel may take to end them.
const END: Duration = Duration::from_secs(5);

/// A process that waits for this one's end. It ends with it.
#[derive(Debug)]
pub(super) struct Guard(Child);

impl Guard {
    /// Starts it.
    ///
    /// # Errors
    /// This program cannot be started again.
    pub(super) fn start() -> io::Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0("fake-neuron")
            .arg(GUARD_COMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Ok(Self(command.spawn()?))
    }

    /// Its process id.
    pub(super) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Tells it that nothing is left to clean up, and waits until it has ended.
    pub(super) fn end(mut self) {
        // Refused where somebody has killed it already.
        let _ = self.0.stdin.take().map(|mut told| told.write_all(b"done"));
        let _ = self.0.wait();
    }
}

/// What the guard does: waits until the process that started it is gone, which closes its standard input, and ends what that left
/// behind, unless it was told that nothing is.
pub fn guard() {
    // The signals of the terminal are not for it. It leads no group, for it was just started.
    let _ = setsid();
    let mut told = Vec::new();
    // An unreadable pipe is as good as a closed one.
    let _ = io::stdin().read_to_end(&mut told);
    if told.is_empty() {
        end_others(&BTreeSet::from([std::process::id()]), Duration::ZERO);
    }
}

/// Ends every process in this one's mount namespace but `spared`: those that the program left behind.
pub(super) fn end_others_gently(spared: &BTreeSet<u32>) {
    end_others(spared, PATIENCE);
}

/// First by SIGTERM where there is patience, then by SIGKILL; returns when none is left, or when the kernel does not end them.
fn end_others(spared: &BTreeSet<u32>, patience: Duration) {
    let start = Instant::now();
    let mut told = BTreeSet::new();
    loop {
        let others: Vec<u32> = others(spared);
        let since = start.elapsed();
        if others.is_empty() || since > patience + END {
            return;
        }
        let mut ends = Vec::new();
        for process in others {
            let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) else { continue };
            // A descriptor means this process for sure, though its number may be given to another one.
            let Ok(end) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
            if !is_other(process, spared) {
                continue;
            }
            // One that may not be ended, or has ended meanwhile.
            if since >= patience {
                let _ = pidfd_send_signal(&end, Signal::KILL);
            } else if told.insert(process) {
                let _ = pidfd_send_signal(&end, Signal::TERM);
            }
            ends.push(end);
        }
        wait_for_any(&ends);
    }
}

/// Waits until one of the processes ends, and for a moment only: others may have come.
fn wait_for_any(ends: &[rustix::fd::OwnedFd]) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    const MOMENT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    let mut files: Vec<PollFd<'_>> = ends.iter().map(|end| PollFd::new(end, PollFlags::IN)).collect();
    let _ = poll(&mut files, Some(&MOMENT));
}

fn others(spared: &BTreeSet<u32>) -> Vec<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|process| is_other(*process, spared))
        .collect()
}

/// Whether it lives in this process' mount namespace; one that has ended and waits to be asked for its end does not.
fn is_other(process: u32, spared: &BTreeSet<u32>) -> bool {
    let namespace =
        |process: &str| -> Option<PathBuf> { fs::read_link(format!("/proc/{process}/ns/mnt")).ok() };
    !spared.contains(&process)
        && namespace(&process.to_string()).is_some_and(|of_process| namespace("self") == Some(of_process))
}
