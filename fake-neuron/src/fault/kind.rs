//! The faults, by the words that users write. Pure: read by the command line, files of faults and the Node's annotation.

use std::fmt;

use neuron_core::catalog::Generation;
use serde::{Deserialize, Serialize};

/// One fault. As JSON `{"fault": "device-lost", "device": 3}`, with the fields of its variant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fault", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Fault {
    /// The device fell off the bus: its `/dev` node, class link and sysfs folder are gone.
    DeviceLost {
        /// Device id, 0 to 63.
        device: u8,
    },
    /// A counter of memory errors shows a number.
    Ecc {
        /// Device id, 0 to 63.
        device: u8,
        /// The counter's file name, such as `mem_ecc_uncorrected` (docs/reference/neuron.md §4.3).
        counter: String,
        /// What it shows. The driver's counters have 16 bits: 0 to 65535.
        count: u32,
    },
    /// The driver reports broken components ([`crate::Health`]).
    Unhealthy {
        /// Device id, 0 to 63.
        device: u8,
        /// The driver's names, such as `hbm`; at least one.
        components: Vec<String>,
    },
    /// A number of the driver's folder `health_status` is another one. What the driver means by these numbers is not documented
    /// (docs/reference/neuron.md §4.3), nor which of them is a fault, so any is shown.
    HealthStatus {
        /// Device id, 0 to 63.
        device: u8,
        /// The file's name, `hw_error_event` or `healthcheck_heartbeat`.
        file: String,
        /// What it shows.
        value: u32,
    },
    /// Reads hang: a FIFO without a writer stands where a file was. One of the two fields.
    HungRead {
        /// The file, below the machine's root, such as `sys/module/neuron/version`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// All that the driver shows of this device; the kernel's own files (`dev`, `uevent`, `power/`) go on answering.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        device: Option<u8>,
    },
    /// The device is being reset: its `reset` shows 0, and opening it for use waits.
    Reset {
        /// Device id, 0 to 63.
        device: u8,
    },
    /// The kernel module is gone, and with it the class, every device and node, and its lines in `/proc`.
    DriverUnloaded {},
    /// Two devices see each other no more: neither is in the other's `connected_devices`.
    LinkDown {
        /// Device id, 0 to 63.
        device: u8,
        /// The device at the link's other end.
        other: u8,
    },
    /// The node's LNC setting (`/opt/aws/neuron/logical_nc_config`) is another than it should be.
    WrongLnc {
        /// What the file says; also values that no type runs at.
        lnc: u8,
    },
    /// A process holds a core. State only: no file of the driver shows it, reservations by ioctl fail.
    CoreHeld {
        /// Physical core, counted over all devices of the host from 0.
        core: u16,
        /// The process that holds it; there need not be one.
        pid: u32,
    },
    /// The runtime reports a hardware error to the kernel log. Happens once and is over.
    KernelError {
        /// Device id, 0 to 63.
        device: u8,
        /// Which error.
        kind: HardwareError,
    },
}

/// The errors that AWS' node problem detector looks for in the kernel log (docs/reference/neuron.md §3.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum HardwareError {
    /// On-chip memory.
    SramUncorrectableError,
    /// A NeuronCore.
    NcUncorrectableError,
    /// The device's memory.
    HbmUncorrectableError,
    /// A DMA engine.
    DmaError,
    /// A collective operation that does not end; the problem detector's chart 1.0.0 alone looks for it.
    HangOnCollectives,
}

impl HardwareError {
    /// Every one.
    pub const ALL: [HardwareError; 5] = [
        HardwareError::SramUncorrectableError,
        HardwareError::NcUncorrectableError,
        HardwareError::HbmUncorrectableError,
        HardwareError::DmaError,
        HardwareError::HangOnCollectives,
    ];

