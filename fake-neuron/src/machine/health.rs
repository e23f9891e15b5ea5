//! Makes a device unhealthy or healthy, in the files by which each generation's driver shows it. Called by tests, scenarios
//! and [`crate::node`].

use neuron_core::driver::{DriverFile, HealthFile};

use crate::machine::description::Description;
use crate::machine::tree::{Entry, Kind};
use crate::machine::{disk, sysfs, tree};
use crate::{Machine, MachineError};

/// What `unhealthy_components` can name (Trn2 and Trn3 from driver 2.30 on; docs/reference/neuron.md §4.3).
const COMPONENTS: [&str; 11] = [
    "hbm",
    "sram",
    "firmware_service_api",
    "firmware_service_processor",
    "link_intraserver",
    "link_host",
    "link_efa",
    "link_interserver",
    "link_switch",
    "axi_fabric",
    "device_unreachable",
];

/// The two memories whose errors are counted, and the counter of each.
const COUNTED: [(&str, &str); 2] = [("hbm", "mem_ecc_uncorrected"), ("sram", "sram_ecc_uncorrected")];

/// A device's health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// Nothing to report.
    Healthy,
    /// At least one part is broken.
    Unhealthy {
        /// The parts, by the driver's names: `hbm`, `sram`, and on Trn2 and Trn3 from driver 2.30 on also
        /// `firmware_service_api`, `firmware_service_processor`, `link_intraserver`, `link_host`, `link_efa`,
        /// `link_interserver`, `link_switch`, `axi_fabric`, `device_unreachable`.
        components: Vec<String>,
    },
}

impl Health {
    /// Unhealthy with one broken part; `hbm` is one that every generation knows.
    pub fn unhealthy(component: &str) -> Health {
        Health::Unhealthy { components: vec![component.to_owned()] }
    }
}

impl Machine {
    /// Sets the health that the driver's files show for `device`, each file in one step:
    ///
    /// - where the driver has `unhealthy_components` (Trn2 and Trn3 from 2.30 on), it holds the comma list, an empty line when
    ///   healthy;
    /// - elsewhere `mem_ecc_uncorrected` (`hbm`) and `sram_ecc_uncorrected` (`sram`) are 1, or 0 when healthy;
    /// - Inf1 has neither: an unhealthy device is lost, a healthy one restored.
    ///
    /// # Errors
    /// No such device, a lost device (except on Inf1), no component or one that the generation cannot show.
    pub fn set_health(&self, device: u8, health: &Health) -> Result<(), MachineError> {
        self.check_device(device)?;
        let broken = match health {
            Health::Healthy => &[],
            Health::Unhealthy { components } => {
                self.description().check_components(device, components)?;
                components.as_slice()
            }
        };
        let Some(files) = files(self.description(), device, broken) else {
            return if broken.is_empty() { self.restore(device) } else { self.lose(device) };
        };
        disk::check_folders(self.root(), &tree::device(self.description(), device))?;
        if !disk::is_there(&self.root().join(tree::sysfs_folder(device))) {
            return Err(MachineError::Lost { instance_type: self.instance_type().to_owned(), device });
        }
        files.iter().try_for_each(|file| match &file.kind {
            Kind::File { content, mode } => disk::replace(self.root(), &file.path, content, *mode),
            Kind::Link { .. } | Kind::Node { .. } => Ok(()),
        })
    }
}

/// The files that show which components of a device are broken; none where the driver shows it only by losing the device.
pub(crate) fn files(description: &Description, device: u8, broken: &[String]) -> Option<Vec<Entry>> {
    let entry = |file: &DriverFile, content: String| sysfs::entry(description, device, file, content);
    if let Some(file) = components_file(description) {
        let mut named: Vec<&str> = Vec::new();
        for component in broken {
            if !named.contains(&component.as_str()) {
                named.push(component);
            }
        }
        return Some(vec![entry(file, format!("{}\n", named.join(",")))]);
    }
    let counters = COUNTED.iter().filter_map(|(component, counter)| {
        let file = sysfs::files(description).find(|file| file.name() == *counter)?;
        let errors = u8::from(broken.iter().any(|name| name == component));
        Some(entry(file, format!("{errors}\n")))
    });
    let counters: Vec<Entry> = counters.collect();
    (!counters.is_empty()).then_some(counters)
}

/// As [`files`], but of counters only those that are about what is broken.
pub(crate) fn broken_files(description: &Description, device: u8, broken: &[String]) -> Option<Vec<Entry>> {
    let mut files = files(description, device, broken)?;
    let is_about = |entry: &Entry| {
        COUNTED.iter().all(|(component, counter)| {
            !entry.path.ends_with(&format!("/{counter}")) || broken.iter().any(|name| name == component)
        })
    };
    files.retain(is_about);
    Some(files)
}

/// The file that names broken components, where the driver has one.
fn components_file(description: &Description) -> Option<&'static DriverFile> {
    sysfs::files(description).find(|file| file.health == Some(HealthFile::Components))
}

impl Description {
    /// Whether the driver can show these components as broken.
    ///
    /// # Errors
    /// No component, or one that it cannot show.
    pub(crate) fn check_components(&self, device: u8, components: &[String]) -> Result<(), MachineError> {
        let counts = files(self, device, &[]).is_some() && components_file(self).is_none();
        let known: Vec<&str> = if counts {
            COUNTED.iter().map(|(component, _)| *component).collect()
        } else {
            COMPONENTS.to_vec()
        };
        let instance_type = self.instance_type.clone();
        if components.is_empty() {
            return Err(MachineError::NoComponent { instance_type, device, known: known.join(", ") });
        }
        match components.iter().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(component) => Err(MachineError::Component {
                instance_type,
                device,
                component: component.clone(),
                known: known.join(", "),
            }),
        }
    }
}
