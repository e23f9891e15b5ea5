//! What each line of the Neuron driver shows in sysfs. Data, not code: `core/data/driver-layouts.json` is embedded, so that the
//! plugin expects what fake-neuron makes. Read by the device plugin and fake-neuron.

mod counters;

use std::sync::LazyLock;

use serde::{Deserialize, Deserializer};

use crate::catalog::Generation;

use counters::PlatformTypes;
pub use counters::{Counters, Platform};

/// Every known line of the driver, oldest first, and the files that it shows.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drivers {
    #[serde(default, rename = "_about")]
    _about: serde::de::IgnoredAny,
    /// What a list of broken components is known to name.
    components: Vec<String>,
    drivers: Vec<Driver>,
    device_files: Vec<DriverFile>,
    class_files: Vec<DriverFile>,
    platform_types: PlatformTypes,
    counters: Counters,
}

/// One line of the driver.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Driver {
    /// What it is called here, such as `2.24` or `2.31-unknown`.
    pub line: String,
    /// What `/sys/module/neuron/version` holds, such as `2.24.7.0`.
    pub version: String,
    /// The generations that it binds.
    pub generations: Vec<Generation>,
    /// Whether the paths of its files are known, and not only their names.
    pub paths_known: bool,
    /// Grade of evidence: `high`, `medium` or `low`.
    pub confidence: String,
    /// What a reader should know about the row.
    pub note: String,
}

/// A file that the driver shows for each device, or for the class of devices.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverFile {
    /// Below the device's folder (`/sys/devices/virtual/neuron_device/neuronN`) or the class' (`/sys/class/neuron_device`).
    pub path: String,
    /// Its permissions, such as 0o444.
    #[serde(deserialize_with = "octal")]
    pub mode: u32,
    /// The generations that have it; none: all.
    #[serde(default)]
    generations: Option<Vec<Generation>>,
    /// The first line that has it; none: every older one too.
    #[serde(default, deserialize_with = "line")]
    since: Option<Line>,
    /// The first line that has it no more; none: every newer one has it.
    #[serde(default, deserialize_with = "line")]
    until: Option<Line>,
    /// What it tells of the device's health, if it does.
    #[serde(default)]
    pub health: Option<HealthFile>,
    /// Its text on an idle healthy device, where that is the same for all.
    #[serde(default)]
    pub at_rest: Option<String>,
    /// The platforms that have it; none: all.
    #[serde(default)]
    platforms: Option<Vec<Platform>>,
    /// Whether its path, mode or text is this project's choice.
    #[serde(default)]
    pub unconfirmed: bool,
}

/// What a file tells of a device's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HealthFile {
    /// A number of errors that could not be corrected; 0 is healthy.
    Counter,
    /// What is broken, separated by commas; an empty line is healthy.
    Components,
    /// 0 during a reset, 1 ready, 2 not valid.
    Reset,
}

/// Major and minor number of a version.
type Line = (u16, u16);

