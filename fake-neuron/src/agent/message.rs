//! What a container runtime says when it hands out a container's listener: the OCI runtime specification's container process state, as
//! JSON. Called by [`super`].

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::Container;
use crate::ioctl::start_of;

/// Name of the descriptor that is the listener.
const LISTENER: &str = "seccompFd";

/// What a runtime wants.
#[derive(Debug)]
pub(super) struct Request {
    /// Without its devices.
    pub(super) container: Container,
    /// Place of the listener among the descriptors.
    pub(super) listener: usize,
}

#[derive(Deserialize)]
struct ProcessState {
    fds: Vec<String>,
    pid: u32,
    state: State,
}

#[derive(Deserialize)]
struct State {
    id: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// Whether all of a message has come: a runtime need not close its end.
pub(super) fn is_whole(bytes: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
}

/// Reads a runtime's message.
///
/// # Errors
/// It is none: what is wrong.
pub(super) fn parse(bytes: &[u8]) -> Result<Request, String> {
    let said: ProcessState = serde_json::from_slice(bytes)
        .map_err(|reason| format!("the request is no state of a container's process: {reason}"))?;
    let listener = said.fds.iter().position(|name| name == LISTENER);
    let listener = listener.ok_or_else(|| format!("the request names no descriptor {LISTENER}"))?;
    // The names that containerd and CRI-O give their annotations.
    let annotation = |names: [&str; 2]| {
        names.iter().find_map(|name| said.state.annotations.get(*name)).cloned().unwrap_or_default()
    };
    Ok(Request {
        container: Container {
            namespace: annotation(["io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace"]),
            pod: annotation(["io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"]),
            pod_uid: annotation(["io.kubernetes.cri.sandbox-uid", "io.kubernetes.pod.uid"]),
            name: annotation(["io.kubernetes.cri.container-name", "io.kubernetes.container.name"]),
            id: said.state.id,
            pid: said.pid,
            started: start_of(said.pid).unwrap_or_default(),
            devices: Vec::new(),
        },
        listener,
    })
}
