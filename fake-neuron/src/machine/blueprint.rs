//! A machine's files as a list, for who keeps them elsewhere than on a disk, as a simulation does. The same files as
//! [`crate::Machine`] writes.

use neuron_core::catalog::Catalog;

use crate::machine::description::{Description, MachineSpec};
use crate::machine::health;
use crate::machine::tree::{self, Entry};
use crate::{Health, MachineError};

/// What a machine's files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blueprint {
    description: Description,
}

impl Blueprint {
    /// The files of such a machine.
    ///
    /// # Errors
    /// Those of [`crate::Machine::up`] before it writes: an unknown type, an impossible LNC, instance id or driver.
    pub fn of(spec: &MachineSpec, catalog: &Catalog) -> Result<Self, MachineError> {
        Ok(Self { description: Description::of(spec, catalog)? })
    }

    /// The files of a machine with this description.
    pub(crate) fn of_description(description: Description) -> Self {
        Self { description }
    }

    /// The same machine without what tells it from others of its kind.
    pub(crate) fn without_identity(&self) -> Self {
        Self { description: Description { instance_id: String::new(), ..self.description.clone() } }
    }

    /// The files that differ between two machines of a kind: those with serial numbers and with the instance id.
    pub(crate) fn identity_files(&self) -> Vec<Entry> {
        tree::identity(&self.description)
    }

    /// Why a lost device's health cannot change.
    pub(crate) fn lost(&self, device: u8) -> MachineError {
        MachineError::Lost { instance_type: self.description.instance_type.clone(), device }
    }

    pub(crate) fn description(&self) -> &Description {
        &self.description
    }

    /// Every file, link and device node.
    pub fn files(&self) -> Vec<Entry> {
        tree::machine(&self.description)
    }

    /// Those of one device: what comes back when a lost one is restored.
    ///
    /// # Errors
    /// No such device.
    pub fn device_files(&self, device: u8) -> Result<Vec<Entry>, MachineError> {
        self.description.check_device(device)?;
        Ok(tree::device(&self.description, device))
    }

    /// What vanishes with a lost device: its `/dev` node, class link and sysfs folder, below the root.
    ///
    /// # Errors
    /// No such device.
    pub fn lost_paths(&self, device: u8) -> Result<[String; 3], MachineError> {
        self.description.check_device(device)?;
        Ok([tree::device_node(device), tree::class_link(device), tree::sysfs_folder(device)])
    }

    /// The files by which the driver shows a device's health, to be put in place of those that are there; none on Inf1, which
    /// shows it only by losing the device.
    ///
    /// # Errors
    /// No such device, no component or one that the driver cannot show.
    pub fn health_files(&self, device: u8, health: &Health) -> Result<Option<Vec<Entry>>, MachineError> {
        self.description.check_device(device)?;
        let broken = match health {
            Health::Healthy => &[],
            Health::Unhealthy { components } => {
                self.description.check_components(device, components)?;
                components.as_slice()
            }
        };
        Ok(health::files(&self.description, device, broken))
    }

    /// The EC2 instance id that DMI shows.
    pub fn instance_id(&self) -> &str {
        &self.description.instance_id
    }

    /// Number of devices, 1 to 64.
    pub fn devices(&self) -> u8 {
        self.description.device_count()
    }
}
