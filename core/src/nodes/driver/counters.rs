//! The rest of a driver's tree: counters, the module's files, the kernel's own. Read by fake-neuron only.

use serde::{Deserialize, Deserializer};

use super::DriverFile;

/// The files that neither discovery nor health reads, by where they are. [`super::Drivers::shown`] chooses those of a driver.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counters {
    /// The kernel's own, below each device's folder, whatever the driver does with its files.
    #[serde(deserialize_with = "expanded")]
    pub kernel_files: Vec<DriverFile>,
    /// Below each device's folder.
    #[serde(deserialize_with = "expanded")]
    pub device_files: Vec<DriverFile>,
    /// Below each device's `neuron_coreK`, one for each physical core.
    #[serde(deserialize_with = "expanded")]
    pub core_files: Vec<DriverFile>,
    /// Below `/sys/class/neuron_device`.
    #[serde(deserialize_with = "expanded")]
    pub class_files: Vec<DriverFile>,
    /// Below `/sys/module/neuron`.
    #[serde(deserialize_with = "expanded")]
    pub module_files: Vec<DriverFile>,
}

/// What the driver takes a machine for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Platform {
    /// A machine of its own.
    Standard,
    /// One of the machines of an UltraServer.
    Ultraserver,
    /// One whose devices are on a switch (PDS and MAX).
    Pds,
}

/// The instance types of the platforms that are not standard.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlatformTypes {
    ultraserver: Vec<String>,
    pds: Vec<String>,
}

impl PlatformTypes {
    pub(super) fn of(&self, instance_type: &str) -> Platform {
        let names = |types: &[String]| types.iter().any(|name| name == instance_type);
        if names(&self.ultraserver) {
            Platform::Ultraserver
        } else if names(&self.pds) {
            Platform::Pds
        } else {
            Platform::Standard
        }
    }
}

/// Rows with `{a,b}` in their path as one row for each.
pub(super) fn expanded<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<DriverFile>, D::Error> {
    let rows = Vec::<DriverFile>::deserialize(deserializer)?;
    let paths =
        |row: DriverFile| paths(&row.path).into_iter().map(move |path| DriverFile { path, ..row.clone() });
    Ok(rows.into_iter().flat_map(paths).collect())
}

fn paths(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let Some((choices, after)) = rest.split_once('}') else { return vec![path.to_owned()] };
    let ends = paths(after);
    let with = |choice: &str| ends.iter().map(|end| format!("{before}{choice}{end}")).collect::<Vec<_>>();
    choices.split(',').flat_map(with).collect()
}
