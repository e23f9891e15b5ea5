//! The file in which kubelet keeps what it has given to whom, and what goes wrong with it. Called by `events`; read by `judge`, as a
//! device plugin reads it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fake_cluster::api::text;
use serde_json::Value;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::node::{KUBELET_DIR, Node};
use super::{World, locked};
use crate::observer::{CHECKPOINT_READS, CHECKPOINT_WRITES, UNDONE_WRITES};
use crate::plan::Place;
use crate::suite::Books;

/// Its name in the folder of kubelet's plugins.
pub(super) const CHECKPOINT: &str = "kubelet_internal_checkpoint";

/// Time between two looks at whether kubelet has written it.
const WRITE_SEEN: Duration = Duration::from_millis(10);

/// Where it is.
pub(super) fn checkpoint() -> PathBuf {
    Path::new(KUBELET_DIR).join("device-plugins").join(CHECKPOINT)
}

impl World {
    /// kubelet is killed, and starts without the file.
    pub(super) fn lose_checkpoint(&self, node: usize) {
        let place = Place::Node(node);
        self.with_part("kubelet", place, |part| part.kill());
        self.host(place).files().remove_all(&checkpoint());
    }

    /// Half of the file is gone. Whether there was one.
    pub(super) fn garble_checkpoint(&self, place: usize) -> bool {
        let (files, file) = (self.host(Place::Node(place)).files(), checkpoint());
        let garbled = files.read(&file).and_then(|mut contents| {
            contents.truncate(contents.len() / 2);
            files.write(&file, contents)
        });
        if garbled.is_ok()
            && let Some(node) = self.nodes.get(place)
        {
            let now = self.simulation.elapsed();
            self.watcher.state().truth.garbled.insert(node.name.clone(), now);
        }
        garbled.is_ok()
    }

    /// The next write within so long is undone.
    pub(super) fn undo_next_write(self: &Arc<Self>, place: usize, seconds: u32) {
        let world = Arc::clone(self);
        let over = CancellationToken::new();
        let end = over.clone();
        self.fault_lasts(seconds, move |_| end.cancel());
        self.spawn(async move {
            let (files, file) = (world.host(Place::Node(place)).files(), checkpoint());
            let Ok(before) = files.read(&file) else { return };
            while files.read(&file).is_ok_and(|now| now == before) && !over.is_cancelled() {
                sleep(WRITE_SEEN).await;
            }
            if !over.is_cancelled() && files.read(&file).is_ok() && files.write(&file, before.clone()).is_ok()
            {
                locked(&world.older_checkpoints).insert(place, before);
                if let Some(node) = world.nodes.get(place) {
                    let part = format!("{UNDONE_WRITES}/{}", node.name);
                    world.watcher.disturbs(part, world.simulation.elapsed());
                }
                *locked(&world.fault_counts).entry("checkpoint older".to_owned()).or_default() += 1;
            }
        });
    }

    /// For so long kubelet cannot write it, as on a full disk. What it gives meanwhile stands in the file once it writes again.
    pub(super) fn refuse_writes(self: &Arc<Self>, place: usize, seconds: u32) {
        let Some(name) = self.nodes.get(place).map(|node| node.name.clone()) else { return };
        let part = format!("{CHECKPOINT_WRITES}/{name}");
        self.host(Place::Node(place)).files().fill_up(&checkpoint());
        self.watcher.disturbs(part.clone(), Duration::MAX);
        self.fault_lasts(seconds, move |world| {
            let files = world.host(Place::Node(place)).files();
            // Where nothing was to be written the file is right.
            if files.make_room(&checkpoint())
                && let Ok(before) = files.read(&checkpoint())
            {
                locked(&world.older_checkpoints).insert(place, before);
            }
            world.watcher.disturbs(part, world.simulation.elapsed());
        });
    }

    /// For so long nobody on the node can read it: reads fail, or get no answer.
    pub(super) fn refuse_reads(self: &Arc<Self>, place: usize, hangs: bool, seconds: u32) {
        let Some(name) = self.nodes.get(place).map(|node| node.name.clone()) else { return };
        let part = format!("{CHECKPOINT_READS}/{name}");
        let set = move |world: &World, fails| {
            let files = world.host(Place::Node(place)).files();
            if hangs {
                files.set_hung(&checkpoint(), fails);
            } else {
                files.set_unreadable(&checkpoint(), fails);
            }
        };
        set(self, true);
        self.watcher.disturbs(part.clone(), Duration::MAX);
        self.fault_lasts(seconds, move |world| {
            set(world, false);
            world.watcher.disturbs(part, world.simulation.elapsed());
        });
    }

    /// A kubelet starts, and has lost its books where reading them fails. Where they hang it does not come so far.
    pub(super) fn kubelet_reads_checkpoint(&self, place: usize) {
        if let Some(node) = self.nodes.get(place)
            && self.host(Place::Node(place)).files().is_unreadable(&checkpoint())
        {
            let now = self.simulation.elapsed();
            self.watcher.state().truth.garbled.insert(node.name.clone(), now);
        }
    }

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
