//! The settings of one kubelet, and the files of its node. Read by every module here.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use kubelet_api::deviceplugin::v1beta1::KUBELET_SOCKET;

use super::free_choices::FreeChoices;

/// One kubelet's settings.
#[derive(Clone, Debug)]
pub struct KubeletConfig {
    /// The Node's name.
    pub node: String,
    /// Its `/var/lib/kubelet`; created when missing. Paths of sockets below it must stay under 108 bytes.
    pub dir: PathBuf,
    /// How it makes the choices that Kubernetes leaves open.
    pub free_choices: FreeChoices,
    /// Labels of the Node.
    pub labels: BTreeMap<String, String>,
    /// How long after a change the Node's status shows it, by the cluster's clock. A real kubelet takes up to 10 s.
    pub status_period: Duration,
    /// Whether it shows that it is alive, as a real kubelet does: it renews the Lease `kube-node-lease/NODE` every 10 s, and
    /// writes the Node's status every 5 minutes though nothing has changed.
    pub heartbeats: bool,
}

impl KubeletConfig {
    /// A kubelet whose files are in `dir`, with free choices from seed 0, no labels, a status that shows every change at
    /// once, and no heartbeats.
    pub fn new(node: impl Into<String>, dir: impl Into<PathBuf>) -> Self {
        Self {
            node: node.into(),
            dir: dir.into(),
            free_choices: FreeChoices::Seeded(0),
            labels: BTreeMap::new(),
            status_period: Duration::ZERO,
            heartbeats: false,
        }
    }

    /// The folder of plugin sockets.
    pub fn plugins_dir(&self) -> PathBuf {
        self.dir.join("device-plugins")
    }

    /// The socket on which plugins register.
    pub fn registration_socket(&self) -> PathBuf {
        self.plugins_dir().join(KUBELET_SOCKET)
    }

    /// The path of the podresources socket.
    pub fn podresources_socket(&self) -> PathBuf {
        self.dir.join("pod-resources").join(KUBELET_SOCKET)
    }

    /// The socket of kubelet's own pods, in versions that have it.
    pub fn pods_socket(&self) -> PathBuf {
        self.dir.join("pods-api/pods-api.sock")
    }

    /// The assignments, which a restarted kubelet reads again.
    pub fn checkpoint_file(&self) -> PathBuf {
        self.plugins_dir().join("kubelet_internal_checkpoint")
    }

    /// The node's containers, which outlive the kubelet. A reboot of the node is to stop the kubelet and remove this file.
    pub fn containers_file(&self) -> PathBuf {
        self.dir.join("containers.json")
    }
}
