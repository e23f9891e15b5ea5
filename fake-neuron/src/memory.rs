//! Machines' trees in memory: thousands in one process, for tests and simulations that read files through an interface of their
//! own. Trees of one shape share what is the same in them; each holds only what is its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::machine::blueprint::Blueprint;
use crate::machine::tree::{Entry, Kind};
use crate::{Health, MachineError};

/// Makes trees, and keeps what they share.
#[derive(Debug, Default)]
pub struct Trees {
    shapes: Vec<(Blueprint, Shape)>,
}

/// What every tree of a shape has.
type Shape = Arc<BTreeMap<String, Kind>>;

/// One machine's files.
#[derive(Clone, Debug)]
pub struct Tree {
    blueprint: Blueprint,
    shape: Shape,
    /// What differs from the shape, by path; `None`: it is missing.
    own: BTreeMap<String, Option<Kind>>,
}

impl Trees {
    /// None yet.
    pub fn new() -> Trees {
        Trees::default()
    }

    /// The tree of such a machine. The first of a shape (type, LNC, driver, counters) costs as much as the machine has files,
    /// each further one only what identifies it.
    pub fn tree(&mut self, blueprint: Blueprint) -> Tree {
        let nobodys = blueprint.without_identity();
        let known = self.shapes.iter().find(|(shape, _)| *shape == nobodys);
        let shape = match known {
            Some((_, shape)) => Arc::clone(shape),
            None => {
                let files = nobodys.files().into_iter().map(|entry| (entry.path, entry.kind));
                let shape = Arc::new(files.collect::<BTreeMap<_, _>>());
                self.shapes.push((nobodys, Arc::clone(&shape)));
                shape
            }
        };
        let mut tree = Tree { shape, own: BTreeMap::new(), blueprint };
        tree.put(tree.blueprint.identity_files());
        tree
    }
}

impl Tree {
    /// The text of a file, below the root as in `sys/module/neuron/version`. Links are not followed.
    pub fn read(&self, path: &str) -> Option<&str> {
        match self.kind(path)? {
            Kind::File { content, .. } => Some(content),
            Kind::Link { .. } | Kind::Node { .. } => None,
        }
    }

    /// What is at a path.
    pub fn kind(&self, path: &str) -> Option<&Kind> {
        match self.own.get(path) {
            Some(own) => own.as_ref(),
            None => self.shape.get(path),
        }
    }

    /// Every path, sorted.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let shared = self.shape.keys().filter(|path| !self.own.contains_key(*path));
        let own = self.own.iter().filter(|(_, kind)| kind.is_some()).map(|(path, _)| path);
        let mut paths: Vec<&str> = shared.chain(own).map(String::as_str).collect();
        paths.sort_unstable();
        paths.into_iter()
    }

    /// Replaces a file's text, or makes the file with mode 0644.
    pub fn write(&mut self, path: &str, content: &str) {
        let mode = match self.kind(path) {
            Some(Kind::File { mode, .. }) => *mode,
            _ => 0o644,
        };
        self.own.insert(path.to_owned(), Some(Kind::File { content: content.to_owned(), mode }));
    }

    /// Removes a path and all below it.
    pub fn remove(&mut self, path: &str) {
        let folder = format!("{path}/");
        let goes = |there: &str| there == path || there.starts_with(&folder);
        let gone: Vec<String> = self.paths().filter(|there| goes(there)).map(str::to_owned).collect();
        self.own.extend(gone.into_iter().map(|path| (path, None)));
    }

    /// Loses a device, as [`crate::Machine::lose`] does.
    ///
    /// # Errors
    /// No such device.
    pub fn lose(&mut self, device: u8) -> Result<(), MachineError> {
        let lost = self.blueprint.lost_paths(device)?;
        lost.iter().for_each(|path| self.remove(path));
        Ok(())
    }

    /// Makes what is missing of a device, as [`crate::Machine::restore`] does.
    ///
    /// # Errors
    /// No such device.
    pub fn restore(&mut self, device: u8) -> Result<(), MachineError> {
        let mut missing = self.blueprint.device_files(device)?;
        missing.retain(|entry| self.kind(&entry.path).is_none());
        self.put(missing);
        Ok(())
    }

    /// Sets the health that the driver's files show, as [`crate::Machine::set_health`] does.
    ///
    /// # Errors
    /// No such device, a lost one, no component or one that the driver cannot show.
    pub fn set_health(&mut self, device: u8, health: &Health) -> Result<(), MachineError> {
        match self.blueprint.health_files(device, health)? {
            Some(files) if files.iter().all(|file| self.kind(&file.path).is_some()) => {
                self.put(files);
                Ok(())
            }
            Some(_) => Err(self.blueprint.lost(device)),
            None if *health == Health::Healthy => self.restore(device),
            None => self.lose(device),
        }
    }

    fn put(&mut self, entries: Vec<Entry>) {
        self.own.extend(entries.into_iter().map(|entry| (entry.path, Some(entry.kind))));
    }
}
