//! The file in which kubelet keeps what it has given to whom. Changed by `events`; read by `judge`, as a device plugin reads it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fake_cluster::api::text;
use serde_json::Value;

use super::node::{KUBELET_DIR, Node};
use super::{World, locked};
use crate::plan::Place;
use crate::suite::Books;

/// Its name in the folder of kubelet's plugins.
pub(super) const CHECKPOINT: &str = "kubelet_internal_checkpoint";

/// Where it is.
pub(super) fn checkpoint() -> PathBuf {
    Path::new(KUBELET_DIR).join("device-plugins").join(CHECKPOINT)
}

impl World {
    /// Whether the node's file is still one that a fault has put in the place of a newer one.
    pub(super) fn is_checkpoint_older(&self, node: &str) -> bool {
        let place = self.nodes.iter().position(|other| other.name == node);
        place.is_some_and(|place| {
            let older = locked(&self.older_checkpoints).get(&place).cloned();
            older.is_some() && self.host(Place::Node(place)).files().read(&checkpoint()).ok() == older
        })
    }

    /// What the file of the node at a place gives each container, by pod UID and name. None if there is none that can be read.
    pub(super) fn books_on_disk(&self, place: usize, node: &Node) -> Option<Books> {
        let contents = self.host(Place::Node(place)).files().read(&checkpoint()).ok()?;
        let file: Value = serde_json::from_slice(&contents).ok()?;
        let entries = file.pointer("/Data/PodDeviceEntries")?.as_array();
        let mut books = Books::new();
        for entry in entries.into_iter().flatten() {
            let of_numa_nodes = entry.pointer("/DeviceIDs")?.as_object()?.values();
            let ids: BTreeSet<String> = of_numa_nodes
                .flat_map(|ids| ids.as_array().into_iter().flatten())
                .filter_map(|id| id.as_str().map(str::to_owned))
                .collect();
            let units = self.suite.units_of_ids(&node.plan, text(entry, "/ResourceName"), &ids).ok()?;
            let key = (text(entry, "/PodUID").to_owned(), text(entry, "/ContainerName").to_owned());
            books.entry(key).or_default().extend(units);
        }
        Some(books)
    }
}
