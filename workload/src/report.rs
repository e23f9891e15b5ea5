//! What the workload prints. A real container and the embedded cluster make the same type.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What the workload prints, as one line of JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The container's whole environment.
    pub env: BTreeMap<String, String>,
    /// The paths of its Neuron device nodes, in natural order.
    pub devices: Vec<String>,
    /// Every device node in its `/dev`, in natural order, and whatever is at a path of `devices`. Only a real container looks:
    /// empty on the embedded cluster, and in no outcome document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<DeviceNode>,
    /// What the driver answers by ioctl of each device that opens, in natural order: on fake hardware only in containers that
    /// `fake-neuron agent` answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ioctls: Vec<DriverAnswers>,
    /// The cores that it has reserved, as `0` or `0-3`, or the system's name of the refusal, such as `EBUSY`; none where it was not to
    /// reserve any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<String>,
}

/// What a driver says of one device by ioctl (docs/reference/neuron.md §4.2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverAnswers {
    /// Such as `/dev/neuron3`.
    pub path: String,
    /// The device's id on the host.
    pub host_id: u32,
    /// 1 to 4, by generation.
    pub architecture: u32,
    /// Ids of the devices that it is linked to, in the driver's order.
    pub links: Vec<u32>,
    /// PCI address with its domain, such as `0000:cc:00.0`.
    pub address: String,
}

/// One device node, as the container sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceNode {
    /// Such as `/dev/neuron3`.
    pub path: String,
    /// `character`, `block`, `file` or `other`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The driver's major number; 0 for what is no device.
    pub major: u32,
    /// The minor number, which is the device's id on the host whatever the path is; 0 for what is no device.
    pub minor: u32,
    /// `opened`, or the system's name of the error. `ENXIO`: the node may be used but no driver answers, as on fake hardware.
    /// `EPERM`: the container may not use it.
    pub open: String,
}

/// Whether this is the path of a Neuron device.
pub(crate) fn is_neuron(path: &str) -> bool {
    path.starts_with("/dev/neuron")
}

impl DeviceNode {
    /// What is wrong with a Neuron device's node; none if it is a character device that may be used and has the minor number
    /// of its path, or if the path is no Neuron device's. The major number may be any, as the driver's is dynamic.
    pub fn wrong(&self) -> Option<String> {
        if !is_neuron(&self.path) {
            return None;
        }
        let DeviceNode { path, kind, minor, open, .. } = self;
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
    /// The report of a container with this environment and these device paths, of which only Neuron's are kept.
    pub fn of(env: BTreeMap<String, String>, paths: impl IntoIterator<Item = String>) -> Self {
        let mut devices: Vec<String> = paths.into_iter().filter(|path| is_neuron(path)).collect();
        devices.sort_by_key(|path| (path.len(), path.clone()));
        Self { env, devices, ..Report::default() }
    }

    /// The part that is the same on every cluster: the variables `NEURON_*` and `AWS_NEURON_*`, the paths, and what the driver answers.
    /// Other variables are the cluster's, and only a real container sees what is at the paths.
    pub fn of_neuron(mut self) -> Self {
        self.env.retain(|name, _| name.starts_with("NEURON_") || name.starts_with("AWS_NEURON_"));
        self.nodes.clear();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_not_what_its_path_says_is_wrong() {
        let node = |kind: &str, minor, open: &str| DeviceNode {
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
        let console = DeviceNode { path: "/dev/console".to_owned(), ..node("character", 1, "EPERM") };
        assert_eq!(console.wrong(), None);
    }

    #[test]
    fn the_report_holds_the_whole_environment_until_only_neurons_is_asked_for() {
        let env =
            [("PATH", "/bin"), ("NEURON_RT_VISIBLE_CORES", "2,3")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        let paths = ["/dev/neuron10", "/dev/null", "/dev/neuron9"].map(str::to_owned);
        let report = Report::of(env.into(), paths);
        assert_eq!(report.env.get("PATH").unwrap(), "/bin");
        assert_eq!(
            serde_json::to_string(&report.of_neuron()).unwrap(),
            r#"{"env":{"NEURON_RT_VISIBLE_CORES":"2,3"},"devices":["/dev/neuron9","/dev/neuron10"]}"#
        );
    }
}
