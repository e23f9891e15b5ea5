//! The containers being served, in a file beside the socket, so that the next agent knows which ones this one has left. Called by
//! [`super`].

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::ioctl::start_of;

/// A container with the profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    /// The runtime's id of it.
    pub id: String,
    /// Its first process, as the node sees it.
    pub pid: u32,
    /// When that started, in the kernel's ticks since boot: ids are used again.
    pub started: u64,
    /// Namespace of its pod; empty outside Kubernetes.
    pub namespace: String,
    /// Name of its pod; empty outside Kubernetes.
    pub pod: String,
    /// UID of its pod; empty outside Kubernetes.
    pub pod_uid: String,
    /// Its name in the pod; empty outside Kubernetes.
    pub name: String,
    /// Pairs: the number in the name of a device's node, and the device's id on the host.
    pub devices: Vec<(u8, u8)>,
}

impl Container {
    /// Whether its first process still runs.
    pub(super) fn runs(&self) -> bool {
        start_of(self.pid) == Some(self.started)
    }
}

/// The containers that an agent serves.
#[derive(Debug)]
pub struct Containers {
    file: PathBuf,
    /// By id and first process: what is run in a container later (`kubectl exec`) has a listener of its own, and ends before it.
    served: Mutex<BTreeMap<(String, u32), Container>>,
}

impl Containers {
    /// Those of an agent with this socket, none at first, and those that an earlier one left and that still run.
    pub(super) fn beside(socket: &Path) -> (Containers, Vec<Container>) {
        let file = socket.with_extension("containers.json");
        let text = fs::read(&file).unwrap_or_default();
        let left: Vec<Container> = serde_json::from_slice(&text).unwrap_or_default();
        let containers = Containers { file, served: Mutex::default() };
        containers.write(&containers.lock());
        (containers, left.into_iter().filter(Container::runs).collect())
    }

    /// How many are served.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether none is served.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    pub(super) fn add(&self, container: &Container) {
        let mut served = self.lock();
        served.insert(key(container), container.clone());
        self.write(&served);
    }

    pub(super) fn remove(&self, container: &Container) {
        let mut served = self.lock();
        served.remove(&key(container));
        self.write(&served);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, u32), Container>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A list that cannot be written is missed only by the next agent.
    fn write(&self, served: &BTreeMap<(String, u32), Container>) {
        let list: Vec<&Container> = served.values().collect();
        let work = self.file.with_extension("new");
        let written = serde_json::to_vec(&list).map_err(std::io::Error::other);
        let written =
            written.and_then(|text| fs::write(&work, text)).and_then(|()| fs::rename(&work, &self.file));
        if let Err(error) = written {
            tracing::warn!(file = %self.file.display(), %error, "the list of containers cannot be written");
        }
    }
}

fn key(container: &Container) -> (String, u32) {
    (container.id.clone(), container.pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_run_in_a_container_ends_without_it() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("agent.sock");
        let pid = std::process::id();
        let main = Container { pid, started: start_of(pid).unwrap(), ..Container::default() };
        let (containers, _) = Containers::beside(&socket);
        let later = Container { pid: u32::MAX, started: 1, ..main.clone() };
        containers.add(&main);
        containers.add(&later);
        containers.remove(&later);
        assert_eq!(Containers::beside(&socket).1, [main]);
    }
}
