//! What one machine is made of, found in the catalog for a [`MachineSpec`]: all that the files are written from. Made by
//! [`crate::Machine::up`] and kept in the marker, so that a machine can be opened without a catalog.

use neuron_core::catalog::{Catalog, Generation, InstanceType};
use neuron_core::driver::{Driver, Drivers};
use serde::{Deserialize, Serialize, Serializer};

use crate::MachineError;

/// What to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineSpec {
    /// Instance type or alias as in the catalog, such as `trn2.48xlarge` or `ml.trn2.48xlarge`.
    pub instance_type: String,
    /// Physical cores in one logical core: 1 or 2, 2 only on Trn2 and Trn3. `None`: no setting is written, so
    /// readers use the type's default.
    pub lnc: Option<u8>,
    /// EC2 instance id, 1 to 64 visible ASCII characters. `None`: one that depends on the type's name only.
    pub instance_id: Option<String>,
    /// The driver's line, such as `2.24`, or the version that it shows, such as `2.24.7.0` ([`Drivers`]). `None`: the newest that
    /// serves the type and whose tree is known.
    pub driver: Option<String>,
}

impl MachineSpec {
    /// Checks that such a machine can be made. Nothing is written.
    ///
    /// # Errors
    /// Those of [`crate::Machine::up`] before it writes: an unknown type, an impossible LNC, instance id or driver.
    pub fn check(&self, catalog: &Catalog) -> Result<(), MachineError> {
        Description::of(self, catalog).map(drop)
    }
}

/// A machine's facts, checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Description {
    /// The type's name as asked for, aliases included: DMI shows it so.
    pub(crate) instance_type: String,
    pub(crate) instance_id: String,
    #[serde(serialize_with = "serialize_generation")]
    pub(crate) generation: Generation,
    /// Only what was asked for: the setting's file is written only then.
    pub(crate) lnc: Option<u8>,
    /// Physical.
    pub(crate) cores_per_device: u8,
    /// Links as the driver shows them, by device id.
    pub(crate) driver_links: Vec<Vec<u8>>,
    /// The driver's line; in the marker of an older fake-neuron none.
    #[serde(default)]
    pub(crate) driver: String,
    /// Whether the tree is whole, with the counters that neither discovery nor health reads.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) counters: bool,
    /// Whether the files are those of a fixture, which then is part of the machine's state.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) replayed: bool,
}

impl Description {
    /// The description of such a machine.
    ///
    /// # Errors
    /// An unknown type or one without known devices, an LNC that the type cannot run at, an instance id that DMI cannot hold, a
    /// driver that is not known or does not bind the devices.
    pub(crate) fn of(spec: &MachineSpec, catalog: &Catalog) -> Result<Description, MachineError> {
        let name = &spec.instance_type;
        let model = catalog.find(name).ok_or_else(|| unknown(name, catalog))?;
        if let Some(lnc) = spec.lnc {
            check_lnc(name, model, lnc)?;
        }
        let instance_id = spec.instance_id.clone().unwrap_or_else(|| default_instance_id(name));
        if !(1..=64).contains(&instance_id.len()) || !instance_id.bytes().all(|byte| byte.is_ascii_graphic())
        {
            return Err(MachineError::InstanceId { id: instance_id });
        }
        Ok(Description {
            instance_type: name.clone(),
            instance_id,
            generation: model.generation,
            lnc: spec.lnc,
            cores_per_device: model.cores_per_device,
            driver_links: model.driver_links.clone(),
            driver: driver(name, model.generation, spec.driver.as_deref())?.line.clone(),
            counters: false,
            replayed: false,
        })
    }

