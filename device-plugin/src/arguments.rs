//! The command line. Read by `main`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use neuron_core::topology::Policy;
use runtime::LogFormat;

use crate::handover::mode::LONGEST_WAIT;
use crate::{Config, CrossResource, DeviceInjection, HandoverMode, HealthOptions, Numbering, UnknownHealth};

/// Advertises a node's AWS Neuron devices to kubelet.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Arguments {
    /// Folder that holds the machine's /dev, /sys and /opt.
    #[arg(long, env = "NEURON_ROOT", default_value = "/")]
    root: PathBuf,
    /// The node's name at the API server.
    #[arg(long, env = "NODE_NAME")]
    node_name: String,
    /// kubelet's folder.
    #[arg(long, env = "NEURON_KUBELET_DIR", default_value = "/var/lib/kubelet")]
    kubelet_dir: PathBuf,
    /// Address for /healthz and /metrics, such as 127.0.0.1:8080; not served without it.
    #[arg(long, env = "NEURON_LISTEN")]
    listen: Option<SocketAddr>,
    /// How devices and cores are numbered inside containers: host or renumbered (from 0).
    #[arg(long, env = "NEURON_CONTAINER_NUMBERING", default_value_t)]
    container_numbering: Numbering,
    /// How device nodes come into a container: device-specs (their paths) or cdi (names that the container runtime looks up; needs
    /// containerd 1.7 with enable_cdi, or 2.0).
    #[arg(long, env = "NEURON_DEVICE_INJECTION", default_value_t)]
    device_injection: DeviceInjection,
    /// The host's folder of Container Device Interface files, for --device-injection=cdi.
    #[arg(long, env = "NEURON_CDI_DIR", default_value = "/var/run/cdi")]
    cdi_dir: PathBuf,
    /// Advertise aws.amazon.com/neurondevice too, the old name of devices.
    #[arg(long, env = "NEURON_LEGACY_RESOURCE")]
    legacy_resource: bool,
    /// File of instance types, merged over those in the program.
    #[arg(long, env = "NEURON_CATALOG")]
    catalog: Option<PathBuf>,
    /// Which sets of devices and cores may be given: documented or linked; as the extender's.
    #[arg(long, env = "NEURON_POLICY", default_value_t)]
    policy: Policy,
    /// What kubelet is told of ids whose hardware is held under another name: refuse (nothing; they are refused) or withdraw (they are
    /// unhealthy, so that kube-scheduler does not count them: for clusters without the extender).
    #[arg(long, env = "NEURON_CROSS_RESOURCE", default_value_t)]
    cross_resource: CrossResource,
    /// What to do about a process of a pod that is gone or has ended and still has a device open which kubelet gives to another
    /// pod: wait until it is closed, mark it by an event, or off. Needs the host's /proc, CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH.
    #[arg(long, env = "NEURON_HANDOVER", default_value_t)]
    handover: HandoverMode,
    /// Seconds that one Allocate waits for such processes before it is refused. kubelet does nothing else meanwhile.
    #[arg(long, env = "NEURON_HANDOVER_LIMIT", default_value = "5", value_parser = clap::value_parser!(u64).range(..=LONGEST_WAIT))]
    handover_limit: u64,
    /// Folder that shows the host's processes.
    #[arg(long, env = "NEURON_HOST_PROC", default_value = "/host/proc")]
    host_proc: PathBuf,
    /// The instance type, in place of what DMI says.
    #[arg(long, env = "NEURON_INSTANCE_TYPE")]
    instance_type: Option<String>,
    /// Seconds between two looks at sockets and allocatable devices.
    #[arg(long, env = "NEURON_POLL_SECONDS", default_value = "5", value_parser = clap::value_parser!(u64).range(1..=3600))]
    poll_seconds: u64,
    /// Devices of whose health something cannot be read: serve or refuse.
    #[arg(long, env = "NEURON_UNKNOWN_HEALTH", default_value_t)]
    unknown_health: UnknownHealth,
    /// What makes no device unhealthy, by the driver's names: parts in unhealthy_components such as link_efa, counters such as
    /// mem_ecc_repairable_uncorrected, reset.
    #[arg(long, env = "NEURON_HEALTH_IGNORE", value_name = "COMPONENT", value_delimiter = ',')]
    health_ignore: Vec<String>,
    /// Seconds for which the devices of an instance type that is in no catalog must not have changed before they are offered.
    #[arg(long, env = "NEURON_SETTLE_SECONDS", default_value = "10", value_parser = clap::value_parser!(u64).range(0..=3600))]
    settle_seconds: u64,
    /// Seconds for which the API server or kubelet's checkpoint may be away before /healthz says so.
    #[arg(long, env = "NEURON_ABSENCE_LIMIT_SECONDS", default_value = "300", value_parser = clap::value_parser!(u64).range(1..=86400))]
    absence_limit_seconds: u64,
    /// Namespace of the Lease neuron-device-plugin-NODE, by which this plugin says that it lives; no Lease if empty.
    #[arg(long, env = "NEURON_LEASE_NAMESPACE", default_value = "kube-system")]
    lease_namespace: String,
    /// Form of the log: text or json.
    #[arg(long, env = "NEURON_LOG_FORMAT", default_value_t)]
    pub log_format: LogFormat,
    /// Kubeconfig file; without it KUBECONFIG, ~/.kube/config or the pod's service account.
    #[arg(long, env = "NEURON_KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,
}

impl Arguments {
    /// What they say.
    pub fn config(self) -> Config {
        Config {
            root: self.root,
            kubelet_dir: self.kubelet_dir,
            listen: self.listen,
            container_numbering: self.container_numbering,
            device_injection: self.device_injection,
            cdi_dir: self.cdi_dir,
            legacy_resource: self.legacy_resource,
            catalog: self.catalog,
            policy: self.policy,
            cross_resource: self.cross_resource,
            instance_type: self.instance_type,
            handover: self.handover,
            handover_limit: Duration::from_secs(self.handover_limit),
            host_proc: self.host_proc,
            poll: Duration::from_secs(self.poll_seconds),
            health: HealthOptions {
                ignored: self.health_ignore.into_iter().filter(|name| !name.is_empty()).collect(),
                unknown: self.unknown_health,
            },
            settle: Duration::from_secs(self.settle_seconds),
            absence_limit: Duration::from_secs(self.absence_limit_seconds),
            lease_namespace: Some(self.lease_namespace).filter(|namespace| !namespace.is_empty()),
            ..Config::new(self.node_name)
        }
    }
}
