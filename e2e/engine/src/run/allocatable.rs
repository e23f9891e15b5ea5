//! The step `allocatable`: what a node offers, and why it offers no more. Called by [`super::steps`].

use std::time::Duration;

use anyhow::bail;
use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use neuron_core::names;
use neuron_core::report::Health;
use tokio::time::Instant;

use super::Run;
use crate::cluster::Cluster;
use crate::cluster::wait::until_within;
use crate::observe::report;
use crate::scenario::AllocatableStep;

impl<C: Cluster> Run<'_, C> {
    /// Waits until the node offers what it must, and then looks whether that stays so.
    pub(super) async fn allocatable(&self, step: &AllocatableStep) -> anyhow::Result<()> {
        let name = &self.cluster.node_names()[self.scenario.place_of(&step.node)?];
        let AllocatableStep { node, devices, cores, within, stays, .. } = step;
        let what = format!("{node} to offer {devices} devices and {cores} cores");
        until_within(self.cluster, Duration::from_secs(*within), &what, async || {
            match self.difference(name, step).await? {
                Some(difference) => bail!("{node} {difference}"),
                None => Ok(true),
            }
        })
        .await?;
        let since = Instant::now();
        while since.elapsed() < Duration::from_secs(*stays) {
            self.cluster.pass_time().await;
            // An API server that is away for a moment says nothing of the node.
            if let Ok(Some(difference)) = self.difference(name, step).await {
                let after = since.elapsed().as_secs();
                bail!(
                    "{node} was to offer {devices} devices and {cores} cores for {stays} s; after {after} s it {difference}"
                );
            }
        }
        Ok(())
    }

    /// What of the node is not as it must be, as a sentence without its subject; none if all is.
    async fn difference(&self, name: &str, step: &AllocatableStep) -> anyhow::Result<Option<String>> {
        let node = Api::<Node>::all(self.cluster.client()).get(name).await?;
        let Some(report) = report(&node) else {
            return Ok(Some("has no report that can be read".to_owned()));
        };
        let allocatable = node.status.and_then(|status| status.allocatable).unwrap_or_default();
        let offered = |resource| allocatable.get(resource).map_or("0", |offered| offered.0.as_str());
        let (devices, cores) = (offered(names::NEURON), offered(names::NEURONCORE));
        if devices != step.devices.to_string() || cores != step.cores.to_string() {
            return Ok(Some(format!("offers {devices} devices and {cores} cores")));
        }
        let served = report.devices.iter().filter(|device| device.health.is_served()).count();
        if served.to_string() != devices {
            return Ok(Some(format!(
                "offers {devices} devices, but its report says that it serves {served}"
            )));
        }
        let unlike = step.unhealthy.iter().find_map(|(id, text)| {
            let device = report.devices.iter().find(|device| device.id == *id)?;
            let reason = device.reason.as_deref().unwrap_or_default();
            let is_alike = device.health == Health::Unhealthy && reason.contains(text.as_str());
            let health = device.health;
            (!is_alike).then(|| {
                format!(
                    "reports device {id} as {health:?} with reason {reason:?}, not as Unhealthy with {text:?}"
                )
            })
        });
        Ok(unlike)
    }
}
