//! Gives a node other hardware between scenarios: its label, the fake machine behind it, and the plugin started anew.

use anyhow::{Context as _, bail};
use fake_neuron::fault::{FaultSpec, KERNEL_LOG};
use fake_neuron::node::{APPLIED, Applied};
use futures::future::try_join_all;
use jiff::Timestamp;
use neuron_core::names;
use serde_json::{Map, Value, json};

use kind_driver::WAIT;
use neuron_e2e_engine::scenario::{DeviceState, NodeSpec};

use super::KindCluster;
use super::plugin::PLUGIN_LABEL;

/// Where the machine stands on its node (deploy/fake-neuron.yml).
const ROOT: &str = "/var/lib/fake-neuron";

// What fake-neuron reads of its node and answers (deploy/fake-neuron.yml).
const INSTANCE_TYPE: &str = "neuron-e2e/instance-type";
const LNC: &str = "neuron-e2e/lnc";
const DRIVER: &str = "neuron-e2e/driver";
const DEVICES: &str = "neuron-e2e/devices";
const FILES: &str = "neuron-e2e/files";
const FAULTS: &str = "neuron-e2e/faults";
const GENERATION: &str = "neuron-e2e/generation";

impl KindCluster {
    /// Gives the worker at this place the hardware of a scenario's node, and waits until kubelet advertises it.
    pub(crate) async fn become_node(&self, place: usize, spec: &NodeSpec) -> anyhow::Result<()> {
        let node = self.workers().get(place).with_context(|| format!("there is no worker {place}"))?;
        let same = self.staged.lock().await.get(place).is_some_and(|staged| staged.as_ref() == Some(spec));
        self.driver.patch_node(node, &json!({"spec": {"unschedulable": null}})).await?;
        if !same {
            self.set_staged(place, None).await;
            self.take_plugin(node).await?;
            let label = match spec.label.as_deref() {
                None => json!(spec.instance_type),
                Some("") => Value::Null,
                Some(label) => json!(label),
            };
            let files = (!spec.files.is_empty()).then(|| json!(spec.files).to_string());
            let generation = generation();
            self.driver
                .patch_node(
                    node,
                    &json!({"metadata": {
                        "labels": {names::INSTANCE_TYPE_LABEL: label},
                        "annotations": {
                            names::NODE_REPORT: null,
                            INSTANCE_TYPE: spec.instance_type,
                            LNC: spec.lnc.map(|lnc| lnc.to_string()),
                            DRIVER: spec.driver,
                            DEVICES: null,
                            FAULTS: null,
                            FILES: files,
                            GENERATION: generation,
                        },
                    }}),
                )
                .await?;
            tokio::try_join!(self.hardware_stands(node, &generation), self.withdraw(node))?;
        }
        if spec.without_plugin {
            self.take_plugin(node).await?;
            self.withdraw(node).await?;
        } else {
            self.advertise(node).await?;
        }
        self.set_staged(place, Some(spec.clone())).await;
        Ok(())
    }

    /// Takes the plugins away from workers that a scenario with these nodes wants to have other hardware.
    pub(crate) async fn take_other_plugins(&self, specs: &[NodeSpec]) -> anyhow::Result<()> {
        let staged = self.staged.lock().await.clone();
        let other = |(place, _): &(usize, &String)| match (specs.get(*place), staged.get(*place)) {
            (Some(spec), Some(Some(staged))) => staged != spec,
            _ => true,
        };
        let nodes = self.workers().iter().enumerate().filter(other);
        try_join_all(nodes.map(|(_, node)| self.take_plugin(node))).await?;
        Ok(())
    }

