//! What one kubelet is told: its node, its folder and who makes its free choices. Read by every module here.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use kubelet_api::deviceplugin::v1beta1::KUBELET_SOCKET;
use kubelet_api::unix::SocketError;

/// One kubelet's settings.
#[derive(Clone, Debug)]
pub struct KubeletConfig {
    /// The Node's name.
    pub node: String,
    /// Its `/var/lib/kubelet`; created when missing. Socket paths below it must stay under 108 bytes.
    pub dir: PathBuf,
    /// Feeds the free choices; the same seed, node and calls give the same choices.
    pub seed: u64,
    /// Who makes the free choices.
    pub choice: Choice,
    /// Labels of the Node.
    pub labels: BTreeMap<String, String>,
    /// How long after a change the Node's status shows it, by the cluster's clock (a real kubelet: up to 10 s).
    pub status_period: Duration,
}

/// How a kubelet decides what Kubernetes leaves open: which ids, in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Pseudo-random, from the seed.
    Seeded,
    /// The least convenient: scattered ids from both ends, descending order, the pod that was bound last first.
    Hostile,
}

/// Why a kubelet does not start.
#[derive(Debug, thiserror::Error)]
pub enum KubeletError {
    /// A socket cannot be created.
    #[error("kubelet of node {node} cannot open its socket")]
    Socket {
        /// The node.
        node: String,
        /// What was wrong with the path or the folder.
        source: SocketError,
    },
    /// The kubelet's folder cannot be used.
    #[error("kubelet of node {node} cannot use {}; is the folder writable?", path.display())]
    Folder {
        /// The node.
        node: String,
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The API server refused the Node.
    #[error("kubelet of node {node} cannot register its Node")]
    Node {
        /// The node.
        node: String,
        /// What the API server said.
        source: Box<kube::Error>,
    },
    /// The pods of the node could not be listed.
    #[error("kubelet of node {node} lost its pod watch before the first list; is the API server up?")]
    Pods {
        /// The node.
        node: String,
    },
}

impl KubeletConfig {
    /// The folder of plugin sockets.
    pub fn plugins_dir(&self) -> PathBuf {
        self.dir.join("device-plugins")
    }

    /// The socket plugins register on.
    pub fn registration_socket(&self) -> PathBuf {
        self.plugins_dir().join(KUBELET_SOCKET)
    }

    /// The podresources socket.
    pub fn podresources_socket(&self) -> PathBuf {
        self.dir.join("pod-resources").join(KUBELET_SOCKET)
    }

    /// Who holds which device, kept across restarts.
    pub fn checkpoint_file(&self) -> PathBuf {
        self.plugins_dir().join("kubelet_internal_checkpoint")
    }

    /// The node's containers, which outlive the kubelet; removing the file is what a reboot of the node does.
    pub fn containers_file(&self) -> PathBuf {
        self.dir.join("containers.json")
    }
}
