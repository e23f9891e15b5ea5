//! Looks a machine's files up for [`super::changes`], as they are without faults: on the disk of a machine that stands
//! ([`super::healthy`]), or here in the list of one whose files are kept elsewhere.

use std::path::{Component, Path, PathBuf};

use super::FaultError;
use crate::Blueprint;
use crate::machine::description::Description;
use crate::machine::tree::{self, Kind};

/// What the changes of a fault depend on.
pub(crate) trait Files {
    /// What the machine is.
    fn description(&self) -> &Description;

    /// The text of a file below the root; none if there is no such file.
    fn text(&self, path: &str) -> Option<String>;

    /// The file that a user named, as a path below the root without links, so that the class' name of a device is the same as its own.
    ///
    /// # Errors
    /// It is no file of the machine.
    fn file_named(&self, name: &str) -> Result<String, FaultError>;

    /// Where a file of a device is, if not at `path`, where its driver is known to have it.
    fn other_place(&self, path: &str, device: u8, name: &str) -> Option<String>;
}

impl Files for Blueprint {
    fn description(&self) -> &Description {
        Blueprint::description(self)
    }

    fn text(&self, path: &str) -> Option<String> {
        self.files().into_iter().find_map(|entry| match entry.kind {
            Kind::File { content, .. } if entry.path == path => Some(content),
            _ => None,
        })
    }

    fn file_named(&self, name: &str) -> Result<String, FaultError> {
        let wrong = || FaultError::NoFile { root: PathBuf::from("/"), path: name.to_owned() };
        let below = below(name).ok_or_else(wrong)?;
        let of_class = below.strip_prefix(tree::CLASS).map(|rest| format!("{}{rest}", tree::DEVICES));
        let mut names = [Some(below.to_owned()), of_class].into_iter().flatten();
        names.find(|path| self.text(path).is_some()).ok_or_else(wrong)
    }

    fn other_place(&self, _path: &str, _device: u8, _name: &str) -> Option<String> {
        None
    }
}

/// The path that a user named, below the root; none if it leads out of it.
pub(super) fn below(name: &str) -> Option<&str> {
    let below = name.trim_start_matches('/');
    Path::new(below).components().all(|part| matches!(part, Component::Normal(_))).then_some(below)
}