    /// Takes the worker at this place out of sight of schedulers and extender: no label, no report, cordoned.
    pub(crate) async fn leave(&self, place: usize) -> anyhow::Result<()> {
        let node = self.workers().get(place).with_context(|| format!("there is no worker {place}"))?;
        self.set_staged(place, None).await;
        self.driver
            .patch_node(
                node,
                &json!({
                    "spec": {"unschedulable": true},
                    "metadata": {
                        "labels": {names::INSTANCE_TYPE_LABEL: null, PLUGIN_LABEL: "off"},
                        "annotations": {
                            INSTANCE_TYPE: null, LNC: null, DRIVER: null, DEVICES: null, FILES: null, FAULTS: null,
                        },
                    },
                }),
            )
            .await?;
        self.take_plugin(node).await?;
        self.withdraw(node).await?;
        self.driver.patch_node(node, &json!({"metadata": {"annotations": {names::NODE_REPORT: null}}})).await
    }

    /// Puts a device of the worker's machine in another state and waits until the machine shows it.
    pub(crate) async fn set_device(
        &self,
        place: usize,
        device: u8,
        state: DeviceState,
    ) -> anyhow::Result<()> {
        let node = self.workers().get(place).with_context(|| format!("there is no worker {place}"))?;
        let annotations = self.driver.node(node).await?.metadata.annotations.unwrap_or_default();
        let mut devices: Map<String, Value> =
            annotations.get(DEVICES).map_or(Ok(Map::new()), |text| serde_json::from_str(text))?;
        let word = match state {
            DeviceState::Lost => "lost",
            DeviceState::Unhealthy => "unhealthy",
            DeviceState::Healthy => "healthy",
        };
        devices.insert(device.to_string(), json!(word));
        self.ask_hardware(node, DEVICES, Some(Value::Object(devices).to_string())).await
    }

    /// Makes exactly these faults be in force on the worker's machine, and waits until they are.
    pub(crate) async fn set_faults(&self, place: usize, faults: &[FaultSpec]) -> anyhow::Result<()> {
        let node = self.workers().get(place).with_context(|| format!("there is no worker {place}"))?;
        let text = if faults.is_empty() { None } else { Some(serde_json::to_string(faults)?) };
        self.ask_hardware(node, FAULTS, text).await
    }

    /// What the worker's machine has written to its kernel log; empty before the first record.
    pub(crate) async fn kernel_log(&self, place: usize) -> anyhow::Result<String> {
        let node = self.workers().get(place).with_context(|| format!("there is no worker {place}"))?;
        self.driver.exec(node, &format!("cat {ROOT}/{KERNEL_LOG} 2>/dev/null || true")).await
    }

    /// Changes one annotation of the node (`None`: takes it away) and waits until its machine is so.
    async fn ask_hardware(&self, node: &str, annotation: &str, text: Option<String>) -> anyhow::Result<()> {
        let generation = generation();
        self.driver
            .patch_node(
                node,
                &json!({"metadata": {"annotations": {annotation: text, GENERATION: generation}}}),
            )
            .await?;
        self.hardware_stands(node, &generation).await
    }

    /// Forgets what hardware the worker has, so that the next scenario makes it anew.
    pub(crate) async fn set_staged(&self, place: usize, spec: Option<NodeSpec>) {
        if let Some(staged) = self.staged.lock().await.get_mut(place) {
            *staged = spec;
        }
    }

    /// Waits until fake-neuron says that what the node asked for in this generation stands.
    async fn hardware_stands(&self, node: &str, generation: &str) -> anyhow::Result<()> {
        WAIT.until(&format!("the fake hardware of {node}"), async || {
            Ok(self.applied(node).await?.is_some_and(|applied| applied.desired.generation == generation))
        })
        .await?;
        match self.applied(node).await?.and_then(|applied| applied.error) {
            Some(error) => bail!("the fake hardware of {node}: {error}"),
            None => Ok(()),
        }
    }

    async fn applied(&self, node: &str) -> anyhow::Result<Option<Applied>> {
        let annotations = self.driver.node(node).await?.metadata.annotations.unwrap_or_default();
        Ok(annotations.get(APPLIED).and_then(|text| serde_json::from_str(text).ok()))
    }
}

/// A text that no earlier change has had.
fn generation() -> String {
    Timestamp::now().as_nanosecond().to_string()
}
