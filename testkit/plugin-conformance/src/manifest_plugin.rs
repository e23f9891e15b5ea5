//! A plugin of which nothing is known but its manifests: the DaemonSet in them, a container that prints all it can see of its
//! devices, and commands in the node for their health. Called by the command line.

use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::apps::v1::DaemonSet;
use kind_driver::Cluster;
use serde_json::{Value, json};

use crate::daemon_set_plugin::DaemonSetPlugin;
use crate::plugin::{Description, Devices, Injection, Plugin, Preparation, Report};

/// The last line of what a container prints.
const END: &str = "-- that is all";

/// A plugin as its manifests have it.
#[derive(Clone, Debug)]
pub struct ManifestPlugin {
    /// What is applied: a DaemonSet and what it needs.
    pub manifests: String,
    /// The extended resource: one is one device.
    pub resource: String,
    /// How many devices it advertises on each node.
    pub count: u64,
    /// Image of the cases' containers: one with `sh`, `env`, `sort`, `ls` and `sleep`.
    pub container_image: String,
    /// What makes a device unhealthy, for `sh` in the node: `{index}` is its place, from 0. Both or none.
    pub unhealthy_command: Option<String>,
    /// What makes it healthy again.
    pub healthy_command: Option<String>,
    /// How long the node may be without devices while one of two plugins takes over; none where there must not be two.
    pub takes_over_within: Option<Duration>,
}

impl ManifestPlugin {
    /// Applies the manifests on the cluster.
    ///
    /// # Errors
    /// They have no DaemonSet, or several; kubectl does not take them.
    pub async fn install(self, cluster: &Cluster) -> anyhow::Result<InstalledPlugin<'_>> {
        let found = DaemonSetName::of(cluster, &self.manifests).await?;
        let description = Description {
            namespace: found.namespace,
            pods: found.pods,
            resource: self.resource.clone(),
            with_each_device: Vec::new(),
            scheduler: None,
            injection: Injection::DeviceNodes,
            sets_health: self.unhealthy_command.is_some(),
            reports_ids: false,
            takes_over_within: self.takes_over_within,
        };
        let image = self.container_image.clone();
        let plugin = DaemonSetPlugin::install(
            cluster,
            &self.manifests,
            &found.name,
            description,
            self.count,
            move |ends_after| container(&image, ends_after),
            report,
        );
        let plugin = plugin.await?;
        Ok(InstalledPlugin { cluster, plugin, manifest: self })
    }
}

/// Where the DaemonSet of manifests is, and its pods.
#[derive(Debug, PartialEq, Eq)]
struct DaemonSetName {
    namespace: String,
    name: String,
    pods: String,
}

impl DaemonSetName {
    /// The one in the manifests, which kubectl reads.
    async fn of(cluster: &Cluster, manifests: &str) -> anyhow::Result<Self> {
        let arguments = ["create", "--dry-run=client", "-o", "json", "-f", "-"];
        let read = cluster.kubectl(&arguments, manifests).await.context("reading the plugin's manifests")?;
        // One document after another, or a list of them.
        let documents = serde_json::Deserializer::from_str(&read).into_iter::<Value>();
        let documents: Vec<Value> = documents.collect::<Result<_, _>>().context("kubectl's JSON")?;
        Self::among(documents)
    }

    fn among(documents: Vec<Value>) -> anyhow::Result<Self> {
        let objects = documents.into_iter().flat_map(|document| match document["items"].as_array() {
            Some(items) => items.clone(),
            None => vec![document],
        });
        let mut sets: Vec<Value> = objects.filter(|object| object["kind"] == "DaemonSet").collect();
        let (Some(found), true) = (sets.pop(), sets.is_empty()) else {
            bail!("the manifests are to have one DaemonSet, which runs the plugin");
        };
        let set: DaemonSet = serde_json::from_value(found).context("the manifests' DaemonSet")?;
        let selector = set.spec.and_then(|spec| spec.selector.match_labels).unwrap_or_default();
        let pods: Vec<String> = selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
        Ok(Self {
            namespace: set.metadata.namespace.unwrap_or_else(|| "default".to_owned()),
            name: set.metadata.name.context("the manifests' DaemonSet has no name")?,
            pods: pods.join(","),
        })
    }
}

