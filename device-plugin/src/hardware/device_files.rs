//! Where one device's files are: at the path where its driver's layout has them, else wherever below the device's folder a file of
//! that name is, since drivers move files and keep their names (docs/reference/neuron.md §4.9). Read by `discovery` and `health`.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use neuron_core::ids::DeviceSet;
use runtime::system::FileKind;
use runtime::{System, reached};
use tokio::time::{Instant, timeout_at};

use crate::hardware::sysfs::{self, DEVICES, FileError};

/// Time between two searches for a file that is not where it is expected.
const SEARCH_AGAIN: Duration = Duration::from_secs(10);
/// Longest operation on one of a device's files. Those of a broken one can hang for ever.
const DEVICE_FILE_TIMEOUT: Duration = Duration::from_secs(1);
/// A timer that fires so much too late says that this program waits for the processor.
const LATE: Duration = Duration::from_millis(100);
/// Entries below a device's folder that a search looks at, at most. A real folder has some 60 without its cores and counters.
const SEARCHED: usize = 1000;

/// One device's files, all below the plugin's `--root`.
#[derive(Clone, Debug)]
pub struct DeviceFiles {
    /// The device, 0 to 63.
    pub id: u8,
    /// The device's folder in sysfs.
    pub folder: PathBuf,
    /// The device's node in `/dev`.
    pub node: PathBuf,
    /// What is being read: when a look ends too late, this is what hangs.
    pub at: PathBuf,
    /// The files that a search has found, by name.
    found: BTreeMap<String, PathBuf>,
    searched: Option<Instant>,
}

/// What the driver says of a device's shape, as far as it says anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Physical cores, 1 to 128.
    pub cores: Option<u8>,
    /// Devices that the driver says it is linked to.
    pub links: Option<DeviceSet>,
}

impl DeviceFiles {
    /// The files of device `id`. Nothing is read yet.
    pub fn new(root: &Path, id: u8) -> Self {
        let folder = root.join(DEVICES).join(format!("neuron{id}"));
        let node = device_node(root, id);
        DeviceFiles { id, at: node.clone(), folder, node, found: BTreeMap::new(), searched: None }
    }

    /// The text of a file that the driver's layout has at `path` below the device's folder; none if no file of its name is there.
    ///
    /// # Errors
    /// The file is there and cannot be read, or not in time.
    pub async fn read(&mut self, system: &System, path: &str) -> Result<Option<String>, FileError> {
        if let Some(text) = self.read_at(system, self.folder.join(path)).await? {
            return Ok(Some(text));
        }
        let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
        if let Some(found) = self.found.get(name).cloned()
            && let Some(text) = self.read_at(system, found).await?
        {
            return Ok(Some(text));
        }
        if self.searched.is_some_and(|searched| searched.elapsed() < SEARCH_AGAIN) {
            return Ok(None);
        }
        self.search(system).await?;
        match self.found.get(name).cloned() {
            Some(found) => {
                reached("plugin: device file found by name");
                self.read_at(system, found).await
            }
            None => Ok(None),
        }
    }

    /// The device's shape. A file that is not there says nothing.
    ///
    /// # Errors
    /// A file is malformed, cannot be read or hangs.
    pub async fn shape(&mut self, system: &System) -> Result<Shape, FileError> {
        let cores = self.read(system, "core_count").await?;
        let cores = cores.map(|text| sysfs::core_count(&self.at, &text)).transpose()?;
        let links = self.read(system, "connected_devices").await?;
        let links = links.map(|text| sysfs::links(&self.at, &text)).transpose()?;
        Ok(Shape { cores, links })
    }

    /// Whether something is at the path.
    ///
    /// # Errors
    /// It cannot be looked at, or not in time.
    pub async fn is_there(&mut self, system: &System, path: &Path) -> Result<bool, FileError> {
        path.clone_into(&mut self.at);
        while_running(path, sysfs::is_there(system, path)).await
    }

    async fn read_at(&mut self, system: &System, path: PathBuf) -> Result<Option<String>, FileError> {
        self.at = path;
        while_running(&self.at, sysfs::read_if_there(system, &self.at)).await
    }

    /// Looks at every folder below the device's but those of its cores, outer ones first: of two files of one name the outer counts.
    ///
    /// # Errors
    /// A folder or file hangs.
    async fn search(&mut self, system: &System) -> Result<(), FileError> {
        self.searched = Some(Instant::now());
        self.found.clear();
        let mut folders = VecDeque::from([self.folder.clone()]);
        let mut seen = 0;
        while let Some(folder) = folders.pop_front() {
            self.at.clone_from(&folder);
            let names = async { Ok(system.names(&folder).await.unwrap_or_default()) };
            for name in while_running(&folder, names).await? {
                let Some(name) = name.to_str() else { continue };
                seen += 1;
                if seen > SEARCHED {
                    return Ok(());
                }
                let path = folder.join(name);
                let status = async { Ok(system.status(&path).await) };
                match while_running(&path, status).await?.map(|status| status.kind) {
                    Ok(FileKind::Folder) if !name.starts_with("neuron_core") => folders.push_back(path),
                    Ok(FileKind::File) => drop(self.found.entry(name.to_owned()).or_insert(path)),
                    // Links lead back to where this came from.
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// What comes of an operation on one file within [`DEVICE_FILE_TIMEOUT`] of time in which this program had the processor.
async fn while_running<T>(
    path: &Path,
    operation: impl Future<Output = Result<T, FileError>>,
) -> Result<T, FileError> {
    let mut operation = pin!(operation);
    loop {
        let deadline = Instant::now() + DEVICE_FILE_TIMEOUT;
        match timeout_at(deadline, &mut operation).await {
            Ok(done) => return done,
            // Nor did the thread that reads have the processor. The operation has a limit of its own.
            Err(_) if deadline.elapsed() > LATE => reached("plugin: timer of a device file late"),
            Err(_) => return Err(FileError::Hangs { path: path.to_owned() }),
        }
    }
}

/// The node of device `id` in `/dev`.
pub fn device_node(root: &Path, id: u8) -> PathBuf {
    root.join("dev").join(format!("neuron{id}"))
}

/// The devices that the machine shows: by a node in `/dev` or by a folder of the driver's; none without a driver. Other names are
/// passed over.
///
/// # Errors
/// One of the two folders is there and cannot be read.
pub async fn device_ids(system: &System, root: &Path) -> Result<DeviceSet, FileError> {
    let in_dev = sysfs::device_names(system, &root.join("dev")).await?;
    Ok(in_dev.union(sysfs::device_names(system, &root.join(DEVICES)).await?))
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::{advance, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_operation_hangs_after_a_second_in_which_this_program_had_the_processor() {
        let path = Path::new("/sys/file");
        let began = Instant::now();
        let hung = while_running::<()>(path, pending()).await;
        assert_eq!(
            (hung, began.elapsed()),
            (Err(FileError::Hangs { path: path.to_owned() }), DEVICE_FILE_TIMEOUT)
        );
        let slow = async {
            sleep(Duration::from_millis(1500)).await;
            Ok("text")
        };
        // Nothing runs for so long: the timer fires too late.
        let (read, ()) = tokio::join!(while_running(path, slow), advance(Duration::from_millis(1300)));
        assert_eq!(read, Ok("text"));
    }
}
