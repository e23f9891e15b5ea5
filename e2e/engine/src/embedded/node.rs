//! One node of the embedded cluster: a simulated host with a fake machine, a kubelet and the production device plugin.

use std::cell::{Cell, RefCell};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use fake_cluster::kubelet::{FreeChoices, Kubelet, KubeletConfig};
use fake_neuron::fault::FaultSpec;
use fake_neuron::{Blueprint, Health, MachineSpec};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use neuron_core::names;
use simulator::{Host, Process};

use super::api_host::ApiHost;
use super::program::Program;
use super::runtime::WorkloadRuntime;
use super::{Options, catalog_on};
use crate::scenario::{CatalogSource, DeviceState, NodeSpec};
use crate::simulated_machine::{ROOT, SimulatedMachine};

/// kubelet's folder.
const KUBELET_DIR: &str = "/var/lib/kubelet";
/// The port at which the plugin shows its metrics, as deployed.
const PLUGIN_PORT: u16 = 8080;
/// How long after a change a node's status shows it: kubelet's `nodeStatusUpdateFrequency`, 10 s by default.
const STATUS_PERIOD: Duration = Duration::from_secs(10);

/// A node with what runs on it.
pub(super) struct EmbeddedNode {
    api: ApiHost,
    host: Host,
    kubelet_config: KubeletConfig,
    spec: NodeSpec,
    catalog: Option<PathBuf>,
    machine: Arc<SimulatedMachine>,
    runtime: Arc<WorkloadRuntime>,
    kubelet: RefCell<Option<(Process, Kubelet)>>,
    plugin: Cell<Option<Program>>,
}

impl EmbeddedNode {
    /// Builds the machine on `host`, which gives the node its name, and starts kubelet and, if the scenario wants one, the
    /// plugin.
    pub(super) async fn up(
        api: &ApiHost,
        host: Host,
        spec: &NodeSpec,
        catalog: &CatalogSource,
        options: Options,
    ) -> anyhow::Result<Self> {
        let name = host.name().to_owned();
        let machine = Arc::new(SimulatedMachine::new(&host, blueprint(&host, spec, catalog)?));
        let label = spec.label.clone().unwrap_or_else(|| spec.instance_type.clone());
        let labels = [(names::INSTANCE_TYPE_LABEL.to_owned(), label)];
        let node = EmbeddedNode {
            api: api.clone(),
            kubelet_config: KubeletConfig {
                free_choices: if options.adversarial {
                    FreeChoices::Adversarial
                } else {
                    FreeChoices::Seeded(options.seed)
                },
                labels: labels.into_iter().filter(|(_, label)| !label.is_empty()).collect(),
                status_period: STATUS_PERIOD,
                ..KubeletConfig::new(name, KUBELET_DIR)
            },
            spec: spec.clone(),
            catalog: catalog_on(&host, catalog)?,
            runtime: Arc::new(WorkloadRuntime::new(Arc::clone(&machine))),
            machine,
            host,
            kubelet: RefCell::default(),
            plugin: Cell::default(),
        };
        node.make_machine()?;
        node.begin().await?;
        Ok(node)
    }

    pub(super) fn name(&self) -> &str {
        self.host.name()
    }

    pub(super) fn has_plugin(&self) -> bool {
        !self.spec.without_plugin
    }

    /// Whether the plugin has reported and kubelet shows both resources as allocatable.
    pub(super) async fn is_allocatable(&self, client: &Client) -> anyhow::Result<bool> {
        let node = Api::<Node>::all(client.clone()).get(self.name()).await?;
        let reported = node.metadata.annotations.iter().flatten().any(|(key, _)| key == names::NODE_REPORT);
        Ok(reported && has_allocatable(&node, names::NEURON) && has_allocatable(&node, names::NEURONCORE))
    }

    /// Whether kubelet shows any Neuron resource as allocatable.
    pub(super) async fn has_any_allocatable(&self, client: &Client) -> anyhow::Result<bool> {
        let node = Api::<Node>::all(client.clone()).get(self.name()).await?;
        Ok(has_allocatable(&node, names::NEURON) || has_allocatable(&node, names::NEURONCORE))
    }

    pub(super) async fn start_kubelet(&self) -> anyhow::Result<()> {
        let process = self.host.process(&format!("kubelet/{}", self.name()));
        let (config, runtime) = (self.kubelet_config.clone(), self.runtime.clone());
        let (client, api) = (self.api.client_on(&self.host), &self.api.server);
        let kubelet = Kubelet::start(&process.system(), client, api, config, runtime).await;
        let kubelet = kubelet.with_context(|| format!("kubelet of {}", self.name()))?;
        self.kubelet.replace(Some((process, kubelet)));
        Ok(())
    }

    pub(super) async fn stop_kubelet(&self) -> anyhow::Result<()> {
        let kubelet = self.kubelet.take();
        let (process, kubelet) =
            kubelet.with_context(|| format!("kubelet of {} is already stopped", self.name()))?;
        kubelet.stop().await;
        process.exit();
        Ok(())
    }

