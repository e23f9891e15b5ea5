//! What a device plugin is held to: Kubernetes' own node e2e cases (`test/e2e_node` of Kubernetes 1.34 and 1.37), each by its name
//! in Kubernetes' words, its steps written anew for what a harness outside the node can do; and what kubelet does besides. For
//! any device plugin, on a node in this process, with kubelet's sockets in a temporary folder, or on a cluster of kind.
//!
//! # A plugin that is a command
//! ```no_run
//! use plugin_conformance::{CASES, EmbeddedNode, EmbeddedPlugin, results, run_embedded};
//!
//! # async fn test() -> anyhow::Result<()> {
//! let plugin = EmbeddedPlugin::new("toy-device-plugin --socket-dir {plugins-dir}", "example.com/pair", 4);
//! let node = EmbeddedNode::up(plugin).await?;
//! let rows = run_embedded(&node, &CASES.iter().collect::<Vec<_>>(), |_| {}).await;
//! println!("{}\n{}", results::table(&rows), results::summary(&rows));
//! # Ok(())
//! # }
//! ```
//!
//! # A plugin on kind
//! A plugin is described by a [`Plugin`]: which pods it runs in, which resource it advertises, how to stop and start it,
//! and a container that reports which devices it has. A case that needs something which the plugin does not have is not
//! applicable, and says why.
//!
//! ```no_run
//! use kind_driver::{Cluster, Options, Owner};
//! use plugin_conformance::{CASES, DaemonSetPlugin, Description, FEATURE_GATES, Injection, Report, results};
//! use serde_json::json;
//!
//! # async fn test() -> anyhow::Result<()> {
//! let feature_gates = FEATURE_GATES.map(str::to_owned).to_vec();
//! let options = Options { workers: 1, feature_gates, ..Options::new("toys") };
//! let cluster = Cluster::up(Owner::new("my-tests"), &options).await?;
//! let description = Description {
//!     namespace: "kube-system".to_owned(),
//!     pods: "app=toy-plugin".to_owned(),
//!     resource: "vendor.example/toy".to_owned(),
//!     with_each_device: Vec::new(),
//!     scheduler: None,
//!     injection: Injection::DeviceNodes,
//!     sets_health: false,
//!     reports_ids: true,
//!     takes_over_within: None,
//! };
//! let manifests = std::fs::read_to_string("toy-plugin.yml")?;
//! let plugin = DaemonSetPlugin::install(
//!     &cluster,
//!     &manifests,
//!     "toy-plugin",
//!     description,
//!     4,
//!     |ends_after| {
//!         let seconds = ends_after.map_or("infinity".to_owned(), |time| time.as_secs().to_string());
//!         json!({"image": "busybox", "command": ["sh", "-c", format!("echo $TOYS; sleep {seconds}")]})
//!     },
//!     |log| {
//!         let text = log.lines().next()?.to_owned();
//!         Some(Report { ids: text.split(',').map(str::to_owned).collect(), text })
//!     },
//! )
//! .await?;
//! let rows = plugin_conformance::run(&cluster, &plugin, &CASES.iter().collect::<Vec<_>>(), false, |_| {}).await?;
//! println!("{}\n{}", results::table(&rows), results::summary(&rows));
//! # Ok(())
//! # }
//! ```

mod case_context;
mod cases;
mod daemon_set_plugin;
mod embedded;
pub mod faulty_plugin;
mod instance;
pub mod junit;
mod kind_stage;
mod manifest_plugin;
mod node_control;
pub mod plugin;
pub mod results;
mod second_plugin;
mod stage;

use anyhow::{Context as _, anyhow};
use futures::future::BoxFuture;
use kind_driver::Cluster;
use tokio::time::Instant;

use case_context::CaseContext;
pub use cases::CASES;
pub use daemon_set_plugin::DaemonSetPlugin;
pub use embedded::{EmbeddedNode, EmbeddedPlugin};
use kind_stage::KindStage;
pub use manifest_plugin::{InstalledPlugin, ManifestPlugin};
pub use plugin::{Description, Devices, Injection, Plugin, Preparation, Report, WithEachDevice};
use results::{CaseResult, Row};
use stage::Stage;

/// What a cluster for these cases has on: health in a pod's status, which is on by itself only from Kubernetes 1.36.
pub const FEATURE_GATES: [&str; 1] = ["ResourceHealthStatus"];

/// The namespace of the cases' pods.
const NAMESPACE: &str = "default";

