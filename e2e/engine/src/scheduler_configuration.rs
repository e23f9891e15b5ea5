//! kube-scheduler's configuration, `kubescheduler.config.k8s.io/v1`: what of it the suite sets. Read from
//! `deploy/my-scheduler.yml`, written for the schedulers of kind's clusters, of the embedded cluster and of the bench.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use fake_cluster::scheduler::{self, ExtenderConfig};
use jiff::SignedDuration;
use k8s_openapi::ByteString;
use serde::{Deserialize, Serialize};

const MY_SCHEDULER: &str = include_str!("../../../deploy/my-scheduler.yml");
/// Its ConfigMap's key with the configuration.
pub const CONFIG_KEY: &str = "my-scheduler-config.yaml";
/// A Lease for leaders that are killed every few seconds: how long it lasts, how long renewing it is tried, and the time between two
/// tries; durations as Go writes them.
pub const SHORT_LEASE: [&str; 3] = ["4s", "3s", "1s"];
/// How a scheduler in a static pod, or beside one, reaches the API server: kubeadm's file in the node.
const KUBECONFIG: &str = "/etc/kubernetes/scheduler.conf";

/// A `KubeSchedulerConfiguration`. A field that is not here is refused where one is read, so that none is lost.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SchedulerConfiguration {
    api_version: String,
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_connection: Option<ClientConnection>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    leader_election: Option<LeaderElection>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    profiles: Vec<Profile>,
    /// Asked in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extenders: Vec<ExtenderEntry>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ClientConnection {
    kubeconfig: String,
    /// Requests a second; kube-scheduler's own are 50, and 100 at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    qps: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    burst: Option<u32>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LeaderElection {
    leader_elect: bool,
    /// Durations as Go writes them, such as `15s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease_duration: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    renew_deadline: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_period: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resource_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resource_namespace: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Profile {
    scheduler_name: String,
}

/// An extender and how kube-scheduler calls it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExtenderEntry {
    /// The URL without the verb, such as `http://10.96.0.7:12345`.
    pub url_prefix: String,
    filter_verb: String,
    prioritize_verb: String,
    weight: i64,
    preempt_verb: String,
    bind_verb: String,
    #[serde(rename = "enableHTTPS")]
    enable_https: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tls_config: Option<TlsConfig>,
    /// Whether it is sent the nodes' names instead of whole nodes.
    pub node_cache_capable: bool,
    ignorable: bool,
    /// A duration as Go writes it: `5s`.
    http_timeout: String,
    managed_resources: Vec<ManagedResource>,
}

/// How it is known over HTTPS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TlsConfig {
    /// The authority's certificate, in PEM, in base64.
    ca_data: ByteString,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ManagedResource {
    name: String,
    ignored_by_scheduler: bool,
}

impl SchedulerConfiguration {
    /// my-scheduler's as `deploy/` has it, for HTTP.
    ///
    /// # Errors
    /// The manifest in `deploy/` has no such configuration; a test sees that it has.
    pub fn deployed() -> anyhow::Result<Self> {
        let documents: Vec<serde_json::Value> =
            serde_saphyr::from_multiple(MY_SCHEDULER).context("deploy/my-scheduler.yml")?;
        let text = documents.iter().find_map(|document| document["data"][CONFIG_KEY].as_str());
        let text = text.with_context(|| format!("deploy/my-scheduler.yml has no {CONFIG_KEY}"))?;
        serde_saphyr::from_str(text).with_context(|| format!("{CONFIG_KEY} of deploy/my-scheduler.yml"))
    }

    /// The default scheduler's, in its static pod.
    pub fn of_default(extenders: Vec<ExtenderEntry>) -> Self {
        Self {
            api_version: "kubescheduler.config.k8s.io/v1".to_owned(),
            kind: "KubeSchedulerConfiguration".to_owned(),
            client_connection: Some(ClientConnection {
                kubeconfig: KUBECONFIG.to_owned(),
                qps: None,
                burst: None,
            }),
            leader_election: None,
            profiles: Vec::new(),
            extenders,
        }
    }

