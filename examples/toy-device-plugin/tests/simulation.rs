//! The plugin on three nodes of a simulated cluster in which everything goes wrong: hours of it in a few seconds.

use std::path::Path;
use std::time::Duration;

use fake_cluster::kubelet::ContainerStart;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use simulated_cluster::observer::Known;
use simulated_cluster::plan::NodePlan;
use simulated_cluster::profile::Profile;
use simulated_cluster::suite::{DeviceFault, Program, Resource, RunsOn, Start, Suite, Units, units_of_ids};
use simulated_cluster::{RunOptions, Seeded};
use toy_device_plugin::{Config, IDS, IDS_VARIABLE};

const PAIR: &str = "example.com/pair";
/// A device is unhealthy while this folder of its node has a file with its id as name.
const UNHEALTHY: &str = "/unhealthy";

struct Toy;

impl Suite for Toy {
    fn programs(&self) -> Vec<Program> {
        vec![Program { name: "plugin", runs_on: RunsOn::EveryNode, port: None }]
    }

    fn run(&self, start: Start) -> BoxFuture<'static, anyhow::Result<()>> {
        let config = Config {
            socket_dir: start.kubelet_dir.join("device-plugins"),
            resource: PAIR.to_owned(),
            unhealthy_dir: Some(UNHEALTHY.into()),
            poll: Duration::from_secs(1),
        };
        toy_device_plugin::run(start.process.system(), config, start.shutdown).boxed()
    }

    fn resources(&self, _: &NodePlan) -> Vec<Resource> {
        vec![Resource::new(PAIR, IDS)]
    }

    /// The devices that a container has are those that the plugin tells it of, not those that kubelet meant.
    fn units(&self, node: &NodePlan, start: &ContainerStart) -> Result<Units, String> {
        let ids = start.env.get(IDS_VARIABLE).map_or("", String::as_str);
        units_of_ids(&self.resources(node), PAIR, ids.split(',').filter(|id| !id.is_empty()))
    }

    fn device_faults(&self, _: &NodePlan) -> Vec<&'static str> {
        vec!["unhealthy"]
    }

    fn set_device(&self, fault: DeviceFault<'_>) -> Result<(), String> {
        let file = Path::new(UNHEALTHY).join(IDS[fault.device as usize]);
        if fault.breaks {
            return fault.host.files().write(&file, "").map_err(|error| error.to_string());
        }
        fault.host.files().remove_all(&file);
        Ok(())
    }
}

#[test]
fn every_device_has_one_container_whatever_goes_wrong() {
    for seed in 0..3 {
        let simulation = Seeded::new(seed, Profile::Chaos, ["pairs"; 3], Duration::from_secs(2 * 3600));
        // The plugin believes kubelet, and so cannot do better than it.
        let options = RunOptions { known: Known::of_kubernetes(), ..RunOptions::default() };
        let summary = simulation.run(Toy, options).unwrap();
        assert!(summary.unknown.is_empty(), "seed {seed}\n{}", summary.violations);
        assert!(summary.placed > 0 && summary.restarts > 0, "seed {seed}: nothing happened: {summary:?}");
    }
}
