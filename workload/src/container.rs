//! What this very container got: its environment, and every device node in its `/dev` with the result of opening it and what its
//! driver answers. Called by `main`.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::{env, fs, io};

use rustix::fs::{FileType, Mode, OFlags, major, minor};
use rustix::io::Errno;

use crate::ioctl;
use crate::report::{DeviceNode, DriverAnswers, Report, is_neuron};

/// The report of this process' own environment and `/dev`.
///
/// # Errors
/// `/dev` cannot be listed.
pub fn report() -> io::Result<Report> {
    let texts = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())
    };
    let env: BTreeMap<String, String> = env::vars_os().map(texts).collect();
    let (mut paths, mut nodes) = (Vec::new(), Vec::new());
    for entry in fs::read_dir("/dev")? {
        let (path, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
        let path = path.to_string_lossy().into_owned();
        // Anything at a Neuron device's path is reported, whatever it is.
        if kind.is_char_device() || kind.is_block_device() || is_neuron(&path) {
            nodes.push(node(&path));
        }
        paths.push(path);
    }
    nodes.sort_by_key(|node| (node.path.len(), node.path.clone()));
    let opened = nodes.iter().filter(|node| is_neuron(&node.path) && node.open == "opened");
    let ioctls = opened.filter_map(|node| driver_answers(&node.path)).collect();
    Ok(Report { nodes, ioctls, ..Report::of(env, paths) })
}

/// None where the device does not open any more or its driver does not answer.
fn driver_answers(path: &str) -> Option<DriverAnswers> {
    let device = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).ok()?;
    ioctl::answers(path, device).ok()
}

/// Reserves these cores of the report's first device as the runtime does, by a file that is open for nothing else, and notes in the report
/// what came of that. Whoever holds the file holds the cores; none where they were refused.
pub fn reserve(report: &mut Report, cores: &RangeInclusive<u32>) -> Option<OwnedFd> {
    let reserved = report.devices.first().map_or(Err(Errno::NOENT), |path| {
        let device = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        let refused = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
        fake_neuron_seccomp::reserve(device.as_fd(), cores.clone()).map_err(refused)?;
        Ok(device)
    });
    report.reserved = Some(reservation(cores, reserved.as_ref().err().copied()));
    reserved.ok()
}

/// Keeps the report's devices open, as a job does from its start to its end. Without their contents: no driver need stand behind a node.
pub fn hold(report: &Report) -> Vec<OwnedFd> {
    let open = |path| rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    // One that is gone, or is not this container's, is in the report already.
    report.devices.iter().filter_map(|path| open(path).ok()).collect()
}

/// What a report says of a reservation of these cores that was refused with this error, or not.
pub fn reservation(cores: &RangeInclusive<u32>, refused: Option<Errno>) -> String {
    let (first, last) = (cores.start(), cores.end());
    match refused {
        Some(error) => name_of(error),
        None if first == last => first.to_string(),
        None => format!("{first}-{last}"),
    }
}

/// What is at `path`, and the result of opening it.
pub fn node(path: &str) -> DeviceNode {
    let stat = rustix::fs::stat(Path::new(path));
    let (kind, number) = match &stat {
        Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
            FileType::CharacterDevice => ("character", stat.st_rdev),
            FileType::BlockDevice => ("block", stat.st_rdev),
            FileType::RegularFile => ("file", 0),
            _ => ("other", 0),
        },
        Err(_) => ("other", 0),
    };
    // Not blocking: a FIFO at a device's path must not hold the report up.
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let open = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(_) => "opened".to_owned(),
        Err(error) => name_of(error),
    };
    DeviceNode {
        path: path.to_owned(),
        kind: kind.to_owned(),
        major: major(number),
        minor: minor(number),
        open,
    }
}

/// The name that open(2)'s manual page uses for the error.
fn name_of(error: Errno) -> String {
    let known = [
        (Errno::NXIO, "ENXIO"),
        (Errno::PERM, "EPERM"),
        (Errno::ACCESS, "EACCES"),
        (Errno::NODEV, "ENODEV"),
        (Errno::BUSY, "EBUSY"),
        (Errno::NOENT, "ENOENT"),
        (Errno::ISDIR, "EISDIR"),
        (Errno::IO, "EIO"),
        (Errno::INVAL, "EINVAL"),
        (Errno::NOSYS, "ENOSYS"),
        (Errno::NOTTY, "ENOTTY"),
    ];
    let found = known.iter().find(|(errno, _)| *errno == error);
    found.map_or_else(|| error.to_string(), |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_node_says_what_it_is_and_whether_it_opens() {
        let null = node("/dev/null");
        assert_eq!(
            (null.kind.as_str(), null.major, null.minor, null.open.as_str()),
            ("character", 1, 3, "opened")
        );
        assert_eq!(node("/dev/neuron-that-is-not-there").open, "ENOENT");
    }

    #[test]
    fn devices_are_kept_open_while_what_is_given_lives() {
        let report =
            Report { devices: vec!["/dev/null".to_owned(), "/dev/gone".to_owned()], ..Report::default() };
        let held = hold(&report);
        let open = |fd: &OwnedFd| fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap();
        assert_eq!(held.iter().map(open).collect::<Vec<_>>(), [Path::new("/dev/null")]);
    }

    #[test]
    fn cores_of_no_driver_are_refused_and_the_report_says_so() {
        let mut report = Report::default();
        assert!(reserve(&mut report, &(0..=1)).is_none());
        assert_eq!(report.reserved.as_deref(), Some("ENOENT"));
        report.devices = vec!["/dev/null".to_owned()];
        assert!(reserve(&mut report, &(0..=1)).is_none());
        assert_eq!(report.reserved.as_deref(), Some("ENOTTY"));
        assert_eq!([reservation(&(2..=2), None), reservation(&(0..=1), None)], ["2", "0-1"]);
    }
}
