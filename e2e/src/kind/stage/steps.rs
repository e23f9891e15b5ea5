//! What a scenario's steps do to the cluster. Called by the engine.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;

use anyhow::bail;
use fake_neuron::fault::FaultSpec;
use jiff::Timestamp;
use kind_driver::ControlPlanePart;
use kube::Client;
use neuron_core::names::Resource;
use neuron_e2e_engine::cluster::Cluster;
use neuron_e2e_engine::outcome::SchedulerTexts;
use neuron_e2e_engine::scenario::{DeviceState, Moment, Part};

use super::{Stage, remove_pods};
use crate::kind::WORKLOAD;

/// Parts of scheduling reasons that only the control plane (tainted) and nodes outside the scenario (cordoned) give.
/// Kubernetes 1.34.4 does not say which taint it was.
const OUTSIDE: [&str; 2] = ["had untolerated taint", "were unschedulable"];

impl Cluster for Stage<'_> {
    fn client(&self) -> Client {
        self.cluster.client()
    }

    fn node_names(&self) -> &[String] {
        &self.nodes
    }

    fn scheduler_name(&self) -> &str {
        self.scheduling.scheduler_name()
    }

    fn outside_reasons(&self) -> &[&str] {
        &OUTSIDE
    }

    fn scheduler_texts(&self) -> SchedulerTexts {
        self.texts
    }

    fn workload_image(&self) -> &str {
        WORKLOAD
    }

    async fn pass_time(&self) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    fn now(&self) -> Timestamp {
        // The nodes' too, which are containers of this machine.
        Timestamp::now()
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    async fn stop(&self, part: Part, node: usize) -> anyhow::Result<()> {
        match part {
            Part::Extender => self.cluster.stop_extender().await?,
            Part::ExtenderLeader => {
                // Also where it does not come to an end: what is stopped is to go on.
                self.stopped.lock().unwrap_or_else(PoisonError::into_inner).insert((part, node));
                self.cluster.stop_leader().await?;
            }
            Part::Plugin => self.cluster.stop_plugin(self.node_name(node)?).await?,
            Part::Kubelet => self.cluster.driver().stop_kubelet(self.node_name(node)?).await?,
            Part::Node => self.cluster.driver().freeze(self.node_name(node)?).await?,
            Part::Scheduler => self.cluster.stop_scheduler(self.scheduling).await?,
            Part::ApiServer => self.cluster.driver().stop_part(ControlPlanePart::ApiServer).await?,
            Part::Containerd | Part::Etcd => bail!("{} can be restarted, not stopped", part.name()),
        }
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner).insert((part, node));
        Ok(())
    }

    async fn start(&self, part: Part, node: usize) -> anyhow::Result<()> {
        match part {
            Part::Extender => self.cluster.start_extender().await?,
            Part::ExtenderLeader => self.cluster.continue_leader().await?,
            Part::Plugin => self.cluster.start_plugin(self.node_name(node)?).await?,
            Part::Kubelet => self.cluster.start_kubelet(self.node_name(node)?).await?,
            Part::Node => self.cluster.start_node(self.node_name(node)?).await?,
            Part::Scheduler => self.cluster.start_scheduler(self.scheduling).await?,
            Part::ApiServer => self.cluster.driver().start_part(ControlPlanePart::ApiServer).await?,
            Part::Containerd | Part::Etcd => bail!("{} can be restarted, not stopped", part.name()),
        }
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner).remove(&(part, node));
        Ok(())
    }

    async fn set_device(&self, node: usize, device: u8, state: DeviceState) -> anyhow::Result<()> {
        self.cluster.set_device(node, device, state).await
    }

    async fn set_faults(&self, node: usize, faults: &[FaultSpec]) -> anyhow::Result<()> {
        self.cluster.set_faults(node, faults).await
    }

    async fn kernel_log(&self, node: usize) -> anyhow::Result<String> {
        self.cluster.kernel_log(node).await
    }

    async fn metrics(&self, part: Part, node: usize) -> anyhow::Result<BTreeMap<String, String>> {
        match part {
            Part::Plugin => self.cluster.plugin_metrics(self.node_name(node)?).await,
            Part::Extender => self.cluster.extender_metrics().await,
            _ => bail!("{} shows no metrics", part.name()),
        }
    }

    async fn restart(&self, part: Part, node: usize) -> anyhow::Result<()> {
        match part {
            Part::Containerd => self.cluster.restart_containerd(self.node_name(node)?).await,
            Part::ApiServer => self.cluster.driver().kill_part(ControlPlanePart::ApiServer).await,
            Part::Etcd => self.cluster.driver().kill_part(ControlPlanePart::Etcd).await,
            Part::ExtenderLeader => {
                self.cluster.kill_leader().await?;
                self.cluster.start_extender().await
            }
            Part::Extender | Part::Plugin | Part::Kubelet | Part::Node | Part::Scheduler => {
                let driver = self.cluster.driver();
                match part {
                    // Before it can tidy up. The pod goes too: a container that was killed often waits ever longer.
                    Part::Extender => driver.kill("neuron-extender", driver.nodes()).await?,
                    Part::Plugin => {
                        let here = [self.node_name(node)?.to_owned()];
                        driver.kill("neuron-device-plugin", &here).await?;
                    }
                    _ => {}
                }
                self.stop(part, node).await?;
                self.start(part, node).await
            }
        }
    }

    async fn kill(&self, part: Part, node: usize) -> anyhow::Result<()> {
        match part {
            Part::Extender => self.cluster.kill_extender().await,
            Part::ExtenderLeader => self.cluster.kill_leader().await,
            Part::Plugin => self.cluster.kill_plugin(self.node_name(node)?).await,
            Part::Scheduler => self.cluster.kill_scheduler(self.scheduling).await,
            _ => bail!("{} can be restarted, not killed", part.name()),
        }
    }

    async fn serves(&self, part: Part, node: usize) -> anyhow::Result<()> {
        match part {
            Part::Extender | Part::ExtenderLeader => self.cluster.start_extender().await,
            Part::Plugin => self.cluster.serves(self.node_name(node)?, None).await,
            Part::Scheduler => self.cluster.start_scheduler(self.scheduling).await,
            _ => Ok(()),
        }
    }

    async fn reboot(&self, node: usize, hardware_anew: bool) -> anyhow::Result<()> {
        self.cluster.reboot(self.node_name(node)?, hardware_anew).await
    }

    async fn restart_unlisted(&self, node: usize) -> anyhow::Result<()> {
        self.stop(Part::Plugin, node).await?;
        // Ours cannot be caught between the two; to kubelet the plugin of a resource is whoever registers it.
        for resource in Resource::ALL {
            self.cluster.die_before_the_first_list(self.node_name(node)?, resource).await?;
        }
        self.start(Part::Plugin, node).await
    }

    async fn advance_clock(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    async fn hold(&self, at: Moment, pods: &[String]) -> anyhow::Result<()> {
        match at {
            Moment::Binding => return self.cluster.hold_bindings(pods).await,
            Moment::Before(_) | Moment::After(_) => self.cluster.proxy().set_held(at, true),
        }
        Ok(())
    }

    fn is_held(&self, at: Moment) -> bool {
        match at {
            Moment::Binding => self.cluster.is_binding_held(),
            Moment::Before(_) | Moment::After(_) => self.cluster.proxy().is_held(at),
        }
    }

    async fn release(&self, at: Moment) -> anyhow::Result<()> {
        match at {
            Moment::Binding => return self.cluster.release_bindings().await,
            Moment::Before(_) | Moment::After(_) => self.cluster.proxy().set_held(at, false),
        }
        Ok(())
    }

    /// The cluster serves the next scenario, which waits until this one's pods are gone.
    async fn down(self) -> anyhow::Result<()> {
        self.restart_stopped().await?;
        remove_pods(self.cluster).await?;
        Ok(())
    }
}
