//! The fake kernel log, `<root>/dev/kmsg`: one record a line as `/dev/kmsg` gives them. Written by [`super::carry_out`], and by the
//! ioctl by which programs print.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};

use super::{FaultError, HardwareError};
use crate::machine::description::Description;
use crate::machine::tree::KERNEL_LOG;
use crate::{Blueprint, Machine};

impl Blueprint {
    /// The record of a hardware error in the kernel log, without its end of line, as [`crate::Machine`] writes it. `number` counts
    /// records from 1.
    pub fn kernel_record(
        &self,
        device: u8,
        kind: HardwareError,
        number: usize,
        since_boot: Duration,
        when: Timestamp,
    ) -> String {
        record(number, since_boot, &kernel_message(self.description(), device, kind, when))
    }
}

/// What the runtime prints through the driver for a hardware error, as in the SDK's troubleshooting guide; the time in front is
/// what a write-up of libnrt says, and readers want a blank before the word. `when` is the time now. The action is the one that
/// the guide shows; `nc-id` is always 0 here; for DMA and HBM errors no line was seen, so theirs is unconfirmed.
fn kernel_message(description: &Description, device: u8, kind: HardwareError, when: Timestamp) -> String {
    format!(
        "{when:.0} NEURON_HW_ERR={} instance-id={} hostname={} nd-id={device} nc-id=0 serial-num={} action=TERMINATE_INSTANCE",
        kind.word(),
        description.instance_id,
        description.host_name(),
        description.serial_number(device),
    )
}

/// Appends a record of a hardware error.
pub(crate) fn append(machine: &Machine, device: u8, kind: HardwareError) -> Result<(), FaultError> {
    append_record(machine.root(), &kernel_message(machine.description(), device, kind, Timestamp::now()))
}

/// Appends a record with this text to the log of the machine under `root`.
pub(crate) fn append_record(root: &Path, text: &str) -> Result<(), FaultError> {
    let path = root.join(KERNEL_LOG);
    add_line(&path, text).map_err(|reason| FaultError::Io { action: "write", path, reason })
}

fn add_line(path: &Path, text: &str) -> io::Result<()> {
    let mut log = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    // Who carries faults out and who answers ioctls are two processes, and no number comes twice.
    flock(&log, FlockOperation::LockExclusive)?;
    let mut before = String::new();
    log.read_to_string(&mut before)?;
    // One write, so that a reader never sees half a record.
    let record = record(before.lines().count() + 1, since_boot(), text);
    log.write_all(format!("{record}\n").as_bytes())
}

/// Of facility kernel with level error, as `printk(KERN_ERR ..)` does: its number, the microseconds since boot.
fn record(number: usize, since_boot: Duration, text: &str) -> String {
    format!("3,{number},{},-;{text}", since_boot.as_micros())
}

fn since_boot() -> Duration {
    let uptime = std::fs::read_to_string(Path::new("/proc/uptime")).unwrap_or_default();
    let seconds = uptime.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or_default();
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}