    pub(super) fn start_plugin(&self) {
        let process = self.host.process(&format!("plugin/{}", self.name()));
        let config = neuron_device_plugin::Config {
            root: ROOT.into(),
            kubelet_dir: self.kubelet_config.dir.clone(),
            catalog: self.catalog.clone(),
            listen: Some((Ipv4Addr::UNSPECIFIED, PLUGIN_PORT).into()),
            ..neuron_device_plugin::Config::new(self.name())
        };
        let (system, client) = (process.system(), self.api.client_on(&self.host));
        let run = |shutdown| neuron_device_plugin::run(system, config, client, shutdown);
        self.plugin.set(Some(Program::start(process, run)));
    }

    /// Where the plugin shows its metrics.
    pub(super) fn plugin_address(&self) -> SocketAddr {
        (self.host.ip(), PLUGIN_PORT).into()
    }

    pub(super) async fn stop_plugin(&self) -> anyhow::Result<()> {
        self.take_plugin()?.stop().await
    }

    /// Kills the plugin, as a system does that runs out of memory.
    pub(super) async fn kill_plugin(&self) -> anyhow::Result<()> {
        self.take_plugin()?.kill().await
    }

    fn take_plugin(&self) -> anyhow::Result<Program> {
        self.plugin.take().with_context(|| format!("the plugin of {} is already stopped", self.name()))
    }

    pub(super) fn set_device(&self, device: u8, state: DeviceState) -> anyhow::Result<()> {
        let changed = match state {
            DeviceState::Lost => self.machine.lose(device),
            DeviceState::Unhealthy => self.machine.set_health(device, &Health::unhealthy("hbm")),
            DeviceState::Healthy => {
                self.machine.restore(device).and_then(|()| self.machine.set_health(device, &Health::Healthy))
            }
        };
        changed.with_context(|| format!("device {device} of {}", self.name()))
    }

    pub(super) fn set_faults(&self, faults: &[FaultSpec]) -> anyhow::Result<()> {
        self.machine.set_faults(faults).with_context(|| format!("faults of {}", self.name()))
    }

    /// What its hardware's kernel log holds.
    pub(super) fn kernel_log(&self) -> String {
        self.machine.kernel_log()
    }

    /// Ends everything on the node and starts it again, in the order of a machine that boots. Its containers are gone.
    pub(super) async fn reboot(&self, hardware_anew: bool) -> anyhow::Result<()> {
        self.lose_power();
        self.host.files().remove_all(&self.kubelet_config.containers_file());
        self.runtime.lose_all();
        if hardware_anew {
            // What is broken stays broken, whatever files there are.
            let faults = self.machine.faults();
            self.set_faults(&[])?;
            self.machine.remove();
            self.make_machine()?;
            self.set_faults(&faults)?;
        }
        self.begin().await
    }

    /// Ends kubelet and plugin at once, as on a machine that loses its power or its network: neither reports its own
    /// end or the other's. Containers go on.
    pub(super) fn lose_power(&self) {
        self.host.lose_power();
        self.kubelet.take();
        self.plugin.take();
    }

    /// Makes kubelet wait before it reads the list of a plugin that has registered (`true`), or go on (`false`).
    pub(super) fn hold_lists(&self, held: bool) -> anyhow::Result<()> {
        let kubelet = self.kubelet.borrow();
        let (_, kubelet) = kubelet.as_ref().context("kubelet is stopped")?;
        kubelet.hold_device_lists(held);
        Ok(())
    }

    /// Whether the plugin has registered both resources and kubelet has read neither list.
    pub(super) fn waits_for_lists(&self) -> anyhow::Result<bool> {
        let kubelet = self.kubelet.borrow();
        let (_, kubelet) = kubelet.as_ref().context("kubelet is stopped")?;
        Ok(kubelet.held_device_lists() == 2)
    }

    /// Starts kubelet and, if the scenario wants one, the plugin.
    pub(super) async fn begin(&self) -> anyhow::Result<()> {
        self.start_kubelet().await?;
        if self.has_plugin() {
            self.start_plugin();
        }
        Ok(())
    }

    /// Ends plugin and kubelet, if they run.
    pub(super) async fn down(&self) -> anyhow::Result<()> {
        if let Some(plugin) = self.plugin.take() {
            plugin.stop().await?;
        }
        if self.kubelet.borrow().is_some() {
            self.stop_kubelet().await?;
        }
        Ok(())
    }

    /// Makes the machine's files, and replaces those that the scenario gives.
    fn make_machine(&self) -> anyhow::Result<()> {
        self.machine.make().with_context(|| format!("machine of {}", self.name()))?;
        let files = self.host.files();
        for (path, text) in &self.spec.files {
            let path = Path::new(ROOT).join(path);
            match text {
                Some(text) => files
                    .write(&path, text.as_bytes())
                    .with_context(|| format!("changing {}", path.display()))?,
                None => files.remove_all(&path),
            }
        }
        Ok(())
    }
}

fn has_allocatable(node: &Node, resource: &str) -> bool {
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    allocatable.and_then(|all| all.get(resource)).is_some_and(|quantity| quantity.0 != "0")
}

/// The machine of a scenario's node.
fn blueprint(host: &Host, spec: &NodeSpec, catalog: &CatalogSource) -> anyhow::Result<Blueprint> {
    let instance_id = Some(format!("i-{}", host.name()));
    let NodeSpec { instance_type, lnc, driver, .. } = spec.clone();
    let machine = MachineSpec { instance_type, lnc, instance_id, driver };
    Blueprint::of(&machine, catalog.types()).with_context(|| format!("machine of {}", host.name()))
}
