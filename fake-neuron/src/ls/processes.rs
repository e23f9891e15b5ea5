//! The processes that `neuron-ls` shows of each device. Called by [`crate::ls`].

use std::ffi::OsString;
use std::process;

use crate::host::{Device, Host};
use crate::ls::arguments::Arguments;

/// The version that a process' runtime is said to have: the newest seen in a capture. Which one a process has loaded is not
/// known here.
const RUNTIME_VERSION: &str = "2.34.10";

/// What stands for a value that there is not.
pub(super) const NONE: &str = "NA";

/// One line of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) pid: u32,
    /// Cut to the width of its column.
    pub(super) command: String,
    pub(super) runtime_version: &'static str,
}

/// By device. Whoever reserved cores runs the Neuron runtime; whoever has a device open without is shown only with
/// `--show-all-procs`, as is this program, which the real one opens devices for.
pub(super) fn of(host: &Host, asked: &Arguments, arguments: &[OsString]) -> Vec<Vec<Shown>> {
    host.devices.iter().map(|device| of_device(host, device, asked, arguments)).collect()
}

fn of_device(host: &Host, device: &Device, asked: &Arguments, arguments: &[OsString]) -> Vec<Shown> {
    let width = if asked.wide { 80 } else { 40 };
    let users = host.processes.iter().filter(|process| process.devices.contains(&device.host_id));
    let mut shown: Vec<Shown> = users
        .filter(|process| asked.all || !process.cores.is_empty())
        .map(|process| Shown {
            pid: process.pid,
            command: cut(&process.command, width),
            runtime_version: if process.cores.is_empty() { NONE } else { RUNTIME_VERSION },
        })
        .collect();
    if asked.all {
        let words = arguments.iter().map(|word| word.to_string_lossy());
        let command = std::iter::once("neuron-ls".into()).chain(words).collect::<Vec<_>>().join(" ");
        shown.push(Shown { pid: process::id(), command: cut(&command, width), runtime_version: NONE });
    }
    shown
}

/// At most `width` characters, the last three of them dots where some are left out.
fn cut(command: &str, width: usize) -> String {
    if command.chars().count() <= width {
        return command.to_owned();
    }
    command.chars().take(width - 3).chain("...".chars()).collect()
}
