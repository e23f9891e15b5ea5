//! The driver's commands by number (docs/reference/neuron.md §4.2). Their size fields are what the driver's header makes of them:
//! often the size of a pointer, whatever the structure.

/// Bits 8 to 15 of every command of the driver: the letter N.
pub(crate) const TYPE: u8 = 0x4e;

/// An ioctl's command, as the caller gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Command(pub u32);

impl Command {
    /// Connected devices and BARs of the opened device.
    pub const DEVICE_INFO: Command = Command(0x8008_4e03);
    /// The processes that have the device open for use.
    pub const DEVICE_GET_ALL_APPS_INFO: Command = Command(0x8008_4e07);
    /// Reserves consecutive cores.
    pub const CRWL_NC_RANGE_MARK: Command = Command(0x4008_4e55);
    /// The same with a map of 512 cores.
    pub const CRWL_NC_RANGE_MARK_EXT0: Command = Command(0xc050_4e55);
    /// Gives reserved cores back.
    pub const CRWL_NC_RANGE_UNMARK: Command = Command(0x4008_4e56);
    /// The same with a map of 512 cores.
    pub const CRWL_NC_RANGE_UNMARK_EXT0: Command = Command(0x4050_4e56);
    /// Versions of the runtime that the driver serves.
    pub const COMPATIBLE_VERSION: Command = Command(0x4008_4e5d);
    /// Architecture and revision.
    pub const DEVICE_BASIC_INFO: Command = Command(0x4008_4e64);
    /// PCI address of the opened device.
    pub const DEVICE_BDF: Command = Command(0x8008_4e65);
    /// Starts a reset of cores.
    pub const NC_RESET: Command = Command(0x8008_4e67);
    /// Waits for a reset's end.
    pub const NC_RESET_READY: Command = Command(0x8008_4e68);
    /// PCI address of any device.
    pub const DEVICE_BDF_EXT: Command = Command(0x8008_4e6a);
    /// What the driver can do.
    pub const DRIVER_INFO_GET: Command = Command(0x8018_4e6e);
    /// Refused by every driver.
    pub const DRIVER_INFO_SET: Command = Command(0x4018_4e6e);
    /// Writes a line to the kernel log.
    pub const PRINTK: Command = Command(0x4010_4e71);
    /// The opened device's id on the host.
    pub const HOST_DEVICE_ID: Command = Command(0x8004_4e72);
    /// Routing id of each device.
    pub const HOST_DEVICE_ID_TO_RID_MAP: Command = Command(0xc104_4e73);
    /// Which physical core each logical one is.
    pub const GET_LOGICAL_TO_PHYSICAL_NC_MAP: Command = Command(0xc010_4e78);
    /// The UltraServer that the host is part of.
    pub const POD_INFO: Command = Command(0xc104_4e79);
    /// How far the UltraServer's election is.
    pub const POD_STATUS: Command = Command(0xc10c_4e7a);
    /// The same with modes.
    pub const POD_STATUS_V2: Command = Command(0xc114_4e7a);
    /// Asks for an election, or its end.
    pub const POD_CTRL: Command = Command(0xc010_4e7b);
    /// The same with a mode.
    pub const POD_CTRL_V2: Command = Command(0xc014_4e7b);

    /// Whether the answer depends on what other processes have open.
    pub(crate) fn asks_about_others(self) -> bool {
        matches!(
            self,
            Command::DEVICE_GET_ALL_APPS_INFO
                | Command::CRWL_NC_RANGE_MARK
                | Command::CRWL_NC_RANGE_MARK_EXT0
                | Command::POD_CTRL
                | Command::POD_CTRL_V2
        )
    }

    /// Bits 0 to 7, by which the driver tells some commands of several sizes.
    pub(crate) fn number(self) -> u8 {
        self.0.to_le_bytes()[0]
    }

    /// Bits 16 to 29: bytes of the structure, or of a pointer to it.
    pub(crate) fn size(self) -> usize {
        usize::try_from(self.0 >> 16 & 0x3fff).unwrap_or_default()
    }

    /// Whether the caller only reads what the driver writes (bits 30 and 31).
    pub(crate) fn is_read(self) -> bool {
        self.0 >> 30 == 2
    }

    /// Whether the driver only reads what the caller wrote (bits 30 and 31).
    pub(crate) fn is_write(self) -> bool {
        self.0 >> 30 == 1
    }
}
