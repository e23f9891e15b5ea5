//! kubelet's checkpoint: which container has which ids, as kubelet has written it down (docs/reference/kubernetes.md §7). Reading
//! it disturbs nothing, so `engine` does before every answer. It is kubelet's internal file: one of another form says nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use neuron_core::ids::{CoreSet, DeviceSet, KubeletId};
use neuron_core::names::Resource;
use neuron_core::topology::Topology;
use runtime::System;
use runtime::system::FileStatus;
use serde::Deserialize;

use crate::ledger::Entry;
use crate::resource::{UnknownId, advertised, cores_of, known_cores, unit_of};

/// The file's name in kubelet's plugin folder.
const FILE: &str = "kubelet_internal_checkpoint";

/// The file, and what it said last.
#[derive(Debug)]
pub struct CheckpointFile {
    system: System,
    path: PathBuf,
    /// The file that was read last, none within if there was none; none where it could not be read.
    last: tokio::sync::Mutex<Option<Option<FileStatus>>>,
}

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// What containers have of this plugin's resources.
    pub entries: Vec<Entry>,
    /// Ids that are none of this machine's, by pod UID and container.
    pub unknown: Vec<(String, String, UnknownId)>,
    /// Whether the file is there.
    pub is_there: bool,
    /// What kubelet offers: the healthy ids that it was told of, as cores, by the resource's name; none where it said nothing.
    pub offered: BTreeMap<&'static str, CoreSet>,
}

/// What the file says before the machine's topology is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// UIDs of pods that have ids of this plugin's resources.
    pub uids: BTreeSet<String>,
    /// The highest id of a logical core that kubelet gave away or was told of, 0 to 127.
    pub highest_core: Option<u8>,
    /// Whether a pod has ids of whole devices.
    pub devices: bool,
    /// The devices that kubelet offers under their own names; it lists healthy ones alone.
    pub devices_offered: DeviceSet,
    /// The logical cores that it offers under theirs.
    pub cores_offered: CoreSet,
}