    /// The bench's, for pods that name it: without election, and not held back before so many requests a second.
    pub fn of_bench(name: &str, qps: u32, extenders: Vec<ExtenderEntry>) -> Self {
        let connection =
            ClientConnection { kubeconfig: KUBECONFIG.to_owned(), qps: Some(qps), burst: Some(qps) };
        let election = LeaderElection::default();
        Self {
            client_connection: Some(connection),
            leader_election: Some(election),
            profiles: vec![Profile { scheduler_name: name.to_owned() }],
            ..Self::of_default(extenders)
        }
    }

    /// Its Lease lasts as [`SHORT_LEASE`] says.
    pub fn with_short_lease(self) -> Self {
        let [lease_duration, renew_deadline, retry_period] = SHORT_LEASE.map(|time| Some(time.to_owned()));
        let deployed = LeaderElection { leader_elect: true, ..self.leader_election.unwrap_or_default() };
        let election = LeaderElection { lease_duration, renew_deadline, retry_period, ..deployed };
        Self { leader_election: Some(election), ..self }
    }

    /// The configuration as the YAML file that kube-scheduler reads.
    ///
    /// # Errors
    /// It cannot be written as YAML.
    pub fn to_yaml(&self) -> anyhow::Result<String> {
        Ok(serde_saphyr::to_string(self)?)
    }
}

impl ExtenderEntry {
    /// Ours as `deploy/my-scheduler.yml` has it, at this URL without the verb.
    ///
    /// # Errors
    /// As [`SchedulerConfiguration::deployed`].
    pub fn deployed_at(url: &str) -> anyhow::Result<Self> {
        let deployed = SchedulerConfiguration::deployed()?.extenders.into_iter().next();
        let deployed = deployed.context("my-scheduler's configuration in deploy/ has no extender")?;
        Ok(Self { url_prefix: url.to_owned(), ..deployed })
    }

    /// Sent whole nodes.
    pub fn with_whole_nodes(self) -> Self {
        Self { node_cache_capable: false, ..self }
    }

    /// Asked over HTTPS, at a URL that says so, and known by a certificate of this authority, in PEM.
    pub fn over_https(self, authority: &str) -> Self {
        let ca_data = ByteString(authority.as_bytes().to_vec());
        Self { enable_https: true, tls_config: Some(TlsConfig { ca_data }), ..self }
    }

    /// The same for the scheduler of an embedded cluster, which speaks HTTP.
    ///
    /// # Errors
    /// It asks for HTTPS, or its time-out is no duration.
    pub fn for_fake_scheduler(self) -> anyhow::Result<ExtenderConfig> {
        ensure!(!self.enable_https, "the embedded cluster's scheduler speaks HTTP only");
        let timeout: SignedDuration = self.http_timeout.parse().context("httpTimeout of the extender")?;
        let managed = |resource: ManagedResource| scheduler::ManagedResource {
            name: resource.name,
            ignored_by_scheduler: resource.ignored_by_scheduler,
        };
        Ok(ExtenderConfig {
            filter_verb: Some(self.filter_verb),
            prioritize_verb: Some(self.prioritize_verb),
            preempt_verb: Some(self.preempt_verb),
            bind_verb: Some(self.bind_verb),
            weight: self.weight,
            node_cache_capable: self.node_cache_capable,
            managed_resources: self.managed_resources.into_iter().map(managed).collect(),
            ignorable: self.ignorable,
            http_timeout: Duration::try_from(timeout).context("httpTimeout of the extender")?,
            ..ExtenderConfig::new(self.url_prefix)
        })
    }
}

#[cfg(test)]
mod tests {
    use neuron_core::names::{NEURON, NEURONCORE, NEURONDEVICE};
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn my_scheduler_as_deployed_but_at_another_url() {
        let mut config = SchedulerConfiguration::deployed().unwrap();
        config.extenders[0].url_prefix = "http://172.18.0.1:40001".to_owned();
        insta::assert_snapshot!(config.to_yaml().unwrap());
    }

