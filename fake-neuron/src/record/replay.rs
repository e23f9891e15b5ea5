//! A fixture as a machine. Called by `--from` of the command line, and by [`Machine`] for the files of a replayed machine.

use std::fs;
use std::io;
use std::path::Path;

use neuron_core::catalog::{Catalog, Generation};
use neuron_core::driver::Drivers;

use super::fixture::{Captured, What};
use super::{Fixture, RecordError};
use crate::fault::KERNEL_LOG;
use crate::machine::description::Description;
use crate::machine::disk::{self, STATE};
use crate::machine::tree::{self, Entry, Kind, MODULE};
use crate::{Machine, MachineError};

/// Where a replayed machine keeps its fixture, below the root.
const KEPT: &str = ".fake-neuron/fixture.json";

impl Fixture {
    /// Makes a machine with the fixture's files under `root`, by the rules of [`Machine::up`].
    ///
    /// # Errors
    /// A fixture whose tree makes no machine, and those of [`Machine::up`].
    pub fn up(&self, root: &Path) -> Result<Machine, RecordError> {
        Ok(Machine::raise(self.description()?, root, Some(self))?)
    }

    /// The fixture of the machine under `root`; none where it was not replayed.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn kept(root: &Path) -> Result<Option<Fixture>, MachineError> {
        let path = root.join(KEPT);
        match fs::read_to_string(&path) {
            Ok(text) => {
                serde_json::from_str(&text).map(Some).map_err(|reason| MachineError::Marker { path, reason })
            }
            Err(missing)
                if matches!(missing.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
            {
                Ok(None)
            }
            Err(reason) => Err(MachineError::Io { action: "read", path, reason }),
        }
    }

    /// Puts the fixture where [`Fixture::kept`] finds it.
    ///
    /// # Errors
    /// The file system's refusal.
    pub(crate) fn keep(&self, root: &Path) -> Result<(), MachineError> {
        let folder = root.join(STATE);
        fs::create_dir_all(&folder).map_err(MachineError::io("make", &folder))?;
        disk::replace(root, KEPT, &self.to_json(), 0o644)
    }

    /// Everything to make, with a fake kernel log.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let entry = |captured: &Captured| {
            let kind = match &captured.what {
                What::File { mode, content } => Kind::File {
                    content: content.clone(),
                    mode: u32::from_str_radix(mode, 8).unwrap_or(0o444) & 0o777,
                },
                What::Link { link } => Kind::Link { target: link.clone() },
                What::Node { node } => Kind::Node { minor: *node },
            };
            Entry { path: captured.path.clone(), kind }
        };
        let log = Entry::writable(KERNEL_LOG, "");
        self.entries.iter().map(entry).chain([log]).collect()
    }

    /// The machine's facts, from its own files.
    ///
    /// # Errors
    /// A file that leads out of the root, or facts that are missing or contradict each other.
    fn description(&self) -> Result<Description, RecordError> {
        let wrong =
            |problem: String| RecordError::NoMachine { instance_type: self.instance_type.clone(), problem };
        if self.version != 1 {
            return Err(wrong(format!(
                "it is of version {}, and this program reads version 1",
                self.version
            )));
        }
        if let Some(entry) = self.entries.iter().find(|entry| !is_below(&entry.path)) {
            return Err(wrong(format!("{:?} is not below a root's dev, sys, proc or opt", entry.path)));
        }
        let text = |path: &str| self.text(path).map(str::trim_end);
        let devices = (0..64).take_while(|id| self.text(&self.of_device(*id, "dev")).is_some()).count();
        if devices == 0 {
            return Err(wrong("it has no device neuron0".to_owned()));
        }
        let count = self.named(0, "core_count").and_then(|text| text.trim().parse().ok());
        let cores_per_device =
            count.ok_or_else(|| wrong("neuron0 has no core_count with a number in it".to_owned()))?;
        let links = |id: u8| -> Vec<u8> {
            let shown = self.named(id, "connected_devices").unwrap_or_default();
            shown.split(',').filter_map(|link| link.trim().parse().ok()).collect()
        };
        let family = self.named(0, "instance_type").map(str::trim_end).unwrap_or_default();
        let by_family = Generation::ALL.into_iter().find(|generation| generation.family() == family);
        let by_type = || Catalog::embedded().find(&self.instance_type).map(|model| model.generation);
        let generation = by_family.or_else(by_type);
        let generation =
            generation.ok_or_else(|| wrong(format!("its generation {family:?} is not known")))?;
        let setting = text("opt/aws/neuron/logical_nc_config").and_then(|line| line.rsplit('=').next());
        let version = text(&format!("{MODULE}/version")).unwrap_or_default();
        let driver = Drivers::embedded().of_version(version);
        Ok(Description {
            instance_type: self.instance_type.clone(),
            instance_id: text("sys/devices/virtual/dmi/id/board_asset_tag").unwrap_or_default().to_owned(),
            generation,
            lnc: setting.and_then(|lnc| lnc.parse().ok()),
            cores_per_device,
            driver_links: (0..u8::try_from(devices).unwrap_or(64)).map(links).collect(),
            driver: driver.map(|driver| driver.line.clone()).unwrap_or_default(),
            counters: true,
            replayed: true,
        })
    }

    /// The text of a device's file by the file's own name, wherever the driver has it.
    fn named(&self, device: u8, name: &str) -> Option<&str> {
        let folder = self.of_device(device, "");
        let own = |path: &str| {
            let below = path.strip_prefix(&folder)?;
            (!below.contains("neuron_core") && below.rsplit('/').next() == Some(name)).then_some(())
        };
        self.entries.iter().find_map(|entry| own(&entry.path).and_then(|()| text_of(entry)))
    }

    fn of_device(&self, device: u8, name: &str) -> String {
        format!("{}/{name}", tree::sysfs_folder(device))
    }

    fn text(&self, path: &str) -> Option<&str> {
        self.entries.iter().find(|entry| entry.path == path).and_then(text_of)
    }
}

fn text_of(entry: &Captured) -> Option<&str> {
    match &entry.what {
        What::File { content, .. } => Some(content),
        What::Link { .. } | What::Node { .. } => None,
    }
}

/// Whether the path is a machine's: a fixture comes from somebody else.
fn is_below(path: &str) -> bool {
    let plain = Path::new(path).components().all(|part| matches!(part, std::path::Component::Normal(_)));
    plain && ["dev/", "sys/", "proc/", "opt/"].iter().any(|top| path.starts_with(top))
}
