//! Kubernetes' own node e2e cases for device plugins (`test/e2e_node` of Kubernetes 1.34 and 1.37), for any device plugin on a
//! cluster of kind: each case by its name in Kubernetes' words, its steps written anew for what a harness outside the node
//! can do.
//!
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
pub mod faulty_plugin;
mod node_control;
pub mod plugin;
pub mod results;
mod second_plugin;

use anyhow::Context as _;
use futures::future::BoxFuture;
use kind_driver::{Cluster, Evidence};
use tokio::time::Instant;

use case_context::CaseContext;
pub use cases::CASES;
pub use daemon_set_plugin::DaemonSetPlugin;
pub use plugin::{Description, Devices, Injection, Plugin, Preparation, Report, WithEachDevice};
use results::{CaseResult, Row};

/// What a cluster for these cases has on: health in a pod's status, which is on by itself only from Kubernetes 1.36.
pub const FEATURE_GATES: [&str; 1] = ["ResourceHealthStatus"];

/// The namespace of the cases' pods.
const NAMESPACE: &str = "default";

/// One of Kubernetes' cases.
#[derive(Debug)]
pub struct Case {
    /// The file under `test/e2e_node` of Kubernetes.
    pub file: &'static str,
    /// Its name, in Kubernetes' words.
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
    let mut rows = Vec::new();
    for case in cases {
        let row = one(cluster, plugin, node, case, grace).await;
        progress(&row);
        rows.push(row);
    }
    Ok(rows)
}

/// One case on a clean node. What it stopped runs again afterwards, whatever came of it.
async fn one(cluster: &Cluster, plugin: &dyn Plugin, node: &str, case: &Case, grace: bool) -> Row {
    let began = Instant::now();
    let context = CaseContext::new(cluster, plugin, node, grace);
    let prepared = prepare(&context, case).await;
    let is_prepared = matches!(prepared, Ok(None));
    let mut result = match prepared {
        Ok(None) => (case.steps)(&context).await,
        Ok(Some(why)) => Ok(CaseOutcome::NotApplicable(why)),
        Err(error) => Err(error.context("preparing the node")),
    };
    let mut failed = result.is_err();
    if let Err(error) = result {
        result = Err(with_evidence(cluster, plugin.description(), case, error).await);
    }
    if is_prepared {
        let tidied = context.tidy().await.context("tidying up");
        failed |= tidied.is_err();
        result = result.and_then(|seen| tidied.map(|()| seen));
    }
    if failed {
        plugin.failed_on(node).await;
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
    if case.sets_health && !context.plugin.description().sets_health {
        return Ok(Some("nothing is known that makes a device of this plugin unhealthy".to_owned()));
    }
    context.remove_pods().await?;
    context.no_pod_is_left().await?;
    match context.plugin.prepare(context.node, case.devices).await? {
        Preparation::NotPossible(why) => Ok(Some(why)),
        Preparation::Ready(devices) => {
            context.set_devices(devices);
            context.advertises_everything_since(None).await?;
            Ok(None)
        }
    }
}

async fn with_evidence(
    cluster: &Cluster,
    description: &Description,
    case: &Case,
    error: anyhow::Error,
) -> anyhow::Error {
    let also = description.with_each_device.iter().map(|also| also.resource.as_str());
    let resources: Vec<&str> = std::iter::once(description.resource.as_str()).chain(also).collect();
    let namespaces = [NAMESPACE, &description.namespace];
    let what = Evidence { namespaces: &namespaces, objects: &[], resources: &resources };
    cluster.with_evidence(&folder_name(case), what, error).await
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
