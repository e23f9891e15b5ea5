//! One scenario on the cluster: its nodes are workers with the hardware it asks for, every other node is out of sight.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams};
use neuron_core::names::Resource;

use super::KindCluster;
use super::images;
use super::scheduling::{Route, Scheduling};
use super::wait::until;
use neuron_e2e_engine::cluster::{Cluster, NAMESPACE};
use neuron_e2e_engine::outcome::SchedulerTexts;
use neuron_e2e_engine::run::apply::OURS;
use neuron_e2e_engine::scenario::{DeviceState, Moment, Part, Scenario, Step, Tier};

/// Parts of scheduling reasons that only the control plane (tainted) and nodes outside the scenario (cordoned) give.
/// Kubernetes 1.34.4 does not say which taint it was.
const OUTSIDE: [&str; 2] = ["had untolerated taint", "were unschedulable"];

/// A scenario's share of a cluster.
pub(super) struct Stage<'a> {
    cluster: &'a KindCluster,
    scheduling: Scheduling,
    nodes: Vec<String>,
    texts: SchedulerTexts,
    /// Whether the scenario leaves nodes other than it got them.
    changes_nodes: bool,
    stopped: Mutex<HashSet<(Part, usize)>>,
    timeout: Duration,
}

impl<'a> Stage<'a> {
    /// Removes what an earlier scenario left and gives the workers this scenario's hardware.
    pub(super) async fn set(
        cluster: &'a KindCluster,
        scenario: &Scenario,
        scheduling: Scheduling,
    ) -> anyhow::Result<Self> {
        let turn = |place: usize| async move {
            match scenario.nodes.get(place) {
                Some(spec) => cluster.become_node(place, spec).await,
                None => cluster.leave(place).await,
            }
        };
        let turned = async {
            // No pod of an earlier scenario may be there when a plugin starts; one may end while pods do.
            tokio::try_join!(clear(cluster), cluster.take_other_plugins(&scenario.nodes))?;
            try_join_all((0..cluster.workers.len()).map(turn)).await
        };
        let (_, (), texts) = tokio::try_join!(
            turned,
            cluster.schedule_by(scheduling, route(scenario)),
            cluster.scheduler_texts()
        )?;
        Ok(Self {
            cluster,
            scheduling,
            nodes: cluster.workers.iter().take(scenario.nodes.len()).cloned().collect(),
            texts,
            changes_nodes: scenario.steps.iter().any(changes_nodes),
            stopped: Mutex::new(HashSet::new()),
            timeout: match scenario.tier {
                Tier::Placement => Duration::from_secs(60),
                // What was killed before is started again ever later: after 10 s, 20 s, 40 s.
                Tier::Faults => Duration::from_secs(120),
            },
        })
    }

    /// Starts parts that a scenario left stopped, and remembers that it changed nodes.
    pub(super) async fn restart_stopped(&self) -> anyhow::Result<()> {
        for at in Moment::ALL {
            self.cluster.proxy.set_held(at, false);
        }
        let mut stopped: Vec<(Part, usize)> =
            self.stopped.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        // Others may be waited for on every node.
        stopped.sort_by_key(|(part, _)| *part != Part::Node);
        for (part, node) in stopped {
            self.start(part, node).await?;
        }
        if self.changes_nodes {
            for place in 0..self.nodes.len() {
                self.cluster.set_staged(place, None).await;
            }
        }
        Ok(())
    }

    fn node_name(&self, place: usize) -> anyhow::Result<&str> {
        self.nodes.get(place).map(String::as_str).with_context(|| format!("there is no node {place}"))
    }
}

/// How the scheduler must reach the extender in this scenario.
pub(super) fn route(scenario: &Scenario) -> Route {
    if scenario.steps.iter().any(holds) { Route::Proxy } else { Route::Service }
}

fn holds(step: &Step) -> bool {
    matches!(step, Step::Hold(_))
}

fn changes_nodes(step: &Step) -> bool {
    match step {
        Step::Device(_) | Step::PatchNode(_) | Step::Reboot(_) => true,
        Step::Hold(hold) => hold.steps.iter().any(changes_nodes),
        Step::During(during) => during.steps.iter().any(changes_nodes),
        _ => false,
    }
}

