//! What can be set about the extender, by a caller of [`crate::serve`] or on the command line.

mod contradictions;
mod file;
mod settings;

use std::net::{Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Parser, ValueEnum};
use neuron_core::catalog::{Catalog, CatalogError};
use neuron_core::topology::Policy;
use runtime::System;

pub use self::settings::{EffectiveConfiguration, Settings};
use crate::leadership::LeaderElection;
use crate::probe::Probe;
use crate::server::tls::TlsFiles;

/// Where the manifests put the device plugin.
const PLUGIN_NAMESPACE: &str = "kube-system";
/// The Lease of the extenders, named as the manifests name them.
const LEADER_LEASE: &str = "k8s-neuron-scheduler";
/// Two renewals of a plugin: this long an update of it, or a busy API server, may take.
const LEASE_GRACE: Duration = Duration::from_secs(20);
/// How long after a call was cut off the API server may still carry it out: its own request timeout. What a Binding says of its time itself
/// begins when the API server reads it, which may be late.
const BINDING_TIMEOUT: Duration = Duration::from_secs(60);

/// How the extender behaves.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which sets of devices may be given.
    pub policy: Policy,
    /// A file of instance types, merged over those in the program.
    pub catalog: Option<PathBuf>,
    /// Longest time for one bind, API calls and their repetitions included. Best below kube-scheduler's
    /// `httpTimeout`, which is 5 s unless set.
    pub bind_deadline: Duration,
    /// How long after a call was cut off its Binding may still be carried out, if the API server reads it late: its own request timeout. The
    /// pod's devices stay reserved as long, unless the watch shows before what became of it.
    pub binding_timeout: Duration,
    /// How long a pod's record, its node's report and kubelet's choice may disagree before an event says so: they do for a
    /// moment whenever kubelet chose otherwise than recorded.
    pub event_delay: Duration,
    /// The namespace of the device plugins, where each renews its Lease.
    pub plugin_namespace: String,
    /// How long after the end of its plugin's Lease a node still takes new pods; none: Leases are not looked at.
    pub lease_grace: Option<Duration>,
    /// How replicas elect the one that places pods; none: this one places alone, and must be the only one.
    pub leader_election: Option<LeaderElection>,
    /// The files of HTTPS; without them HTTP is served.
    pub tls: Option<TlsFiles>,
    /// Looks into the running extender, for who judges its memory.
    pub probe: Option<Probe>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            catalog: None,
            bind_deadline: Duration::from_secs(4),
            binding_timeout: BINDING_TIMEOUT,
            event_delay: Duration::from_secs(10),
            plugin_namespace: PLUGIN_NAMESPACE.to_owned(),
            lease_grace: Some(LEASE_GRACE),
            leader_election: None,
            tls: None,
            probe: None,
        }
    }
}

/// The form of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// An object for each line, for those who collect logs.
    Json,
    /// Text, and beside it the lines that AWS' documentation shows of its scheduler extension.
    Classic,
}

/// The command line of `neuron-extender`.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "neuron-extender",
    version,
    about = "Scheduler extender: places pods on linked Neuron devices."
)]
pub struct Arguments {
    /// YAML or JSON file of flags by their long names; the command line and the environment go before it
    #[arg(long = "config", env = "NEURON_CONFIG", value_name = "FILE")]
    pub config_file: Option<PathBuf>,
    /// Address and port to listen on; every address, of IPv4 and IPv6, and the port below if not given
    #[arg(long, env = "NEURON_LISTEN", value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// Port to listen on if no address is given
    #[arg(long, env = "PORT", default_value_t = 12345, value_name = "PORT")]
    pub port: u16,
    /// Form of the log; classic is text with the lines of AWS' scheduler extension
    #[arg(long, env = "NEURON_LOG_FORMAT", value_enum, default_value_t, value_name = "FORMAT")]
    pub log_format: LogFormat,
    /// Kubeconfig file; without it KUBECONFIG, ~/.kube/config or the pod's service account
    #[arg(long, env = "NEURON_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Which device sets may be given: documented (by AWS) or linked (any linked set the runtime supports)
    #[arg(long, env = "NEURON_POLICY", default_value_t = Policy::Documented, value_name = "POLICY")]
    pub policy: Policy,
    /// File of instance types, merged over those in the program
    #[arg(long, env = "NEURON_CATALOG", value_name = "FILE")]
    pub catalog: Option<PathBuf>,
    /// Longest time for one bind, such as 4s or 500ms; keep it below kube-scheduler's httpTimeout
    #[arg(long, env = "NEURON_BIND_DEADLINE", default_value = "4s", value_parser = bind_deadline, value_name = "DURATION")]
    pub bind_deadline: Duration,
    /// Namespace of the device plugins, where each renews its Lease
    #[arg(
        long,
        env = "NEURON_PLUGIN_NAMESPACE",
        default_value = PLUGIN_NAMESPACE,
        value_parser = NonEmptyStringValueParser::new(),
        value_name = "NAMESPACE"
    )]
    pub plugin_namespace: String,
    /// How long after the end of its plugin's Lease a node still takes new pods, such as 20s; off: Leases are not looked at
    #[arg(long, env = "NEURON_LEASE_GRACE", default_value = "20s", value_parser = grace, value_name = "DURATION|off")]
    pub lease_grace: Grace,
    /// Elect a leader among several replicas by a Lease; without it this must be the only one
    #[arg(
        long,
        env = "NEURON_LEADER_ELECT",
        action = clap::ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = false,
        default_missing_value = "true",
        value_name = "true|false"
    )]
    pub leader_elect: bool,
    /// How long the leader's Lease lasts, whole seconds; so long no pod is placed where a leader has died
    #[arg(long, env = "NEURON_LEADER_ELECT_LEASE_DURATION", default_value = "15s", value_parser = seconds, value_name = "DURATION")]
    pub leader_elect_lease_duration: Duration,
    /// Name of the leader's Lease, which is in the namespace of the pod
    #[arg(
        long,
        env = "NEURON_LEADER_ELECT_RESOURCE_NAME",
        default_value = LEADER_LEASE,
        value_parser = NonEmptyStringValueParser::new(),
        value_name = "NAME"
    )]
    pub leader_elect_resource_name: String,
    /// Name of the pod that this runs in, which gets the leader's label
    #[arg(long, env = "POD_NAME", value_parser = NonEmptyStringValueParser::new(), value_name = "NAME")]
    pub pod_name: Option<String>,
    /// Namespace of the pod that this runs in
    #[arg(long, env = "POD_NAMESPACE", value_parser = NonEmptyStringValueParser::new(), value_name = "NAMESPACE")]
    pub pod_namespace: Option<String>,
    /// Certificate of the server for HTTPS, PEM, with its chain; followed when it changes
    #[arg(long, env = "TLS_CERT", requires = "tls_key", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate, PEM
    #[arg(long, env = "TLS_KEY", requires = "tls_cert", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// CAs whose client certificates may call the verbs, PEM; use one of the scheduler's own, for every
    /// certificate from it may schedule. /healthz and /readyz need none
    #[arg(long, env = "CLIENT_CA", requires = "tls_cert", value_name = "FILE")]
    pub client_ca: Option<PathBuf>,
}

