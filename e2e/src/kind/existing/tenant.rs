//! A run's stay in somebody's cluster: written down in the cluster before anything is changed, so that also what a
//! killed run has left is found and taken away. Called by this folder; [`super::super::KindCluster`] holds one.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::Client;
use kube::api::{Api, PostParams};
use neuron_core::names;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::super::access::Access;
use super::super::hardware::{DEVICES, FILES, GENERATION, INSTANCE_TYPE, LNC};
use super::super::install::SYSTEM;
use super::super::nodes::PLUGIN_LABEL;
use super::super::program;
use super::{WORKER, leave};

/// The ConfigMap that says that a run uses the cluster.
pub(super) const MARK: &str = "neuron-e2e";
/// Its key.
const KEY: &str = "stay.json";
/// Labels of nodes that a run changes.
const LABELS: [&str; 3] = [names::INSTANCE_TYPE_LABEL, PLUGIN_LABEL, WORKER.0];
/// Annotations of nodes that a run changes.
const ANNOTATIONS: [&str; 7] =
    [names::NODE_REPORT, INSTANCE_TYPE, LNC, DEVICES, FILES, GENERATION, fake_neuron::node::APPLIED];

/// Who stays, and what must be as before when it leaves.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Stay {
    host: String,
    process: u32,
    /// When it began.
    pub(super) since: Timestamp,
    /// By name of each worker: the merge patch that makes it as it was.
    pub(super) nodes: BTreeMap<String, Value>,
    /// Workers that are containers of the host's Docker.
    pub(super) containers: Vec<String>,
    /// Address of the proxy, and the nodes that get the rule for it.
    pub(super) proxied: Option<(String, Vec<String>)>,
}

impl Stay {
    /// Of this process, beginning now, on these nodes as they are.
    pub(super) fn new(
        workers: &[&Node],
        containers: Vec<String>,
        proxied: Option<(String, Vec<String>)>,
    ) -> Self {
        let name = |node: &Node| node.metadata.name.clone().unwrap_or_default();
        Self {
            host: host(),
            process: std::process::id(),
            since: Timestamp::now(),
            nodes: workers.iter().map(|node| (name(node), as_it_is(node))).collect(),
            containers,
            proxied,
        }
    }
}

/// The merge patch that makes the node what it is now, in everything that a run changes.
pub(super) fn as_it_is(node: &Node) -> Value {
    let now = |keys: &[&str], all: &Option<BTreeMap<String, String>>| {
        let value =
            |key: &str| all.as_ref().and_then(|all| all.get(key)).map_or(Value::Null, |text| json!(text));
        keys.iter().map(|key| ((*key).to_owned(), value(key))).collect::<Map<String, Value>>()
    };
    json!({
        "metadata": {
            "labels": now(&LABELS, &node.metadata.labels),
            "annotations": now(&ANNOTATIONS, &node.metadata.annotations),
        },
        "spec": {"unschedulable": node.spec.as_ref().and_then(|spec| spec.unschedulable)},
    })
}

fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// A run that stays in somebody's cluster; it takes away what it added when dropped.
pub(in crate::kind) struct Tenant {
    access: Access,
    stay: Stay,
    left: bool,
}

impl Tenant {
    /// Writes the stay down in the cluster. An error if another run has just done so.
    pub(super) async fn register(access: &Access, client: &Client, stay: Stay) -> anyhow::Result<Self> {
        let mark = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": MARK, "namespace": SYSTEM},
            "data": {KEY: serde_json::to_string(&stay)?},
        });
        let marks: Api<ConfigMap> = Api::namespaced(client.clone(), SYSTEM);
        let created = marks.create(&PostParams::default(), &serde_json::from_value(mark)?).await;
        created
            .with_context(|| format!("creating configmap {SYSTEM}/{MARK}, which says that a run is here"))?;
        Ok(Self { access: access.clone(), stay, left: false })
    }

    /// Takes everything away and makes sure that it is gone.
    pub(in crate::kind) async fn leave(&mut self) -> anyhow::Result<()> {
        leave::leave(&self.access, &self.stay).await?;
        self.left = true;
        Ok(())
    }
}