    /// The driver's line; none where the program has lost the one that a marker names.
    pub(crate) fn driver(&self) -> Option<&'static Driver> {
        let drivers = Drivers::embedded();
        drivers.named(&self.driver).or_else(|| drivers.newest(self.generation))
    }

    /// Device ids in order.
    pub(crate) fn devices(&self) -> impl Iterator<Item = u8> + use<> {
        0..self.device_count()
    }

    /// 1 to 64.
    pub(crate) fn device_count(&self) -> u8 {
        u8::try_from(self.driver_links.len()).unwrap_or(u8::MAX)
    }

    /// Whether there is such a device.
    ///
    /// # Errors
    /// There is not.
    pub(crate) fn check_device(&self, device: u8) -> Result<(), MachineError> {
        if device < self.device_count() {
            return Ok(());
        }
        let instance_type = self.instance_type.clone();
        Err(MachineError::NoDevice { instance_type, device, last: self.device_count().saturating_sub(1) })
    }

    /// The host's name in the kernel log: made up from the instance id, in the form that EC2 gives.
    pub(crate) fn host_name(&self) -> String {
        let [.., third, fourth] = stable_hash(&self.instance_id).to_be_bytes();
        format!("ip-172-31-{third}-{fourth}")
    }

    /// Sixteen hex digits that are the same for the same instance id and device, and differ between devices.
    pub(crate) fn serial_number(&self, device: u8) -> String {
        format!("{:016x}", stable_hash(&format!("{}/{device}", self.instance_id)))
    }
}

/// The driver that was asked for, or the type's own.
fn driver(name: &str, generation: Generation, asked: Option<&str>) -> Result<&'static Driver, MachineError> {
    let drivers = Drivers::embedded();
    let binds = |driver: &&Driver| driver.generations.contains(&generation);
    let lines = |which: &dyn Fn(&&Driver) -> bool| {
        let lines: Vec<&str> =
            drivers.all().iter().filter(which).map(|driver| driver.line.as_str()).collect();
        lines.join(", ")
    };
    let found = match asked {
        Some(asked) => {
            let is_asked = |driver: &&Driver| driver.line == asked || driver.version == asked;
            let known = drivers.all().iter().find(is_asked);
            Some(known.ok_or_else(|| MachineError::UnknownDriver {
                driver: asked.to_owned(),
                known: lines(&|_| true),
                version: drivers.newest(generation).map(|driver| driver.version.clone()).unwrap_or_default(),
            })?)
        }
        None => drivers.newest(generation),
    };
    found.filter(binds).ok_or_else(|| MachineError::Driver {
        name: name.to_owned(),
        driver: asked.unwrap_or_default().to_owned(),
        known: lines(&binds),
    })
}

/// LNC is 1 or 2, and 2 exists only on Trn2 and Trn3 (docs/reference/neuron.md §1.3).
fn check_lnc(name: &str, model: &InstanceType, lnc: u8) -> Result<(), MachineError> {
    let has_logical_cores = matches!(model.generation, Generation::Trn2 | Generation::Trn3);
    let allowed = match (lnc, has_logical_cores) {
        (1, _) | (2, true) => return Ok(()),
        (_, true) => "give 1 or 2",
        (_, false) => "give 1 or leave it out, only Trn2 and Trn3 have LNC 2",
    };
    Err(MachineError::Lnc { name: name.to_owned(), lnc, allowed })
}

fn unknown(name: &str, catalog: &Catalog) -> MachineError {
    if catalog.is_known_name(name) {
        return MachineError::UnknownDevices { name: name.to_owned() };
    }
    // Below this, two names have nothing to do with each other: `m5.large` suggests nothing.
    const ALIKE: f64 = 0.8;
    let mut near: Vec<(f64, &str)> = catalog
        .types()
        .iter()
        .map(|model| model.name.as_str())
        .chain(catalog.other_names())
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .collect();
    near.sort_by(|left, right| right.0.total_cmp(&left.0).then(left.1.cmp(right.1)));
    near.truncate(3);
    MachineError::UnknownType {
        name: name.to_owned(),
        near: near.into_iter().map(|(_, known)| known.to_owned()).collect(),
    }
}

/// The instance id of a machine of which none is known.
pub(crate) fn default_instance_id(name: &str) -> String {
    format!("i-0{:016x}", stable_hash(name))
}

/// FNV-1a: the standard library's hashes may change with the compiler, and these ids are in snapshots.
pub(crate) fn stable_hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The generation's name as the catalog writes it.
fn serialize_generation<S: Serializer>(generation: &Generation, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&generation.family().to_ascii_lowercase())
}
