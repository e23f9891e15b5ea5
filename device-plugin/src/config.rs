//! The plugin's settings. Filled by `main` from the command line, and by whoever runs the plugin as a library.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use neuron_core::topology::Policy;

use crate::handover::mode::HandoverMode;
use crate::probe::Probe;

/// Every setting. Start from [`Config::new`] and change fields.
#[derive(Clone, Debug)]
pub struct Config {
    /// The folder of `/dev`, `/sys` and `/opt`; `/` on a real node.
    pub root: PathBuf,
    /// The node's name at the API server.
    pub node_name: String,
    /// kubelet's folder, which holds `device-plugins/` and `pod-resources/`.
    pub kubelet_dir: PathBuf,
    /// The address of `/healthz` and `/metrics`; none: they are not served.
    pub listen: Option<SocketAddr>,
    /// How devices and cores are numbered inside containers.
    pub container_numbering: Numbering,
    /// Whether `aws.amazon.com/neurondevice`, the old name of devices, is advertised too.
    pub legacy_resource: bool,
    /// A catalog file whose types are merged over the embedded ones.
    pub catalog: Option<PathBuf>,
    /// Which candidate sets may be given.
    pub policy: Policy,
    /// The instance type, in place of what DMI says.
    pub instance_type: Option<String>,
    /// Time between two looks at hardware, sockets and allocatable devices.
    pub poll: Duration,
    /// How long a question of kubelet waits for the end of a pod whose devices kubelet offers already.
    pub holder_timeout: Duration,
    /// What is done about processes of gone pods that have a device open which kubelet offers.
    pub handover: HandoverMode,
    /// How long an Allocate waits at most for such processes.
    pub handover_limit: Duration,
    /// The host's `/proc`, where such processes are seen.
    pub host_proc: PathBuf,
    /// Time between two writes of a node report that has not changed.
    pub report_interval: Duration,
    /// How long an answer to kubelet may wait for the API server.
    pub api_timeout: Duration,
    /// Shows an observer how much the plugin keeps; none where nobody observes it.
    pub probe: Option<Probe>,
}

impl Config {
    /// The defaults for a real node of this name.
    pub fn new(node_name: impl Into<String>) -> Self {
        Config {
            root: PathBuf::from("/"),
            node_name: node_name.into(),
            kubelet_dir: PathBuf::from("/var/lib/kubelet"),
            listen: None,
            container_numbering: Numbering::Host,
            legacy_resource: false,
            catalog: None,
            policy: Policy::default(),
            instance_type: None,
            poll: Duration::from_secs(5),
            holder_timeout: Duration::from_secs(5),
            handover: HandoverMode::default(),
            handover_limit: Duration::from_secs(5),
            host_proc: PathBuf::from("/host/proc"),
            report_interval: Duration::from_secs(60),
            api_timeout: Duration::from_secs(2),
            probe: None,
        }
    }

    /// The folder of kubelet's registration socket and of the plugins' sockets.
    pub fn plugin_dir(&self) -> PathBuf {
        self.kubelet_dir.join("device-plugins")
    }
}

/// How devices and cores are numbered inside a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbering {
    /// The host's numbers.
    #[default]
    Host,
    /// Counted from 0, in the order of the host's numbers.
    Renumbered,
}

impl fmt::Display for Numbering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Numbering::Host => "host",
            Numbering::Renumbered => "renumbered",
        })
    }
}

/// A text that names no numbering.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a container numbering; use host or renumbered")]
pub struct NumberingError(String);

impl FromStr for Numbering {
    type Err = NumberingError;

    fn from_str(text: &str) -> Result<Self, NumberingError> {
        match text {
            "host" => Ok(Numbering::Host),
            "renumbered" => Ok(Numbering::Renumbered),
            _ => Err(NumberingError(text.to_owned())),
        }
    }
}