/// One case.
#[derive(Debug)]
pub struct Case {
    /// The file under `test/e2e_node` of Kubernetes, or what it is about.
    pub file: &'static str,
    /// Its name; of Kubernetes' own cases in its words.
    pub name: &'static str,
    devices: Devices,
    /// Whether it makes devices unhealthy.
    sets_health: bool,
    steps: for<'a> fn(&'a CaseContext<'a>) -> BoxFuture<'a, anyhow::Result<CaseOutcome>>,
}

/// What came of a case that did not fail.
enum CaseOutcome {
    /// What was seen, in one sentence.
    Passed(String),
    /// Why this plugin or cluster cannot take it.
    NotApplicable(String),
}

/// Carries the cases out in order on the cluster's first worker. With `grace` they also wait for kubelet's five minutes
/// after a plugin's end. Each row is given to `progress` once it is there.
///
/// # Errors
/// The cluster has no worker.
pub async fn run(
    cluster: &Cluster,
    plugin: &dyn Plugin,
    cases: &[&Case],
    grace: bool,
    progress: impl Fn(&Row),
) -> anyhow::Result<Vec<Row>> {
    let node = cluster.workers().first().context("the cluster has no worker")?;
    Ok(all(Stage::Kind(KindStage { cluster, plugin, node }), cases, grace, progress).await)
}

/// Carries the cases out in order on the embedded node, kubelet's five minutes included, which take no time there.
pub async fn run_embedded(node: &EmbeddedNode, cases: &[&Case], progress: impl Fn(&Row)) -> Vec<Row> {
    all(Stage::Embedded(node), cases, true, progress).await
}

async fn all(stage: Stage<'_>, cases: &[&Case], grace: bool, progress: impl Fn(&Row)) -> Vec<Row> {
    let mut rows = Vec::new();
    for case in cases {
        let row = one(stage, case, grace).await;
        progress(&row);
        rows.push(row);
    }
    rows
}

/// One case on a clean node. What it stopped runs again afterwards, whatever came of it.
async fn one(stage: Stage<'_>, case: &Case, grace: bool) -> Row {
    let began = Instant::now();
    let context = CaseContext::new(stage, grace);
    let prepared = prepare(&context, case).await;
    let is_prepared = matches!(prepared, Ok(None));
    let mut result = match prepared {
        Ok(None) => (case.steps)(&context).await,
        Ok(Some(why)) => Ok(CaseOutcome::NotApplicable(why)),
        Err(error) => Err(error.context("preparing the node")),
    };
    if let Some(why) = context.panic_reason().await {
        result = Err(anyhow!("kubelet panicked: {why}"));
    }
    let failed = result.is_err();
    if let Err(error) = result {
        result = Err(stage.failed(&folder_name(case), error).await);
    }
    if is_prepared {
        let tidied = context.tidy().await.context("tidying up");
        if let (Err(error), false) = (&tidied, failed) {
            result = Err(stage.failed(&folder_name(case), anyhow!("{error:#}")).await);
        }
    }
    let (result, seen) = match result {
        Ok(CaseOutcome::Passed(seen)) => (CaseResult::Passed, seen),
        Ok(CaseOutcome::NotApplicable(why)) => (CaseResult::NotApplicable, why),
        Err(error) => (CaseResult::Failed, format!("{error:#}")),
    };
    let (steps, seconds) = (context.into_steps(), began.elapsed().as_secs_f64());
    Row { file: case.file, case: case.name, result, seen, steps, seconds }
}

/// Readies the node; or why the case is not applicable.
async fn prepare(context: &CaseContext<'_>, case: &Case) -> anyhow::Result<Option<String>> {
    if case.sets_health && !context.stage.description().sets_health {
        return Ok(Some("nothing is known that makes a device of this plugin unhealthy".to_owned()));
    }
    context.remove_pods().await?;
    context.no_pod_is_left().await?;
    match context.stage.prepare(case.devices).await? {
        Preparation::NotPossible(why) => Ok(Some(why)),
        Preparation::Ready(devices) => {
            context.set_devices(devices);
            context.advertises_everything_since(None).await?;
            Ok(None)
        }
    }
}

/// The case's name without what a path would have to be quoted for.
fn folder_name(case: &Case) -> String {
    let words =
        case.name.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_has_a_plain_name() {
        assert_eq!(folder_name(&CASES[0]), "can-schedule-a-pod-that-requires-a-device");
    }
}
