//! One node of the embedded cluster: a fake machine, a kubelet and the production device plugin.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use fake_cluster::System;
use fake_cluster::api::ApiServer;
use fake_cluster::kubelet::{FreeChoices, Kubelet, KubeletConfig};
use fake_neuron::{Health, Machine, MachineSpec};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use neuron_core::names;
use tokio::sync::Mutex;

use super::Options;
use super::program::Program;
use super::runtime::WorkloadRuntime;
use crate::scenario::{CatalogSource, DeviceState, NodeSpec};

/// How long after a change a node's status shows it: kubelet's `nodeStatusUpdateFrequency`, 10 s by default.
const STATUS_PERIOD: Duration = Duration::from_secs(10);

/// A node with what runs on it.
pub(super) struct EmbeddedNode {
    api: ApiServer,
    kubelet_config: KubeletConfig,
    spec: NodeSpec,
    catalog: CatalogSource,
    machine: Machine,
    kubelet: Mutex<Option<Kubelet>>,
    plugin: Mutex<Option<Program>>,
    has_plugin: bool,
}

impl EmbeddedNode {
    /// Builds the machine in `home` and starts kubelet and, if the scenario wants one, the plugin.
    pub(super) async fn up(
        api: &ApiServer,
        name: &str,
        home: PathBuf,
        spec: &NodeSpec,
        catalog: &CatalogSource,
        options: Options,
    ) -> anyhow::Result<Self> {
        let root = home.join("root");
        let machine = machine(name, &root, spec, catalog)?;
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
                ..KubeletConfig::new(name, home.join("kubelet"))
            },
            spec: spec.clone(),
            catalog: catalog.clone(),
            machine,
            kubelet: Mutex::new(None),
            plugin: Mutex::new(None),
            has_plugin: !spec.without_plugin,
        };
        node.begin().await?;
        Ok(node)
    }

    pub(super) fn name(&self) -> &str {
        &self.kubelet_config.node
    }

    pub(super) fn has_plugin(&self) -> bool {
        self.has_plugin
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
        let (system, client) = (System::real(), self.api.client());
        let (config, runtime) = (self.kubelet_config.clone(), Arc::new(WorkloadRuntime));
        let kubelet = Kubelet::start(&system, client, &self.api, config, runtime).await;
        let kubelet = kubelet.with_context(|| format!("kubelet of {}", self.name()))?;
        *self.kubelet.lock().await = Some(kubelet);
        Ok(())
    }

    pub(super) async fn stop_kubelet(&self) -> anyhow::Result<()> {
        let kubelet = self.kubelet.lock().await.take();
        kubelet.with_context(|| format!("kubelet of {} is already stopped", self.name()))?.stop().await;
        Ok(())
    }

    pub(super) async fn start_plugin(&self, client: Client) -> anyhow::Result<()> {
        let config = neuron_device_plugin::Config {
            root: self.machine.root().to_owned(),
            kubelet_dir: self.kubelet_config.dir.clone(),
            catalog: self.catalog.file().map(ToOwned::to_owned),
            poll: Duration::from_millis(100),
            quiet: Duration::from_millis(50),
            ..neuron_device_plugin::Config::new(self.name())
        };
        let program = Program::start("device plugin", move |shutdown| {
            neuron_device_plugin::run(neuron_device_plugin::System::real(), config, client, shutdown)
        })?;
        *self.plugin.lock().await = Some(program);
        Ok(())
    }

    pub(super) async fn stop_plugin(&self) -> anyhow::Result<()> {
        self.take_plugin().await?.stop().await
    }

    /// Kills the plugin, as a system does that runs out of memory.
    pub(super) async fn kill_plugin(&self) -> anyhow::Result<()> {
        self.take_plugin().await?.kill().await
    }

    async fn take_plugin(&self) -> anyhow::Result<Program> {
        let plugin = self.plugin.lock().await.take();
        plugin.with_context(|| format!("the plugin of {} is already stopped", self.name()))
    }

    pub(super) fn set_device(&self, device: u8, state: DeviceState) -> anyhow::Result<()> {
        let changed = match state {
            DeviceState::Lost => self.machine.lose(device),
            DeviceState::Unhealthy => {
                self.machine.set_health(device, &Health::Unhealthy { components: vec!["hbm".into()] })
            }
            DeviceState::Healthy => {
                self.machine.restore(device).and_then(|()| self.machine.set_health(device, &Health::Healthy))
            }
        };
        changed.with_context(|| format!("device {device} of {}", self.name()))
    }

    /// Ends everything on the node and starts it again, in the order of a machine that boots. Its containers are gone.
    pub(super) async fn reboot(&self, hardware_anew: bool) -> anyhow::Result<()> {
        self.lose_power().await?;
        let containers = self.kubelet_config.containers_file();
        std::fs::remove_file(&containers).with_context(|| format!("removing {}", containers.display()))?;
        if hardware_anew {
            let root = self.machine.root();
            Machine::down_at(root).with_context(|| format!("machine of {}", self.name()))?;
            machine(self.name(), root, &self.spec, &self.catalog)?;
        }
        self.begin().await
    }

    /// Kills kubelet and plugin at once, as on a machine that loses its power or its network: neither reports its own
    /// end or the other's. Containers go on.
    pub(super) async fn lose_power(&self) -> anyhow::Result<()> {
        if let Some(kubelet) = self.kubelet.lock().await.take() {
            kubelet.stop().await;
        }
        match self.plugin.lock().await.take() {
            Some(plugin) => plugin.kill().await,
            None => Ok(()),
        }
    }

    /// Makes kubelet wait before it reads the list of a plugin that has registered (`true`), or go on (`false`).
    pub(super) async fn hold_lists(&self, held: bool) -> anyhow::Result<()> {
        self.kubelet.lock().await.as_ref().context("kubelet is stopped")?.hold_device_lists(held);
        Ok(())
    }

    /// Whether the plugin has registered both resources and kubelet has read neither list.
    pub(super) async fn waits_for_lists(&self) -> anyhow::Result<bool> {
        Ok(self.kubelet.lock().await.as_ref().context("kubelet is stopped")?.held_device_lists() == 2)
    }

    /// Starts kubelet and, if the scenario wants one, the plugin.
    pub(super) async fn begin(&self) -> anyhow::Result<()> {
        self.start_kubelet().await?;
        if self.has_plugin {
            self.start_plugin(self.api.client()).await?;
        }
        Ok(())
    }

    /// Ends plugin and kubelet, if they run.
    pub(super) async fn down(&self) -> anyhow::Result<()> {
        if let Some(plugin) = self.plugin.lock().await.take() {
            plugin.stop().await?;
        }
        if let Some(kubelet) = self.kubelet.lock().await.take() {
            kubelet.stop().await;
        }
        Ok(())
    }
}

fn has_allocatable(node: &Node, resource: &str) -> bool {
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    allocatable.and_then(|all| all.get(resource)).is_some_and(|quantity| quantity.0 != "0")
}

/// Makes the machine of a scenario's node, and replaces the files that the scenario gives.
fn machine(name: &str, root: &Path, spec: &NodeSpec, catalog: &CatalogSource) -> anyhow::Result<Machine> {
    std::fs::create_dir_all(root).with_context(|| format!("creating {}", root.display()))?;
    let instance_id = Some(format!("i-{name}"));
    let machine = MachineSpec { instance_type: spec.instance_type.clone(), lnc: spec.lnc, instance_id };
    let machine =
        Machine::up(&machine, root, catalog.types()).with_context(|| format!("machine of {name}"))?;
    for (path, text) in &spec.files {
        let path = root.join(path);
        match text {
            Some(text) => std::fs::write(&path, text),
            None => std::fs::remove_file(&path),
        }
        .with_context(|| format!("changing {}", path.display()))?;
    }
    Ok(machine)
}
