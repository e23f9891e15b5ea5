//! What the plugin is told: where it looks, whom it serves, how it numbers. Filled by `main` and by tests.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use neuron_core::topology::Policy;

/// Everything that can be set. Start from [`Config::new`] and change fields.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where `/dev`, `/sys` and `/opt` stand; `/` on a real node.
    pub root: PathBuf,
    /// The node this runs on, as the API server calls it.
    pub node_name: String,
    /// kubelet's folder; `device-plugins/` and `pod-resources/` are in it.
    pub kubelet_dir: PathBuf,
    /// Where `/healthz` is served; nowhere if absent.
    pub listen: Option<SocketAddr>,
    /// How devices and cores are numbered inside containers.
    pub container_numbering: Numbering,
    /// Whether `aws.amazon.com/neurondevice`, the old name of devices, is offered too.
    pub legacy_resource: bool,
    /// A catalog file whose types are merged over the embedded ones.
    pub catalog: Option<PathBuf>,
    /// Which sets of devices may be preferred.
    pub policy: Policy,
    /// The instance type, if the machine's own word for it is not to be believed.
    pub instance_type: Option<String>,
    /// How often hardware and sockets are looked at.
    pub poll: Duration,
    /// How long kubelet must have asked for nothing before it is asked for its books: a podresources `List` while
    /// an allocation is open makes it forget that allocation (docs/reference/kubernetes.md §6).
    pub quiet: Duration,
    /// How often the node report is written though nothing in it has changed.
    pub report_again: Duration,
    /// How long an answer to kubelet may wait for the API server.
    pub api_deadline: Duration,
}

impl Config {
    /// The defaults of a real node called `node_name`.
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
            quiet: Duration::from_secs(1),
            report_again: Duration::from_secs(60),
            api_deadline: Duration::from_secs(2),
        }
    }

    /// Where kubelet and plugins meet.
    pub fn plugin_dir(&self) -> PathBuf {
        self.kubelet_dir.join("device-plugins")
    }
}

/// How devices and cores are numbered inside a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbering {
    /// As on the host.
    #[default]
    Host,
    /// From 0, in the order of the host's numbers.
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

/// A text that is no numbering.
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