    /// The word in the kernel log, such as `DMA_ERROR`.
    pub fn word(self) -> &'static str {
        match self {
            HardwareError::SramUncorrectableError => "SRAM_UNCORRECTABLE_ERROR",
            HardwareError::NcUncorrectableError => "NC_UNCORRECTABLE_ERROR",
            HardwareError::HbmUncorrectableError => "HBM_UNCORRECTABLE_ERROR",
            HardwareError::DmaError => "DMA_ERROR",
            HardwareError::HangOnCollectives => "HANG_ON_COLLECTIVES",
        }
    }
}

impl Fault {
    /// Every fault's name, in the order of the documentation.
    pub const NAMES: [&'static str; 11] = [
        "device-lost",
        "ecc",
        "unhealthy",
        "health-status",
        "hung-read",
        "reset",
        "driver-unloaded",
        "link-down",
        "wrong-lnc",
        "core-held",
        "kernel-error",
    ];

    /// The fault's name, such as `device-lost`.
    pub fn name(&self) -> &'static str {
        match self {
            Fault::DeviceLost { .. } => "device-lost",
            Fault::Ecc { .. } => "ecc",
            Fault::Unhealthy { .. } => "unhealthy",
            Fault::HealthStatus { .. } => "health-status",
            Fault::HungRead { .. } => "hung-read",
            Fault::Reset { .. } => "reset",
            Fault::DriverUnloaded {} => "driver-unloaded",
            Fault::LinkDown { .. } => "link-down",
            Fault::WrongLnc { .. } => "wrong-lnc",
            Fault::CoreHeld { .. } => "core-held",
            Fault::KernelError { .. } => "kernel-error",
        }
    }

    /// Whether it happens at a moment and does not last, so that there is nothing to lift.
    pub fn happens_once(&self) -> bool {
        matches!(self, Fault::KernelError { .. })
    }

    /// Whether it breaks the link between these two devices.
    pub fn breaks_link(&self, device: u8, other: u8) -> bool {
        matches!(self, Fault::LinkDown { device: one, other: two }
            if [(device, other), (other, device)].contains(&(*one, *two)))
    }

    /// Whether it takes this device away from the host, on devices of this generation: Inf1 shows a broken component only so.
    pub fn takes_away(&self, device: u8, generation: Generation) -> bool {
        match self {
            Fault::DeviceLost { device: lost } => *lost == device,
            Fault::Unhealthy { device: broken, .. } => generation == Generation::Inf1 && *broken == device,
            _ => false,
        }
    }

    /// The process that holds this physical core, counted over the host from 0, by this fault.
    pub fn holds(&self, core: u16) -> Option<u32> {
        match self {
            Fault::CoreHeld { core: held, pid } if *held == core => Some(*pid),
            _ => None,
        }
    }

    /// What it is about, such as `device 3`; empty for the driver.
    pub fn subject(&self) -> String {
        match self {
            Fault::DeviceLost { device } | Fault::Reset { device } => format!("device {device}"),
            Fault::Ecc { device, counter, count } => format!("device {device}, {counter} {count}"),
            Fault::Unhealthy { device, components } => format!("device {device}, {}", components.join(",")),
            Fault::HealthStatus { device, file, value } => format!("device {device}, {file} {value}"),
            Fault::HungRead { path, device } => match (path, device) {
                (Some(path), _) => path.clone(),
                (None, Some(device)) => format!("device {device}"),
                (None, None) => String::new(),
            },
            Fault::DriverUnloaded {} => String::new(),
            Fault::LinkDown { device, other } => format!("devices {device} and {other}"),
            Fault::WrongLnc { lnc } => format!("LNC {lnc}"),
            Fault::CoreHeld { core, pid } => format!("core {core}, pid {pid}"),
            Fault::KernelError { device, kind } => format!("device {device}, {}", kind.word()),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.subject() {
            subject if subject.is_empty() => f.write_str(self.name()),
            subject => write!(f, "{} ({subject})", self.name()),
        }
    }
}
