//! The embedded cluster as a [`Cluster`]: what each part's stop, start and restart is here.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use fake_neuron::fault::FaultSpec;
use jiff::Timestamp;
use kube::Client;
use tokio::time::sleep;

use super::Embedded;
use crate::cluster::Cluster;
use crate::cluster::wait::until;
use crate::http_call::metrics_of;
use crate::scenario::{DeviceState, Moment, Part};

/// Longest time between two looks of a wait: not all that is waited for is written to the API server.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// From a write to the next look, which then sees those that came with it. Placing one pod takes as long.
const PAUSE: Duration = Duration::from_millis(5);
/// How long a part is away that is restarted.
const RESTART: Duration = Duration::from_secs(1);

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

    /// Returns soon after the next write, so that a step can fall into the middle of what goes on.
    async fn pass_time(&self) {
        tokio::select! {
            biased;
            () = self.written.notified() => sleep(PAUSE).await,
            () = sleep(LONGEST_PAUSE) => {}
        }
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    async fn stop(&self, part: Part, node: usize) -> anyhow::Result<()> {
        match part {
            Part::Extender => self.extender.stop().await,
            Part::ExtenderLeader => {
                self.until_extender_leads().await?;
                let stopped = Some(self.extender.freeze_leader()?);
                until(self, "another extender to lead", async || {
                    let leader = self.proxy.target();
                    Ok(leader.is_some() && leader != stopped)
                })
                .await
            }
            Part::Scheduler => {
                ensure!(self.stop_scheduler().await, "the scheduler is already stopped");
                Ok(())
            }
            Part::Plugin => {
                self.node(node)?.stop_plugin().await?;
                self.until_withdrawn(node).await
            }
            Part::Kubelet => self.node(node)?.stop_kubelet().await,
            Part::Node => {
                self.node(node)?.lose_power();
                Ok(())
            }
            Part::ApiServer => {
                self.api.server.set_available(false);
                Ok(())
            }
            Part::Containerd | Part::Etcd => bail!("the embedded cluster has no {}", part.name()),
        }
    }

    async fn start(&self, part: Part, node: usize) -> anyhow::Result<()> {
        match part {
            Part::Extender => {
                self.extender.start().await?;
                self.until_extender_serves().await
            }
            Part::ExtenderLeader => {
                self.extender.thaw()?;
                self.until_extender_serves().await
            }
            Part::Scheduler => self.start_scheduler(),
            Part::Plugin => {
                self.node(node)?.start_plugin();
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
                self.api.server.set_available(true);
                Ok(())
            }
            Part::Containerd | Part::Etcd => bail!("the embedded cluster has no {}", part.name()),
        }
    }

    async fn set_device(&self, node: usize, device: u8, state: DeviceState) -> anyhow::Result<()> {
        self.node(node)?.set_device(device, state)
    }

    async fn set_faults(&self, node: usize, faults: &[FaultSpec]) -> anyhow::Result<()> {
        self.node(node)?.set_faults(faults)
    }

    async fn kernel_log(&self, node: usize) -> anyhow::Result<String> {
        Ok(self.node(node)?.kernel_log())
    }

    async fn metrics(&self, part: Part, node: usize) -> anyhow::Result<BTreeMap<String, String>> {
        match part {
            Part::Plugin => {
                let node = self.node(node)?;
                let text = metrics_of(&self.harness, node.plugin_address()).await;
                let text = text.with_context(|| format!("metrics of the plugin of {}", node.name()))?;
                Ok(BTreeMap::from([(node.name().to_owned(), text)]))
            }
            Part::Extender => self.extender.metrics(&self.harness).await,
            _ => bail!("{} shows no metrics", part.name()),
        }
    }

    async fn restart(&self, part: Part, node: usize) -> anyhow::Result<()> {
        match part {
            // Killed, so that they cannot tidy up.
            Part::Extender => self.extender.kill().await?,
            Part::ExtenderLeader => {
                self.kill(part, node).await?;
                return self.until_extender_serves().await;
            }
            Part::Plugin => {
                self.node(node)?.kill_plugin().await?;
                self.until_withdrawn(node).await?;
            }
            _ => self.stop(part, node).await?,
        }
        sleep(RESTART).await;
        self.start(part, node).await
    }

    async fn kill(&self, part: Part, node: usize) -> anyhow::Result<()> {
        match part {
            Part::Extender => {
                self.extender.kill().await?;
                sleep(RESTART).await;
                self.extender.start().await?;
                self.extender.take_calls();
            }
            Part::ExtenderLeader => {
                self.until_extender_leads().await?;
                self.extender.kill_leader().await?;
                sleep(RESTART).await;
                self.extender.start().await?;
            }
            Part::Plugin => {
                let node = self.node(node)?;
                node.kill_plugin().await?;
                sleep(RESTART).await;
                node.start_plugin();
            }
            Part::Scheduler => {
                ensure!(self.stop_scheduler().await, "the scheduler is stopped");
                sleep(RESTART).await;
                self.start_scheduler()?;
            }
            _ => bail!("{} can be restarted, not killed", part.name()),
        }
        Ok(())
    }

    async fn serves(&self, part: Part, node: usize) -> anyhow::Result<()> {
        match part {
            Part::Plugin => self.until_allocatable(node).await,
            Part::Extender | Part::ExtenderLeader => self.until_extender_serves().await,
            _ => Ok(()),
        }
    }

    async fn reboot(&self, node: usize, hardware_anew: bool) -> anyhow::Result<()> {
        self.node(node)?.reboot(hardware_anew).await?;
        self.until_allocatable(node).await
    }

    async fn restart_unlisted(&self, place: usize) -> anyhow::Result<()> {
        self.stop(Part::Plugin, place).await?;
        let node = self.node(place)?;
        node.hold_lists(true)?;
        node.start_plugin();
        let what = format!("kubelet of {} to know the plugin without a list", node.name());
        until(self, &what, async || node.waits_for_lists()).await?;
        node.kill_plugin().await?;
        node.hold_lists(false)?;
        self.start(Part::Plugin, place).await
    }

    async fn advance_clock(&self, time: Duration) {
        sleep(time).await;
    }

    async fn hold(&self, at: Moment, pods: &[String]) -> anyhow::Result<()> {
        match at {
            Moment::Binding => self.api.bindings.hold(&self.harness, pods),
            Moment::Before(_) | Moment::After(_) => self.proxy.set_held(at, true),
        }
        Ok(())
    }

    fn is_held(&self, at: Moment) -> bool {
        match at {
            Moment::Binding => self.api.bindings.is_waited_at(),
            Moment::Before(_) | Moment::After(_) => self.proxy.is_held(at),
        }
    }

    async fn release(&self, at: Moment) -> anyhow::Result<()> {
        match at {
            Moment::Binding => self.api.bindings.release(),
            Moment::Before(_) | Moment::After(_) => self.proxy.set_held(at, false),
        }
        Ok(())
    }

    async fn down(self) -> anyhow::Result<()> {
        self.stop_scheduler().await;
        self.extender.down().await?;
        for node in &self.nodes {
            node.down().await?;
        }
        Ok(())
    }
}
