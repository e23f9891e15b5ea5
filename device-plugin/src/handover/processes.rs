//! Who has which device open, by the host's `/proc`. A device is known by its number, as its path differs from container to
//! container. Asked by `handover`.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use neuron_core::ids::DeviceSet;
use runtime::system::DeviceNumber;
use runtime::{System, reached};

use super::cgroup::pod_uids;
use crate::hardware::device_files::device_node;

/// The processes of the node.
pub struct Processes {
    system: System,
    folder: PathBuf,
    root: PathBuf,
    /// Files are read by one reader at a time.
    looking: tokio::sync::Mutex<()>,
}

/// A process of a gone pod that has a device open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenDevice {
    /// Its number on the host.
    pub pid: u32,
    /// Its command, as `comm` has it: at most 15 bytes.
    pub command: String,
    /// The pod that it belongs to.
    pub pod_uid: String,
    /// The device.
    pub device: u8,
    /// Why it is not known whether it has the device open: then it may.
    pub unknown: Option<String>,
}

impl fmt::Display for OpenDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, command, pod_uid, device, unknown } = self;
        write!(f, "process {pid} ({command}) of a pod that has ended or is gone (UID {pod_uid}) ")?;
        match unknown {
            None => write!(f, "has /dev/neuron{device} open"),
            Some(why) => write!(f, "may have /dev/neuron{device} open: {why}"),
        }
    }
}

impl Processes {
    /// Those that `folder` shows, the host's `/proc`, at a machine whose `/dev` stands in `root`.
    pub fn new(system: System, folder: PathBuf, root: PathBuf) -> Self {
        Self { system, folder, root, looking: tokio::sync::Mutex::default() }
    }

    /// Where the host's `/proc` is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether it can be seen what processes have open: of the first one, which is root's.
    ///
    /// # Errors
    /// The folder is not there, or the plugin may not see that: it needs `CAP_SYS_PTRACE` (proc_pid_fd(5)), and for processes of other
    /// users than root, which are not looked at here, `CAP_DAC_READ_SEARCH`, as only they may list the folder.
    pub async fn check(&self) -> io::Result<()> {
        self.system.names(&self.folder.join("1/fd")).await.map(drop)
    }

    /// The first process of one of these pods, by UID, that has one of that pod's devices open. One that nobody may look into counts:
    /// it lives, and had the device.
    ///
    /// # Errors
    /// The folder cannot be read, a device's number takes too long, or whose a process is does and no other one has a device open.
    pub async fn first_with_open(
        &self,
        holders: &BTreeMap<String, DeviceSet>,
    ) -> io::Result<Option<OpenDevice>> {
        let _others_wait = self.looking.lock().await;
        let numbers = self.numbers(holders.values().flat_map(|devices| devices.iter())).await?;
        let mut took_too_long = None;
        for name in self.system.names(&self.folder).await? {
            let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
            let folder = self.folder.join(&name);
            let cgroup = match self.system.read_to_string(&folder.join("cgroup")).await {
                Ok(cgroup) => cgroup,
                Err(error) if error.kind() == ErrorKind::TimedOut => {
                    took_too_long = Some(error);
                    continue;
                }
                // A process may end between any two looks at it.
                Err(_) => continue,
            };
            let Some((uid, devices)) = pod_uids(&cgroup).find_map(|uid| holders.get_key_value(&uid)) else {
                continue;
            };
            let Some((device, unknown)) = self.open_device(&folder, *devices, &numbers).await else {
                continue;
            };
            let command = self.command(&folder).await;
            return Ok(Some(OpenDevice { pid, command, pod_uid: uid.clone(), device, unknown }));
        }
        took_too_long.map_or(Ok(None), Err)
    }

    /// The devices by their numbers. What has none is no device node.
    ///
    /// # Errors
    /// A number takes too long: a process that has the device open could not be told by it.
    async fn numbers(&self, devices: impl Iterator<Item = u8>) -> io::Result<BTreeMap<DeviceNumber, u8>> {
        let mut numbers = BTreeMap::new();
        for device in devices {
            match self.system.device_number(&device_node(&self.root, device)).await {
                Ok(Some(number)) => drop(numbers.insert(number, device)),
                Err(error) if error.kind() == ErrorKind::TimedOut => return Err(error),
                Ok(None) | Err(_) => {}
            }
        }
        Ok(numbers)
    }

    /// One of the devices that the process has open, or the first of them and why nobody can tell.
    async fn open_device(
        &self,
        process: &Path,
        devices: DeviceSet,
        numbers: &BTreeMap<DeviceNumber, u8>,
    ) -> Option<(u8, Option<String>)> {
        let folder = process.join("fd");
        let open = match self.system.names(&folder).await {
            Ok(open) => open,
            Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::TimedOut) => {
                reached("plugin: open files not read");
                return Some((devices.iter().next()?, Some(format!("{}: {error}", folder.display()))));
            }
            Err(_) => return None,
        };
        let mut took_too_long = None;
        for name in open {
            let file = folder.join(name);
            match self.system.device_number(&file).await {
                Ok(Some(number)) => {
                    if let Some(device) = numbers.get(&number).filter(|device| devices.contains(**device)) {
                        return Some((*device, None));
                    }
                }
                Err(error) if error.kind() == ErrorKind::TimedOut => {
                    took_too_long = Some(format!("{}: {error}", file.display()));
                }
                Ok(None) | Err(_) => {}
            }
        }
        Some((devices.iter().next()?, Some(took_too_long?)))
    }

    async fn command(&self, process: &Path) -> String {
        let command = self.system.read(&process.join("comm")).await.unwrap_or_default();
        // A process chooses its name itself.
        String::from_utf8_lossy(&command).trim_end().replace(char::is_control, "?")
    }
}