impl Drivers {
    /// The lines that are part of the program.
    pub fn embedded() -> &'static Drivers {
        static EMBEDDED: LazyLock<Drivers> = LazyLock::new(|| {
            // The text is part of the program and a test reads it, so the fallback never happens.
            serde_json::from_str(include_str!("../../data/driver-layouts.json")).unwrap_or_default()
        });
        &EMBEDDED
    }

    /// Every line, oldest first.
    pub fn all(&self) -> &[Driver] {
        &self.drivers
    }

    /// The line of this name, such as `2.24`.
    pub fn named(&self, line: &str) -> Option<&Driver> {
        self.drivers.iter().find(|driver| driver.line == line)
    }

    /// The line of a driver of this version (such as `2.24.7.0`): the newest that is not newer, or the oldest; none for a version
    /// without numbers.
    pub fn of_version(&self, version: &str) -> Option<&Driver> {
        let line = numbers(version)?;
        let not_newer = |driver: &&Driver| numbers(&driver.version).is_some_and(|known| known <= line);
        self.drivers.iter().rfind(not_newer).or_else(|| self.drivers.first())
    }

    /// The newest line that binds the generation and whose paths are known.
    pub fn newest(&self, generation: Generation) -> Option<&Driver> {
        let binds = |driver: &&Driver| driver.paths_known && driver.generations.contains(&generation);
        self.drivers.iter().rfind(binds)
    }

    /// The files that a driver of this version (such as `2.24.7.0`) shows of a device of the generation. A version before the
    /// oldest line counts as the oldest, one that says no numbers as the newest.
    pub fn device_files<'a>(
        &'a self,
        version: &str,
        generation: Generation,
    ) -> impl Iterator<Item = &'a DriverFile> + use<'a> {
        files(&self.device_files, self.line_of(version), generation)
    }

    /// The files that a driver of this version shows beside the devices' links in `/sys/class/neuron_device`.
    pub fn class_files<'a>(
        &'a self,
        version: &str,
        generation: Generation,
        platform: Platform,
    ) -> impl Iterator<Item = &'a DriverFile> + use<'a> {
        self.shown(&self.class_files, version, generation, platform)
    }

    /// The rest of the tree, which neither discovery nor health reads.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What the driver takes a machine of this type (such as `trn2u.48xlarge`) for. It goes by the name that DMI shows; that SageMaker's
    /// `ml.` types are taken for what they are without it is chosen here, not known.
    pub fn platform(&self, instance_type: &str) -> Platform {
        self.platform_types.of(instance_type.strip_prefix("ml.").unwrap_or(instance_type))
    }

    /// Whether a known line tells of a device's health under this name: a file's, such as `mem_ecc_uncorrected`, or a component's, such
    /// as `link_efa`. A newer one may know more components.
    pub fn tells_health_as(&self, name: &str) -> bool {
        let mut files = self.device_files.iter().filter(|file| file.health.is_some());
        files.any(|file| file.name() == name) || self.components.iter().any(|component| component == name)
    }

    /// The files of [`Drivers::counters`] that a driver of this version shows on a machine of this generation and platform.
    pub fn shown<'a>(
        &'a self,
        counters: &'a [DriverFile],
        version: &str,
        generation: Generation,
        platform: Platform,
    ) -> impl Iterator<Item = &'a DriverFile> + use<'a> {
        let on = move |file: &&DriverFile| {
            file.platforms.as_ref().is_none_or(|platforms| platforms.contains(&platform))
        };
        files(counters, self.line_of(version), generation).filter(on)
    }

    fn line_of(&self, version: &str) -> Line {
        let ends = |driver: Option<&Driver>| driver.and_then(|driver| numbers(&driver.version));
        let oldest = ends(self.drivers.first()).unwrap_or_default();
        let newest = ends(self.drivers.last()).unwrap_or_default();
        numbers(version).map_or(newest, |line| line.max(oldest))
    }
}

impl DriverFile {
    /// The file's own name, which the driver keeps when it moves the file.
    pub fn name(&self) -> &str {
        self.path.rsplit_once('/').map_or(&self.path, |(_, name)| name)
    }
}

fn files(all: &[DriverFile], line: Line, generation: Generation) -> impl Iterator<Item = &DriverFile> {
    all.iter().filter(move |file| {
        file.generations.as_ref().is_none_or(|generations| generations.contains(&generation))
            && file.since.is_none_or(|since| since <= line)
            && file.until.is_none_or(|until| line < until)
    })
}

/// `2.24.7.0` and `2.24` are line 2.24.
fn numbers(version: &str) -> Option<Line> {
    let mut parts = version.trim().split(['.', '-']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn line<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Line>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let wrong = || serde::de::Error::custom(format!("{text:?} is no line of the driver, such as 2.24"));
    numbers(&text).map(Some).ok_or_else(wrong)
}

fn octal<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let text = String::deserialize(deserializer)?;
    u32::from_str_radix(&text, 8).map_err(serde::de::Error::custom)
}