/// A container that prints its variables and device nodes.
fn container(image: &str, ends_after: Option<Duration>) -> Value {
    let end = match ends_after {
        Some(time) => format!("sleep {}", time.as_secs()),
        None => "while :; do sleep 3600; done".to_owned(),
    };
    // What differs from pod to pod without a device is left out.
    let shown = "env | grep -v -e ^HOSTNAME= -e ^KUBERNETES_ -e _SERVICE_ -e _PORT | sort; ls -R /dev | sort";
    let script = format!("trap 'exit 0' TERM; {shown}; echo '{END}'; {end} & wait");
    json!({"image": image, "command": ["sh", "-c", script]})
}

fn report(log: &str) -> Option<Report> {
    let (text, _) = log.split_once(END)?;
    Some(Report { ids: Vec::new(), text: text.to_owned() })
}

/// The plugin on a cluster.
pub struct InstalledPlugin<'c> {
    cluster: &'c Cluster,
    plugin: DaemonSetPlugin<'c>,
    manifest: ManifestPlugin,
}

impl Plugin for InstalledPlugin<'_> {
    fn description(&self) -> &Description {
        self.plugin.description()
    }

    fn container(&self, ends_after: Option<Duration>) -> Value {
        self.plugin.container(ends_after)
    }

    fn report(&self, log: &str) -> Option<Report> {
        self.plugin.report(log)
    }

    fn prepare<'a>(&'a self, node: &'a str, devices: Devices) -> BoxFuture<'a, anyhow::Result<Preparation>> {
        async move {
            if self.manifest.healthy_command.is_some() {
                // A case that failed may have left some unhealthy.
                for device in 0..self.manifest.count {
                    self.set_health(node, device, true).await?;
                }
            }
            self.plugin.prepare(node, devices).await
        }
        .boxed()
    }

    fn stop<'a>(&'a self, node: &'a str) -> BoxFuture<'a, anyhow::Result<()>> {
        self.plugin.stop(node)
    }

    fn keep_away<'a>(&'a self, node: &'a str) -> BoxFuture<'a, anyhow::Result<()>> {
        self.plugin.keep_away(node)
    }

    fn start<'a>(&'a self, node: &'a str) -> BoxFuture<'a, anyhow::Result<()>> {
        self.plugin.start(node)
    }

    fn set_health<'a>(
        &'a self,
        node: &'a str,
        device: u64,
        healthy: bool,
    ) -> BoxFuture<'a, anyhow::Result<()>> {
        async move {
            let ManifestPlugin { healthy_command, unhealthy_command, .. } = &self.manifest;
            let command = if healthy { healthy_command } else { unhealthy_command };
            let command = command.as_ref().context("nothing is known that changes a device's health")?;
            self.cluster.exec(node, &command.replace("{index}", &device.to_string())).await?;
            Ok(())
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn daemon_set(name: &str) -> Value {
        let template = json!({"spec": {"containers": []}});
        json!({
            "kind": "DaemonSet", "apiVersion": "apps/v1", "metadata": {"name": name, "namespace": "kube-system"},
            "spec": {"selector": {"matchLabels": {"app": name, "tier": "node"}}, "template": template},
        })
    }

    #[test]
    fn the_one_daemon_set_is_found_in_lists_and_documents() {
        let found = DaemonSetName {
            namespace: "kube-system".to_owned(),
            name: "toy".to_owned(),
            pods: "app=toy,tier=node".to_owned(),
        };
        let list = json!({"kind": "List", "items": [{"kind": "ServiceAccount"}, daemon_set("toy")]});
        assert_eq!(DaemonSetName::among(vec![list]).unwrap(), found);
        assert_eq!(DaemonSetName::among(vec![json!({"kind": "Role"}), daemon_set("toy")]).unwrap(), found);
        for wrong in [vec![], vec![daemon_set("a"), daemon_set("b")]] {
            let why = DaemonSetName::among(wrong).unwrap_err().to_string();
            assert_eq!(why, "the manifests are to have one DaemonSet, which runs the plugin");
        }
    }

    #[test]
    fn a_report_is_there_once_all_of_it_is() {
        assert_eq!(report("TOYS=a\n/dev:\nnull\n"), None);
        let report = report(&format!("TOYS=a\n/dev:\nnull\n{END}\n")).unwrap();
        assert_eq!(report.text, "TOYS=a\n/dev:\nnull\n");
    }
}
