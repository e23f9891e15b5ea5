//! What the workload prints: the same type whether a real container or the embedded cluster made it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What the workload prints, as one line of JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The container's variables `NEURON_*` and `AWS_NEURON_*`, no others.
    pub env: BTreeMap<String, String>,
    /// The paths of the Neuron device nodes it sees, in natural order.
    pub devices: Vec<String>,
    /// What stands at each of these paths, in the same order. Only a real container looks: empty on the embedded
    /// cluster, and in no outcome document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeSeen>,
}

/// One device node as the container sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSeen {
    /// Such as `/dev/neuron3`.
    pub path: String,
    /// `character`, `block`, `file` or `other`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The driver's major number, 0 for what is no device.
    pub major: u32,
    /// The minor number: the device's id on the host, whatever the path says. 0 for what is no device.
    pub minor: u32,
    /// `opened`, or the system's name of the error: `ENXIO` says that the node may be used but no driver answers, as
    /// on fake hardware; `EPERM` says that the container may not use it.
    pub open: String,
}

impl Report {
    /// The report of a container with this environment and these device paths; what is not Neuron's is left out.
    pub fn of(env: &BTreeMap<String, String>, paths: impl IntoIterator<Item = String>) -> Self {
        let ours = |name: &str| name.starts_with("NEURON_") || name.starts_with("AWS_NEURON_");
        let env = env
            .iter()
            .filter(|(name, _)| ours(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let mut devices: Vec<String> =
            paths.into_iter().filter(|path| path.starts_with("/dev/neuron")).collect();
        devices.sort_by_key(|path| (path.len(), path.clone()));
        Self { env, devices, nodes: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_holds_only_what_is_neurons() {
        let env =
            [("PATH", "/bin"), ("NEURON_RT_VISIBLE_CORES", "2,3")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        let paths = ["/dev/neuron10", "/dev/null", "/dev/neuron9"].map(str::to_owned);
        let report = Report::of(&env.into(), paths);
        assert_eq!(
            serde_json::to_string(&report).unwrap(),
            r#"{"env":{"NEURON_RT_VISIBLE_CORES":"2,3"},"devices":["/dev/neuron9","/dev/neuron10"]}"#
        );
    }
}
