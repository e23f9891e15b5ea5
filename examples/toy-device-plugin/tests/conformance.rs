//! Kubernetes' own node e2e cases for device plugins, with this plugin on a kind cluster. Needs Docker, kind, kubectl and the
//! image `toy-device-plugin` (README.md); without them it says why it is skipped, or fails where REQUIRE_KIND is set.

use std::time::Duration;

use anyhow::bail;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kind_driver::doctor::{self, Needs};
use kind_driver::{Cluster, Options, Owner, images, unless_ended};
use plugin_conformance::results::{CaseResult, summary, table};
use plugin_conformance::{
    CASES, DaemonSetPlugin, Description, Devices, FEATURE_GATES, Injection, Plugin, Preparation, Report,
};
use serde_json::{Value, json};
use toy_device_plugin::IDS;

const IMAGE: &str = "toy-device-plugin";
const MANIFESTS: &str = include_str!("../daemonset.yml");
/// MiB that a cluster with one worker uses.
const MEMORY: u64 = 2048;

#[tokio::test]
async fn kubernetes_own_cases_pass() -> anyhow::Result<()> {
    let node_image = std::env::var("NODE_IMAGE").ok();
    if let Some(why) = missing(node_image.as_deref()).await {
        if std::env::var_os("REQUIRE_KIND").is_some() {
            bail!("{why}");
        }
        println!("skipped: {why}");
        return Ok(());
    }
    let feature_gates = FEATURE_GATES.map(str::to_owned).to_vec();
    let options = Options { workers: 1, node_image, feature_gates, ..Options::new("toy-device-plugin") };
    let rows = unless_ended(async {
        let cluster = Cluster::up(Owner::new("toy-device-plugin"), &options).await?;
        let archive = tempfile::NamedTempFile::new()?;
        images::pack(&[IMAGE], archive.path()).await?;
        images::load(cluster.name(), archive.path()).await?;
        let toy = Toy::install(&cluster).await?;
        let cases: Vec<_> = CASES.iter().collect();
        plugin_conformance::run(&cluster, &toy, &cases, false, |row| {
            println!("{:14} {:6.2} s  {}: {}", row.word(), row.seconds, row.case, row.seen);
        })
        .await
    })
    .await?;
    println!("{}\n{}", table(&rows), summary(&rows));
    assert!(rows.iter().all(|row| row.result != CaseResult::Failed), "{}", summary(&rows));
    assert!(rows.iter().any(|row| row.result == CaseResult::Passed), "{}", summary(&rows));
    Ok(())
}

/// What keeps the cases from being carried out here; none if nothing does.
async fn missing(node_image: Option<&str>) -> Option<String> {
    let needs = Needs {
        node_image,
        node_image_setting: "NODE_IMAGE",
        clusters: 1,
        memory: MEMORY,
        memory_remedy: None,
    };
    let missing = doctor::missing(&doctor::look(needs).await);
    if missing.is_some() || images::is_there(IMAGE).await {
        return missing;
    }
    Some(format!("Docker has no image {IMAGE}; README.md says how it is built"))
}

/// The plugin on a cluster: as any that a DaemonSet runs, and its devices can be made unhealthy.
struct Toy<'c> {
    cluster: &'c Cluster,
    plugin: DaemonSetPlugin<'c>,
}

impl<'c> Toy<'c> {
    async fn install(cluster: &'c Cluster) -> anyhow::Result<Self> {
        let description = Description {
            namespace: "kube-system".to_owned(),
            pods: "app=toy-device-plugin".to_owned(),
            resource: "example.com/pair".to_owned(),
            with_each_device: Vec::new(),
            scheduler: None,
            injection: Injection::DeviceNodes,
            sets_health: true,
            reports_ids: true,
            // The newer would remove the older one's socket.
            takes_over_within: None,
        };
        let devices = IDS.len() as u64;
        let plugin = DaemonSetPlugin::install(
            cluster,
            MANIFESTS,
            "toy-device-plugin",
            description,
            devices,
            container,
            report,
        );
        Ok(Self { cluster, plugin: plugin.await? })
    }
}

/// The program's own `show` prints its devices' ids.
fn container(ends_after: Option<Duration>) -> Value {
    let mut arguments = vec!["show".to_owned()];
    arguments.extend(ends_after.map(|time| format!("--for={}", time.as_secs())));
    json!({"image": IMAGE, "imagePullPolicy": "IfNotPresent", "args": arguments})
}

fn report(log: &str) -> Option<Report> {
    let text = log.lines().next()?.to_owned();
    Some(Report { ids: text.split(',').map(str::to_owned).collect(), text })
}

impl Plugin for Toy<'_> {
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
            // A case that failed may have left some unhealthy.
            self.cluster.exec(node, "rm -f /var/lib/toy-device-plugin/*").await?;
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
            let Some(id) = IDS.get(device as usize) else { bail!("there is no device {device}") };
            let change = if healthy { "rm -f" } else { "touch" };
            self.cluster.exec(node, &format!("{change} /var/lib/toy-device-plugin/{id}")).await?;
            Ok(())
        }
        .boxed()
    }
}