impl Drop for Tenant {
    fn drop(&mut self) {
        if self.left {
            return;
        }
        eprintln!("neuron-e2e: taking away what was added to the cluster");
        let (access, stay) = (self.access.clone(), self.stay.clone());
        // A thread of its own: this one may belong to a runtime, which must not be blocked on from inside.
        let away = std::thread::spawn(move || {
            tokio::runtime::Runtime::new()?.block_on(leave::leave(&access, &stay))
        });
        match away.join() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => eprintln!("neuron-e2e: {error:#}; the next run with this --use tries again"),
            Err(_) => eprintln!("neuron-e2e: something stays; the next run with this --use tries again"),
        }
    }
}

/// Takes away what an earlier run that was killed has left. An error if a run still uses the cluster.
pub(super) async fn clear_up_after_a_killed_run(access: &Access) -> anyhow::Result<()> {
    let marks: Api<ConfigMap> = Api::namespaced(access.client().await?, SYSTEM);
    let mark = marks.get_opt(MARK).await.context("asking whether another run uses the cluster")?;
    let Some(mark) = mark else { return Ok(()) };
    let text = mark.data.as_ref().and_then(|data| data.get(KEY)).map(String::as_str).unwrap_or_default();
    let stay: Stay = serde_json::from_str(text)
        .with_context(|| format!("configmap {SYSTEM}/{MARK} is not ours: {KEY} cannot be read"))?;
    let runs = stay.host == host() && runs(stay.process).await;
    if let Some(why) = occupied(&stay, &host(), runs) {
        bail!("{why}");
    }
    eprintln!("taking away what a run that was killed has left (process {}, {})", stay.process, stay.since);
    leave::leave(access, &stay).await.context("taking away what a run that was killed has left")
}

/// Why the cluster cannot be had while this stay is written down in it; none if nobody uses it any more.
fn occupied(stay: &Stay, host: &str, runs: bool) -> Option<String> {
    let Stay { process, since, .. } = stay;
    if stay.host != host {
        return Some(format!(
            "a run on host {:?} uses this cluster (process {process}, since {since}); if it was killed, run there \
             again, which takes away what it left",
            stay.host
        ));
    }
    runs.then(|| format!("process {process} uses this cluster since {since}; wait for it, or end it"))
}

/// Whether a process of that id runs on this machine.
async fn runs(process: u32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
        || program::output("sh", &["-c", &format!("kill -0 {process}")]).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(value: Value) -> Node {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_node_gets_back_what_it_had_and_loses_what_it_had_not() {
        let node = node(json!({"metadata": {
            "name": "a",
            "labels": {"node.kubernetes.io/instance-type": "m5.large", "tier": "web"},
            "annotations": {"neuron-e2e/lnc": "1", "note": "mine"},
        }}));
        let patch = as_it_is(&node);
        assert_eq!(
            patch["metadata"]["labels"],
            json!({"node.kubernetes.io/instance-type": "m5.large", "neuron-e2e/plugin": null, "neuron-e2e/worker": null})
        );
        assert_eq!(patch["metadata"]["annotations"]["neuron-e2e/lnc"], "1");
        assert_eq!(patch["metadata"]["annotations"]["neuron-scheduler/devices"], Value::Null);
        assert_eq!(patch["metadata"]["annotations"].get("note"), None);
        assert_eq!(patch["spec"]["unschedulable"], Value::Null);
    }

    #[test]
    fn a_cluster_is_occupied_by_runs_that_live_and_by_those_of_other_hosts() {
        let stay = Stay { host: "here".into(), ..Stay::new(&[], Vec::new(), None) };
        assert_eq!(occupied(&stay, "here", false), None);
        assert!(occupied(&stay, "here", true).unwrap().contains("wait for it"));
        assert!(occupied(&stay, "there", false).unwrap().contains("host \"here\""));
    }
}
