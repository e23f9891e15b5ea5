//! Who calls: a thread's process, by id and time of start, since ids are used again. Read from `/proc`.

use std::fs;

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Process {
    /// As the supervisor sees it.
    pub(crate) id: u32,
    /// In the kernel's ticks since boot.
    pub(crate) started: u64,
}

impl Process {
    /// The process of a thread; none where it is gone or cannot be seen.
    pub(crate) fn of_thread(thread: u32) -> Option<Process> {
        let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
        let id = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()?;
        Some(Process { id, started: start_of(id)? })
    }

    /// Whether it still runs.
    pub(crate) fn is_alive(self) -> bool {
        start_of(self.id) == Some(self.started)
    }

    /// Its command line, words joined by spaces; empty where it cannot be seen.
    pub(crate) fn command(self) -> String {
        let words = fs::read(format!("/proc/{}/cmdline", self.id)).unwrap_or_default();
        let text = String::from_utf8_lossy(&words).replace('\0', " ");
        text.trim_end().to_owned()
    }
}

/// When a process started, in the kernel's ticks since boot; none where none runs: the 22nd field of `/proc/ID/stat`, whose second, in
/// brackets, may hold anything.
pub(crate) fn start_of(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    // A process that has ended but is not yet collected holds nothing.
    if fields.first() == Some(&"Z") {
        return None;
    }
    fields.get(19)?.parse().ok()
}