/// Why the file says nothing.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// It cannot be read.
    #[error("kubelet's checkpoint {path} cannot be read: {source}; what it said last counts until it can")]
    Read {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not of the form that kubelet has written since 1.20.
    #[error(
        "kubelet's checkpoint {path} is of a form that this plugin does not know: {source}; a newer version may know it"
    )]
    Form {
        /// Its path.
        path: PathBuf,
        /// Where it differs.
        source: serde_json::Error,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct File {
    data: Data,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Data {
    pod_device_entries: Option<Vec<PodDevices>>,
    /// Healthy ids by resource.
    #[serde(default)]
    registered_devices: Option<BTreeMap<String, Option<Vec<String>>>>,
}

#[derive(Deserialize)]
struct PodDevices {
    #[serde(rename = "PodUID")]
    pod_uid: String,
    #[serde(rename = "ContainerName")]
    container: String,
    #[serde(rename = "ResourceName")]
    resource: String,
    /// Ids by NUMA node.
    #[serde(rename = "DeviceIDs")]
    ids: Option<BTreeMap<String, Vec<String>>>,
}

impl CheckpointFile {
    /// The file in this plugin folder. Nothing is read yet.
    pub fn new(system: System, plugin_dir: &Path) -> Self {
        Self { system, path: plugin_dir.join(FILE), last: tokio::sync::Mutex::new(None) }
    }

    /// Hands what the file says to `take` if it may say something else than at the last call; one call at a time, so that an older
    /// answer never comes after a newer one. A file that is not there says that nobody has anything. Gives whether it was read.
    pub async fn read(
        &self,
        topology: &Topology,
        take: impl FnOnce(Result<Checkpoint, CheckpointError>),
    ) -> bool {
        let mut last = self.last.lock().await;
        let status = match self.system.status(&self.path).await {
            Ok(status) => Some(status),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(source) => {
                *last = None;
                take(Err(CheckpointError::Read { path: self.path.clone(), source }));
                return true;
            }
        };
        if *last == Some(status) {
            return false;
        }
        let read = self.read_file(topology).await;
        // What could not be read is read again.
        *last = (!matches!(read, Err(CheckpointError::Read { .. }))).then_some(status);
        take(read);
        true
    }

    /// Who holds ids, whatever they mean on this machine. A file that is not there says that nobody does.
    ///
    /// # Errors
    /// It is there and cannot be read, or is of another form.
    pub async fn held(&self) -> Result<Held, CheckpointError> {
        match self.bytes().await? {
            Some(bytes) => Held::parse(&bytes).map_err(|source| self.other_form(source)),
            None => Ok(Held::default()),
        }
    }

    /// Whether the file may say something else than at the last read; of one that could not be read nobody knows.
    pub async fn has_changed(&self) -> bool {
        let last = *self.last.lock().await;
        last != Some(self.system.status(&self.path).await.ok())
    }

    /// How long ago kubelet wrote the file, by the clock of its file system; none if it is not there.
    pub async fn age(&self) -> Option<Duration> {
        let status = self.system.status(&self.path).await.ok()?;
        Some(self.system.now().duration_since(status.modified).unwrap_or_default())
    }

    async fn read_file(&self, topology: &Topology) -> Result<Checkpoint, CheckpointError> {
        match self.bytes().await? {
            Some(bytes) => Checkpoint::parse(topology, &bytes).map_err(|source| self.other_form(source)),
            None => Ok(Checkpoint::default()),
        }
    }

    /// None if there is no such file.
    async fn bytes(&self) -> Result<Option<Vec<u8>>, CheckpointError> {
        match self.system.read(&self.path).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(CheckpointError::Read { path: self.path.clone(), source }),
        }
    }

    fn other_form(&self, source: serde_json::Error) -> CheckpointError {
        CheckpointError::Form { path: self.path.clone(), source }
    }
}

impl Held {
    fn parse(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        let data = serde_json::from_slice::<File>(bytes)?.data;
        let mut held = Self::default();
        let core = |id: &String| match id.parse() {
            Ok(KubeletId::Core(core)) => Some(core),
            _ => None,
        };
        let device = |id: &String| match id.parse() {
            Ok(KubeletId::Device(device)) => Some(device),
            _ => None,
        };
        for pod in data.pod_device_entries.into_iter().flatten() {
            let ids: Vec<String> = pod.ids.into_iter().flatten().flat_map(|(_, ids)| ids).collect();
            if unit_of(&pod.resource).is_some() && !ids.is_empty() {
                held.highest_core = held.highest_core.max(ids.iter().filter_map(core).max());
                held.devices |= unit_of(&pod.resource) == Some(Resource::Device);
                held.uids.insert(pod.pod_uid);
            }
        }
        for (name, ids) in data.registered_devices.into_iter().flatten() {
            if unit_of(&name).is_some() {
                held.devices_offered =
                    held.devices_offered.union(ids.iter().flatten().filter_map(device).collect());
                held.cores_offered =
                    held.cores_offered.union(ids.iter().flatten().filter_map(core).collect());
            }
        }
        held.highest_core = held.highest_core.max(held.cores_offered.iter().last());
        Ok(held)
    }
}

impl Checkpoint {
    /// Reads what the file says of this plugin's resources. Its checksum is over Go's own printing of the data, so that nobody else
    /// can verify it; kubelet replaces the file as a whole.
    ///
    /// # Errors
    /// It is not of the form that is known.
    pub fn parse(topology: &Topology, bytes: &[u8]) -> Result<Self, serde_json::Error> {
        let file: File = serde_json::from_slice(bytes)?;
        let mut checkpoint = Self { is_there: true, ..Self::default() };
        for pod in file.data.pod_device_entries.into_iter().flatten() {
            let own = advertised(true).into_iter().find(|resource| resource.name == pod.resource);
            let Some(own) = own else { continue };
            let ids: Vec<String> = pod.ids.into_iter().flatten().flat_map(|(_, ids)| ids).collect();
            let mut cores = CoreSet::EMPTY;
            for id in ids {
                match cores_of(topology, own.unit, &[id]) {
                    Ok(known) => cores = cores.union(known),
                    Err(unknown) => {
                        checkpoint.unknown.push((pod.pod_uid.clone(), pod.container.clone(), unknown));
                    }
                }
            }
            checkpoint.entries.push(Entry {
                uid: pod.pod_uid,
                container: pod.container,
                name: own.name,
                resource: own.unit,
                cores,
            });
        }
        for (name, ids) in file.data.registered_devices.into_iter().flatten() {
            let own = advertised(true).into_iter().find(|resource| resource.name == name);
            let Some(own) = own else { continue };
            checkpoint.offered.insert(own.name, known_cores(topology, own.unit, &ids.unwrap_or_default()));
        }
        Ok(checkpoint)
    }

    /// The cores that kubelet offers under every name that it knows.
    pub fn offered(&self) -> CoreSet {
        self.offered.values().copied().reduce(CoreSet::intersection).unwrap_or_default()
    }
}