    const DEPLOY_MD: &str = include_str!("../../../docs/deploy.md");

    /// What `deploy/my-scheduler.yml` says of the extender, by the key of the configuration.
    fn deployed_extender(key: &str) -> Value {
        let documents: Vec<Value> = serde_saphyr::from_multiple(MY_SCHEDULER).unwrap();
        let text = documents.iter().find_map(|document| document["data"][key].as_str()).unwrap();
        let mut configuration: Value = serde_saphyr::from_str(text).unwrap();
        configuration["extenders"][0].take()
    }

    #[test]
    fn the_embedded_scheduler_asks_the_extender_as_the_deployed_one() {
        let deployed = deployed_extender(CONFIG_KEY);
        let entry = ExtenderEntry::deployed_at("http://10.0.0.1:12345").unwrap();
        let embedded = entry.for_fake_scheduler().unwrap();
        let managed = |resource: &scheduler::ManagedResource| json!({"name": resource.name, "ignoredByScheduler": resource.ignored_by_scheduler});
        let asks = json!({
            "urlPrefix": deployed["urlPrefix"],
            "filterVerb": embedded.filter_verb,
            "prioritizeVerb": embedded.prioritize_verb,
            "weight": embedded.weight,
            "preemptVerb": embedded.preempt_verb,
            "bindVerb": embedded.bind_verb,
            "enableHTTPS": false,
            "nodeCacheCapable": embedded.node_cache_capable,
            "ignorable": embedded.ignorable,
            "httpTimeout": format!("{}s", embedded.http_timeout.as_secs()),
            "managedResources": embedded.managed_resources.iter().map(managed).collect::<Vec<_>>(),
        });
        assert_eq!(asks, deployed);
        let names: Vec<&str> = embedded.managed_resources.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, [NEURON, NEURONCORE, NEURONDEVICE]);
    }

    #[test]
    fn over_https_the_extender_is_asked_the_same() {
        let mut https = deployed_extender("my-scheduler-config-https.yaml");
        let mut http = deployed_extender(CONFIG_KEY);
        for entry in [&mut https, &mut http] {
            let fields = entry.as_object_mut().unwrap();
            fields.retain(|key, _| !["urlPrefix", "enableHTTPS", "tlsConfig"].contains(&key.as_str()));
        }
        assert_eq!(https, http);
    }

    #[test]
    fn the_documented_default_scheduler_asks_the_extender_as_my_scheduler_does() {
        let [mut documented, mut deployed] = [documented_extender(), deployed_extender(CONFIG_KEY)];
        for entry in [&mut documented, &mut deployed] {
            entry["urlPrefix"].take();
        }
        assert_eq!(documented, deployed);
    }

    /// What `docs/deploy.md` has people write into the default scheduler's configuration.
    fn documented_extender() -> Value {
        let begins = "```yaml\napiVersion: kubescheduler.config.k8s.io/v1\n";
        let (_, after) = DEPLOY_MD.split_once(begins).unwrap();
        let (text, _) = after.split_once("```").unwrap();
        let mut configuration: Value = serde_saphyr::from_str(text).unwrap();
        configuration["extenders"][0].take()
    }

    #[test]
    fn the_default_scheduler_asks_the_extender_over_http_with_whole_nodes() {
        let extender = ExtenderEntry::deployed_at("http://10.96.0.7:12345").unwrap().with_whole_nodes();
        insta::assert_snapshot!(SchedulerConfiguration::of_default(vec![extender]).to_yaml().unwrap());
    }

    #[test]
    fn the_default_scheduler_without_extender() {
        insta::assert_snapshot!(SchedulerConfiguration::of_default(Vec::new()).to_yaml().unwrap());
    }

    #[test]
    fn the_bench_asks_under_a_name_of_its_own_and_is_not_held_back() {
        let extender = ExtenderEntry::deployed_at("http://172.18.0.1:40002").unwrap();
        let config = SchedulerConfiguration::of_bench("bench", 10_000, vec![extender]);
        insta::assert_snapshot!(config.to_yaml().unwrap());
    }
}
