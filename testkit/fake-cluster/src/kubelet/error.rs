//! Why a kubelet does not start.

use std::path::PathBuf;

use kubelet_api::unix::SocketError;

/// Why a kubelet does not start.
#[derive(Debug, thiserror::Error)]
pub enum KubeletError {
    /// A socket cannot be created.
    #[error("kubelet of node {node} cannot open its socket")]
    Socket {
        /// The Node object's name.
        node: String,
        /// What was wrong with the path or the folder.
        source: SocketError,
    },
    /// The kubelet's folder cannot be used.
    #[error("kubelet of node {node} cannot use {}; is the folder writable?", path.display())]
    Folder {
        /// The Node object's name.
        node: String,
        /// The file or folder that could not be made, read or written.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The API server refused the Node.
    #[error("kubelet of node {node} cannot register its Node; is the API server available?")]
    Node {
        /// The Node object's name.
        node: String,
        /// What the API server said.
        source: Box<kube::Error>,
    },
    /// The pods of the node could not be listed.
    #[error("kubelet of node {node} stopped before it had listed its pods; is the API server available?")]
    Pods {
        /// The Node object's name.
        node: String,
    },
}