impl Arguments {
    /// The address to listen on.
    pub fn address(&self) -> SocketAddr {
        self.listen.unwrap_or_else(|| SocketAddr::from((Ipv6Addr::UNSPECIFIED, self.port)))
    }

    /// How the extender behaves.
    pub fn config(&self) -> Config {
        Config {
            policy: self.policy,
            catalog: self.catalog.clone(),
            bind_deadline: self.bind_deadline,
            plugin_namespace: self.plugin_namespace.clone(),
            lease_grace: self.lease_grace.0,
            leader_election: self.leader_election(),
            tls: self.tls_files(),
            ..Config::default()
        }
    }

    fn leader_election(&self) -> Option<LeaderElection> {
        let (pod, namespace) = (self.pod_name.clone()?, self.pod_namespace.clone()?);
        self.leader_elect.then(|| LeaderElection {
            namespace,
            lease: self.leader_elect_resource_name.clone(),
            lease_duration: self.leader_elect_lease_duration,
            pod,
            labels_pod: true,
        })
    }

    fn tls_files(&self) -> Option<TlsFiles> {
        let (certificate, key) = (self.tls_cert.clone()?, self.tls_key.clone()?);
        Some(TlsFiles { certificate, key, client_ca: self.client_ca.clone() })
    }
}

/// Why the catalog file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CatalogFileError {
    /// The file is not there or cannot be read.
    #[error("the catalog file {path} cannot be read: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    /// The file is not a catalog.
    #[error("the catalog file {path} cannot be used: {source}")]
    Content { path: PathBuf, source: CatalogError },
}

/// The catalog in the program, with the file merged over it if there is one.
pub(crate) async fn catalog(system: &System, file: Option<&Path>) -> Result<Catalog, CatalogFileError> {
    let Some(path) = file else { return Ok(Catalog::embedded().clone()) };
    let read = |source| CatalogFileError::Read { path: path.to_owned(), source };
    let text = system.read_to_string(path).await.map_err(read)?;
    Catalog::from_json(&text).map_err(|source| CatalogFileError::Content { path: path.to_owned(), source })
}

/// A time, or none where it says `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace(pub Option<Duration>);

fn grace(text: &str) -> Result<Grace, String> {
    if text == "off" {
        return Ok(Grace(None));
    }
    duration(text).map(|grace| Grace(Some(grace))).map_err(|error| format!("{error}, or off"))
}

/// A bind that lasts as long as its Binding may still be carried out would outlive its own reservation.
fn bind_deadline(text: &str) -> Result<Duration, String> {
    let deadline = duration(text)?;
    if deadline < BINDING_TIMEOUT {
        return Ok(deadline);
    }
    Err(format!(
        "too long: devices of a bind whose outcome is not known are kept for {BINDING_TIMEOUT:?}; give less, best below \
         kube-scheduler's httpTimeout, which is 5s unless set"
    ))
}

fn seconds(text: &str) -> Result<Duration, String> {
    // A Lease counts whole seconds.
    let whole = |time: &Duration| time.subsec_nanos() == 0;
    duration(text)
        .ok()
        .filter(whole)
        .ok_or_else(|| "not whole seconds above zero; write it like 15s".to_owned())
}

fn duration(text: &str) -> Result<Duration, String> {
    let parsed: Option<jiff::SignedDuration> = text.parse().ok();
    let positive = parsed.and_then(|parsed| Duration::try_from(parsed).ok()).filter(|time| !time.is_zero());
    positive.ok_or_else(|| "not a time above zero; write it like 4s or 500ms".to_owned())
}
