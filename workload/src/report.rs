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

impl NodeSeen {
    /// What of it is not as on a machine with Neuron devices; none if it is a character device that may be used and
    /// has the minor number that its path says. The major number is whatever the driver was given.
    pub fn wrong(&self) -> Option<String> {
        let NodeSeen { path, kind, minor, open, .. } = self;
        let number = path.strip_prefix("/dev/neuron").and_then(|number| number.parse::<u32>().ok());
        let problem = if kind != "character" {
            format!("is no character device: {kind}")
        } else if number != Some(*minor) {
            format!("has the minor number {minor}")
        } else if !["opened", "ENXIO"].contains(&open.as_str()) {
            format!("cannot be opened: {open}")
        } else {
            return None;
        };
        Some(format!("{path} {problem}"))
    }
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
    fn a_node_that_is_not_what_its_path_says_is_wrong() {
        let node = |kind: &str, minor, open: &str| NodeSeen {
            path: "/dev/neuron3".to_owned(),
            kind: kind.to_owned(),
            major: 120,
            minor,
            open: open.to_owned(),
        };
        assert_eq!(node("character", 3, "ENXIO").wrong(), None);
        assert_eq!(node("character", 3, "opened").wrong(), None);
        assert_eq!(node("file", 0, "opened").wrong().unwrap(), "/dev/neuron3 is no character device: file");
        assert_eq!(node("character", 2, "ENXIO").wrong().unwrap(), "/dev/neuron3 has the minor number 2");
        assert_eq!(node("character", 3, "EPERM").wrong().unwrap(), "/dev/neuron3 cannot be opened: EPERM");
    }

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
