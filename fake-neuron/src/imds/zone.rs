//! Availability zones, and which one a machine's instance is in: `.fake-neuron/zone` below its root, so that `neuron-monitor` says
//! what the metadata service says.

use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;

use crate::MachineError;
use crate::machine::disk;
use crate::state::STATE_FOLDER;

const FILE: &str = ".fake-neuron/zone";

/// An availability zone: a region and a letter, such as `eu-north-1b`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    region: String,
    letter: char,
}

/// A zone that is none.
#[derive(Debug, thiserror::Error)]
#[error("availability zone {0:?} is none: write a region and a letter, such as us-east-1a")]
pub struct ZoneError(String);

impl Zone {
    /// The zone's region, such as `eu-north-1`.
    pub fn region(&self) -> &str {
        &self.region
    }

    /// The zone's id, such as `eun1-az2`: zone `a` is 1.
    pub(super) fn id(&self) -> String {
        let number = u32::from(self.letter).saturating_sub(u32::from('a')) + 1;
        format!("{}-az{number}", short(&self.region))
    }

    /// The one of the machine under `root`; [`Zone::default`] where none is written down or it cannot be read.
    pub fn of_machine(root: &Path) -> Zone {
        let text = fs::read_to_string(root.join(FILE)).ok();
        text.and_then(|text| text.trim().parse().ok()).unwrap_or_default()
    }

    /// Writes it down for the machine under `root`, in one step.
    ///
    /// # Errors
    /// The file system's refusal.
    pub fn write(&self, root: &Path) -> Result<(), MachineError> {
        let folder = root.join(STATE_FOLDER);
        fs::create_dir_all(&folder).map_err(MachineError::io("make", &folder))?;
        disk::replace(root, FILE, &format!("{self}\n"), 0o644)
    }
}

impl Default for Zone {
    /// `us-east-1a`.
    fn default() -> Zone {
        Zone { region: "us-east-1".to_owned(), letter: 'a' }
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.region, self.letter)
    }
}

impl FromStr for Zone {
    type Err = ZoneError;

    /// The zone of this name.
    ///
    /// # Errors
    /// It is not a region with a letter.
    fn from_str(name: &str) -> Result<Self, ZoneError> {
        let error = || ZoneError(name.to_owned());
        let letter = name.chars().last().filter(char::is_ascii_lowercase).ok_or_else(error)?;
        let region = &name[..name.len() - 1];
        let parts: Vec<&str> = region.split('-').collect();
        let [words @ .., number] = parts.as_slice() else { return Err(error()) };
        let is_word = |word: &&str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        if words.len() < 2 || !words.iter().all(is_word) || !is_number {
            return Err(error());
        }
        Ok(Zone { region: region.to_owned(), letter })
    }
}

/// The region as ids of zones write it: `us-east-1` is `use1`, `ap-southeast-2` is `apse2`.
fn short(region: &str) -> String {
    let mut parts = region.split('-');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (first, rest) = part.split_at(part.len().min(5));
        match (first, rest) {
            ("north" | "south", side) if !side.is_empty() => {
                text.extend([&first[..1], &side[..1]]);
            }
            _ if part.starts_with(|letter: char| letter.is_ascii_digit()) => text.push_str(part),
            _ => text.extend(part.chars().next()),
        }
    }
    text
}
