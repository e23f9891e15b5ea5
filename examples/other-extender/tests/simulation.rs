//! The extender in a simulated cluster in which everything goes wrong: hours of it in a few seconds.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use fake_cluster::scheduler::ExtenderConfig;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use runtime::system::Address;
use runtime::{Protocol, Server};
use serde_json::{Value, json};
use simulated_cluster::observer::{PodTruth, Truth};
use simulated_cluster::plan::{NodePlan, Settings};
use simulated_cluster::profile::Profile;
use simulated_cluster::suite::{Books, Program, RunsOn, Start, Suite, Units, one_container};
use simulated_cluster::{RunOptions, Seeded};
use simulator::random::Rng;

const DISK: &str = "example.com/disk";
const PORT: u16 = 8888;

/// Nodes whose machine is the disk that they have, and pods that ask for one.
struct Disks;

impl Suite for Disks {
    fn programs(&self) -> Vec<Program> {
        vec![Program { name: "extender", runs_on: RunsOn::Control, port: Some(PORT) }]
    }

    fn run(&self, start: Start) -> BoxFuture<'static, anyhow::Result<()>> {
        let system = start.process.system();
        async move {
            let listener = system.listen(&Address::Tcp((Ipv4Addr::UNSPECIFIED, PORT).into()))?;
            let server = Server::new(system, Protocol::Http1, other_extender::router(), Duration::ZERO);
            server.run(listener, start.shutdown).await;
            Ok(())
        }
        .boxed()
    }

    fn extenders(&self, service: Ipv4Addr, _: &Settings) -> Vec<ExtenderConfig> {
        let extender = ExtenderConfig::new(format!("http://{service}:{PORT}"));
        let extender = extender.with_filter("filter").with_prioritize("prioritize", 1);
        vec![ExtenderConfig { node_cache_capable: false, ..extender }]
    }

    fn node_labels(&self, node: &NodePlan) -> BTreeMap<String, String> {
        [(DISK.to_owned(), node.machine.clone())].into()
    }

    fn pod(&self, draws: &mut Rng, nodes: &[NodePlan], ends_after: Option<u32>) -> Value {
        let mut pod = one_container(json!({}), ends_after);
        pod["metadata"]["annotations"][DISK] = json!(draws.choice(nodes).map(|node| &node.machine));
        pod
    }

    fn edits(&self) -> Vec<&'static str> {
        vec!["label removed"]
    }

    fn edit(&self, node: &NodePlan, _: &str) -> Option<(Value, Value)> {
        let label = |disk: Option<&str>| json!({"metadata": {"labels": {DISK: disk}}});
        Some((label(None), label(Some(&node.machine))))
    }

    /// A pod that waits although this says yes is a violation.
    fn can_run(&self, node: &NodePlan, pod: &Value, _: &Units) -> Option<bool> {
        Some(pod["metadata"]["annotations"][DISK] == json!(node.machine))
    }

    fn judge_binding(
        &self,
        _: &Truth,
        node: &NodePlan,
        pod: &PodTruth,
        _: &Books,
    ) -> Option<(String, String)> {
        let wanted = &pod.object["metadata"]["annotations"][DISK];
        let text = format!("it wants the disk {wanted}, and was bound to a node with {}", node.machine);
        (*wanted != json!(node.machine)).then(|| ("a pod is bound to a wrong disk".to_owned(), text))
    }
}

#[test]
fn every_pod_gets_its_disk_whatever_goes_wrong() {
    for seed in 0..3 {
        let nodes = ["ssd", "ssd", "hdd", "tape"];
        let simulation = Seeded::new(seed, Profile::Chaos, nodes, Duration::from_secs(2 * 3600));
        let summary = simulation.run(Disks, RunOptions::default()).unwrap();
        assert!(summary.unknown.is_empty(), "seed {seed}\n{}", summary.violations);
        assert!(summary.placed > 0 && summary.restarts > 0, "seed {seed}: nothing happened: {summary:?}");
    }
}