/// Chooses the pods of scenarios.
fn of_scenarios() -> ListParams {
    ListParams::default().labels(&format!("{}={}", OURS.0, OURS.1))
}

/// Asks for the removal of every pod of scenarios.
async fn remove_pods(cluster: &KindCluster) -> anyhow::Result<Api<Pod>> {
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    pods.delete_collection(&DeleteParams::default(), &of_scenarios()).await.context("removing pods")?;
    Ok(pods)
}

/// Removes every pod of scenarios and what was said about them.
async fn clear(cluster: &KindCluster) -> anyhow::Result<()> {
    let pods = remove_pods(cluster).await?;
    let events: Api<Event> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    until("the pods of the last scenario to be gone", || async {
        Ok(pods.list_metadata(&of_scenarios()).await?.items.is_empty())
    })
    .await?;
    events
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await
        .context("removing events")?;
    Ok(())
}

impl Cluster for Stage<'_> {
    fn client(&self) -> Client {
        self.cluster.client.clone()
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
        images::WORKLOAD
    }

    async fn pass_time(&self) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    async fn stop(&self, part: Part, node: usize) -> anyhow::Result<()> {
        match part {
            Part::Extender => self.cluster.stop_extender().await?,
            Part::Plugin => self.cluster.stop_plugin(self.node_name(node)?).await?,
            Part::Kubelet => self.cluster.stop_kubelet(self.node_name(node)?).await?,
            Part::Node => self.cluster.stop_node(self.node_name(node)?).await?,
            Part::Scheduler => self.cluster.stop_scheduler(self.scheduling).await?,
            Part::ApiServer => self.cluster.stop_api_server().await?,
            Part::Containerd | Part::Etcd => bail!("{} can be restarted, not stopped", part.name()),
        }
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner).insert((part, node));
        Ok(())
    }

    async fn start(&self, part: Part, node: usize) -> anyhow::Result<()> {
        match part {
            Part::Extender => self.cluster.start_extender().await?,
            Part::Plugin => self.cluster.start_plugin(self.node_name(node)?).await?,
            Part::Kubelet => self.cluster.start_kubelet(self.node_name(node)?).await?,
            Part::Node => self.cluster.start_node(self.node_name(node)?).await?,
            Part::Scheduler => self.cluster.start_scheduler(self.scheduling).await?,
            Part::ApiServer => self.cluster.start_api_server().await?,
            Part::Containerd | Part::Etcd => bail!("{} can be restarted, not stopped", part.name()),
        }
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner).remove(&(part, node));
        Ok(())
    }

    async fn set_device(&self, node: usize, device: u8, state: DeviceState) -> anyhow::Result<()> {
        self.cluster.set_device(node, device, state).await
    }

    async fn restart(&self, part: Part, node: usize) -> anyhow::Result<()> {
        match part {
            Part::Containerd => self.cluster.restart_containerd(self.node_name(node)?).await,
            Part::ApiServer => self.cluster.restart_api_server().await,
            Part::Etcd => self.cluster.restart_etcd().await,
            Part::Extender | Part::Plugin | Part::Kubelet | Part::Node | Part::Scheduler => {
                match part {
                    // Before it can tidy up. The pod goes too: a container that was killed often waits ever longer.
                    Part::Extender => self.cluster.kill("neuron-extender", &self.cluster.nodes).await?,
                    Part::Plugin => {
                        let here = [self.node_name(node)?.to_owned()];
                        self.cluster.kill("neuron-device-plugin", &here).await?;
                    }
                    _ => {}
                }
                self.stop(part, node).await?;
                self.start(part, node).await
            }
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

    async fn hold(&self, at: Moment) -> anyhow::Result<()> {
        self.cluster.proxy.set_held(at, true);
        Ok(())
    }

    fn is_held(&self, at: Moment) -> bool {
        self.cluster.proxy.is_held(at)
    }

    async fn release(&self, at: Moment) -> anyhow::Result<()> {
        self.cluster.proxy.set_held(at, false);
        Ok(())
    }

    /// The cluster serves the next scenario, which waits until this one's pods are gone.
    async fn down(self) -> anyhow::Result<()> {
        self.restart_stopped().await?;
        remove_pods(self.cluster).await?;
        Ok(())
    }
}
