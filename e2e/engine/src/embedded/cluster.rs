//! The embedded cluster as a [`Cluster`]: what each part's stop, start and restart is here.

use std::time::Duration;

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use kube::Client;

use super::Embedded;
use super::extender::is_ready;
use crate::cluster::Cluster;
use crate::cluster::wait::until;
use crate::scenario::{DeviceState, Moment, Part};

/// Real time between two looks of a wait, and the cluster's time that passes in it: waiting out kubelet's 10 s status
/// period takes a tenth of a second, and kube-scheduler's five-minute retry a few seconds even under load.
const LOOK: Duration = Duration::from_millis(5);
const CLOCK_STEP: Duration = Duration::from_millis(500);

impl Cluster for Embedded {
    fn client(&self) -> Client {
        self.client.clone()
    }

    fn node_names(&self) -> &[String] {
        &self.node_names
    }

    fn scheduler_name(&self) -> &str {
        "my-scheduler"
    }

    fn outside_reasons(&self) -> &[&str] {
        &[]
    }

    async fn pass_time(&self) {
        self.clock.advance(CLOCK_STEP);
        tokio::time::sleep(LOOK).await;
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    async fn stop(&self, part: Part, node: usize) -> anyhow::Result<()> {
        match part {
            Part::Extender => {
                self.proxy.set_target(None);
                self.extender.take().await?.stop().await
            }
            Part::Scheduler => {
                self.take_scheduler().context("the scheduler is already stopped")?.stop().await;
                Ok(())
            }
            Part::Plugin => {
                self.node(node)?.stop_plugin().await?;
                self.until_withdrawn(node).await
            }
            Part::Kubelet => self.node(node)?.stop_kubelet().await,
            Part::Node => self.node(node)?.lose_power().await,
            Part::ApiServer => {
                self.api.set_available(false);
                Ok(())
            }
            Part::Containerd | Part::Etcd => bail!("the embedded cluster has no {}", part.name()),
        }
    }

    async fn start(&self, part: Part, node: usize) -> anyhow::Result<()> {
        match part {
            Part::Extender => {
                let address = self.extender.start(self.client.clone()).await?;
                until(self, "the extender to be ready", async || Ok(is_ready(address).await)).await?;
                self.proxy.set_target(Some(address));
                Ok(())
            }
            Part::Scheduler => {
                self.start_scheduler();
                Ok(())
            }
            Part::Plugin => {
                self.node(node)?.start_plugin(self.client.clone()).await?;
                self.until_allocatable(node).await
            }
            Part::Kubelet => {
                self.node(node)?.start_kubelet().await?;
                self.until_allocatable(node).await
            }
            Part::Node => {
                self.node(node)?.begin().await?;
                self.until_allocatable(node).await
            }
            Part::ApiServer => {
                self.api.set_available(true);
                Ok(())
            }
            Part::Containerd | Part::Etcd => bail!("the embedded cluster has no {}", part.name()),
        }
    }

    async fn set_device(&self, node: usize, device: u8, state: DeviceState) -> anyhow::Result<()> {
        self.node(node)?.set_device(device, state)
    }

    async fn restart(&self, part: Part, node: usize) -> anyhow::Result<()> {
        match part {
            // Killed, so that they cannot tidy up.
            Part::Extender => {
                self.proxy.set_target(None);
                self.extender.take().await?.kill().await?;
            }
            Part::Plugin => {
                self.node(node)?.kill_plugin().await?;
                self.until_withdrawn(node).await?;
            }
            _ => self.stop(part, node).await?,
        }
        self.start(part, node).await
    }

    async fn reboot(&self, node: usize, hardware_anew: bool) -> anyhow::Result<()> {
        self.node(node)?.reboot(hardware_anew).await?;
        self.until_allocatable(node).await
    }

    async fn restart_unlisted(&self, place: usize) -> anyhow::Result<()> {
        self.stop(Part::Plugin, place).await?;
        let node = self.node(place)?;
        node.hold_lists(true).await?;
        node.start_plugin(self.client.clone()).await?;
        let what = format!("kubelet of {} to know the plugin without a list", node.name());
        until(self, &what, async || node.waits_for_lists().await).await?;
        node.kill_plugin().await?;
        node.hold_lists(false).await?;
        self.start(Part::Plugin, place).await
    }

    async fn advance_clock(&self, time: Duration) {
        let until = self.clock.now().checked_add(time).unwrap_or(Timestamp::MAX);
        while self.clock.now() < until {
            self.pass_time().await;
        }
    }

    async fn hold(&self, at: Moment) -> anyhow::Result<()> {
        self.proxy.set_held(at, true);
        Ok(())
    }

    fn is_held(&self, at: Moment) -> bool {
        self.proxy.is_held(at)
    }

    async fn release(&self, at: Moment) -> anyhow::Result<()> {
        self.proxy.set_held(at, false);
        Ok(())
    }

    async fn down(self) -> anyhow::Result<()> {
        if let Some(scheduler) = self.take_scheduler() {
            scheduler.stop().await;
        }
        self.extender.down().await?;
        for node in &self.nodes {
            node.down().await?;
        }
        let path = self.folder.path().to_owned();
        self.folder.close().with_context(|| format!("removing {}", path.display()))?;
        if path.exists() {
            bail!("{} is still there", path.display());
        }
        Ok(())
    }
}
