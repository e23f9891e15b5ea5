//! The plugin's settings. Filled by `main` from the command line, and by whoever runs the plugin as a library.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use neuron_core::topology::Policy;

use crate::allocation::cross_resource::CrossResource;
use crate::allocation::injection::DeviceInjection;
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
    /// How device nodes come into a container.
    pub device_injection: DeviceInjection,
    /// The host's folder of Container Device Interface files, with [`DeviceInjection::Cdi`].
    pub cdi_dir: PathBuf,
    /// Whether `aws.amazon.com/neurondevice`, the old name of devices, is advertised too.
    pub legacy_resource: bool,
    /// A catalog file whose types are merged over the embedded ones.
    pub catalog: Option<PathBuf>,
    /// Which candidate sets may be given.
    pub policy: Policy,
    /// What kubelet is told of hardware that is held under another name.
    pub cross_resource: CrossResource,
    /// The instance type, in place of what DMI says.
    pub instance_type: Option<String>,
    /// Time between two looks at sockets and allocatable devices.
    pub poll: Duration,
    /// Time between two looks at one device's health.
    pub health_interval: Duration,
    /// What counts as a device's health.
    pub health: HealthOptions,
    /// How long the devices of a type that is in no catalog must not have changed before the machine is offered.
    pub settle: Duration,
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
    /// How long the API server or kubelet's checkpoint may be away before `/healthz` says so.
    pub absence_limit: Duration,
    /// Namespace of the Lease by which this plugin says that it lives; none: it keeps no Lease.
    pub lease_namespace: Option<String>,
    /// Time between two renewals of it; it expires after four times as long.
    pub lease_renewal: Duration,
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
            device_injection: DeviceInjection::default(),
            cdi_dir: PathBuf::from("/var/run/cdi"),
            legacy_resource: false,
            catalog: None,
            policy: Policy::default(),
            cross_resource: CrossResource::default(),
            instance_type: None,
            poll: Duration::from_secs(5),
            health_interval: Duration::from_millis(500),
            health: HealthOptions::default(),
            settle: Duration::from_secs(10),
            holder_timeout: Duration::from_secs(5),
            handover: HandoverMode::default(),
            handover_limit: Duration::from_secs(5),
            host_proc: PathBuf::from("/host/proc"),
            report_interval: Duration::from_secs(60),
            absence_limit: Duration::from_secs(300),
            lease_namespace: Some("kube-system".to_owned()),
            lease_renewal: Duration::from_secs(10),
            api_timeout: Duration::from_secs(2),
            probe: None,
        }
    }

    /// The folder of kubelet's registration socket and of the plugins' sockets.
    pub fn plugin_dir(&self) -> PathBuf {
        self.kubelet_dir.join("device-plugins")
    }
}

/// What counts as a device's health.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthOptions {
    /// What is passed over, by the driver's names: parts in `unhealthy_components` such as `link_efa`, counters such as
    /// `mem_ecc_repairable_uncorrected`, and `reset`.
    pub ignored: BTreeSet<String>,
    /// What becomes of a device of whose health something cannot be read.
    pub unknown: UnknownHealth,
}

/// What becomes of a device whose health is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownHealth {
    /// It is served, and the node report says that its health is not known.
    #[default]
    Serve,
    /// It counts as unhealthy.
    Refuse,
}

impl fmt::Display for UnknownHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UnknownHealth::Serve => "serve",
            UnknownHealth::Refuse => "refuse",
        })
    }
}

/// A text that is neither `serve` nor `refuse`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not what can become of devices of unknown health; use serve or refuse")]
pub struct UnknownHealthError(String);

impl FromStr for UnknownHealth {
    type Err = UnknownHealthError;

    fn from_str(text: &str) -> Result<Self, UnknownHealthError> {
        match text {
            "serve" => Ok(UnknownHealth::Serve),
            "refuse" => Ok(UnknownHealth::Refuse),
            _ => Err(UnknownHealthError(text.to_owned())),
        }
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
