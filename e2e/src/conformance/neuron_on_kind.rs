//! Our device plugin, as the cases of `plugin_conformance` know it.

use std::time::Duration;

use anyhow::Context as _;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use neuron_core::names;
use neuron_e2e_engine::scenario::{DeviceState, NodeSpec};
use plugin_conformance::{Description, Devices, Injection, Plugin, Preparation, Report, WithEachDevice};
use serde_json::{Value, json};

use crate::kind::cluster::scheduling::Setup;
use crate::kind::{KindCluster, PLUGIN_PODS, SYSTEM, Scheduling, WORKLOAD};

/// The instance type with six devices in a line.
const SIX: (&str, u64) = ("inf2.24xlarge", 6);
/// The instance type with one device.
const ONE: (&str, u64) = ("inf2.xlarge", 1);
/// How long one of two plugins may take to take over: the older hangs up first. As long as kubelet by default takes to tell
/// the API what is allocatable.
const TAKES_OVER_WITHIN: Duration = Duration::from_secs(10);
/// NeuronCores of one device of these types.
const CORES: u64 = 2;

/// The device plugin on the fake hardware of a cluster's first worker.
pub(super) struct NeuronPlugin<'c> {
    cluster: &'c KindCluster,
    description: Description,
}

impl<'c> NeuronPlugin<'c> {
    /// The plugin as it is installed on the cluster.
    pub(super) fn on(cluster: &'c KindCluster) -> Self {
        let cores = WithEachDevice {
            resource: names::NEURONCORE.to_owned(),
            noun: "NeuronCores".to_owned(),
            count: CORES,
        };
        let description = Description {
            namespace: SYSTEM.to_owned(),
            pods: PLUGIN_PODS.to_owned(),
            resource: names::NEURON.to_owned(),
            with_each_device: vec![cores],
            scheduler: Some(Scheduling::MyScheduler.scheduler_name().to_owned()),
            injection: Injection::DeviceNodes,
            sets_health: true,
            reports_ids: true,
            takes_over_within: Some(TAKES_OVER_WITHIN),
        };
        Self { cluster, description }
    }
}

impl Plugin for NeuronPlugin<'_> {
    fn description(&self) -> &Description {
        &self.description
    }

    fn container(&self, ends_after: Option<Duration>) -> Value {
        let args: Vec<String> = ends_after
            .map(|time| vec!["--for".to_owned(), format!("{}s", time.as_secs())])
            .unwrap_or_default();
        json!({"image": WORKLOAD, "args": args})
    }

    fn report(&self, log: &str) -> Option<Report> {
        let (line, report) = log
            .lines()
            .find_map(|line| Some((line, serde_json::from_str::<neuron_workload::Report>(line).ok()?)))?;
        let mut ids: Vec<String> =
            report.devices.iter().map(|path| path.trim_start_matches("/dev/").to_owned()).collect();
        ids.sort();
        Some(Report { ids, text: line.to_owned() })
    }

    fn prepare<'a>(&'a self, _node: &'a str, devices: Devices) -> BoxFuture<'a, anyhow::Result<Preparation>> {
        let (instance_type, count) = if devices == Devices::One { ONE } else { SIX };
        async move {
            let scheduling = self.cluster.schedule_by(Setup::deployed(Scheduling::MyScheduler));
            let spec = NodeSpec::of(instance_type);
            tokio::try_join!(scheduling, self.cluster.become_node(0, &spec))?;
            Ok(Preparation::Ready(count))
        }
        .boxed()
    }

    fn stop<'a>(&'a self, node: &'a str) -> BoxFuture<'a, anyhow::Result<()>> {
        self.cluster.take_plugin(node).boxed()
    }

    fn keep_away<'a>(&'a self, node: &'a str) -> BoxFuture<'a, anyhow::Result<()>> {
        self.cluster.keep_plugin_away(node).boxed()
    }

    fn start<'a>(&'a self, node: &'a str) -> BoxFuture<'a, anyhow::Result<()>> {
        self.cluster.let_plugin_run(node).boxed()
    }

    fn set_health<'a>(
        &'a self,
        _node: &'a str,
        device: u64,
        healthy: bool,
    ) -> BoxFuture<'a, anyhow::Result<()>> {
        async move {
            let device = u8::try_from(device).context("no node has so many devices")?;
            let state = if healthy { DeviceState::Healthy } else { DeviceState::Unhealthy };
            self.cluster.set_device(0, device, state).await
        }
        .boxed()
    }

    fn failed_on<'a>(&'a self, _node: &'a str) -> BoxFuture<'a, ()> {
        self.cluster.set_staged(0, None).boxed()
    }
}
