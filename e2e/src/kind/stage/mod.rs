//! One scenario on the cluster: its nodes are workers with the hardware it asks for, every other node is out of sight.

mod steps;

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kind_driver::WAIT;
use kube::api::{Api, DeleteParams, ListParams};
use neuron_e2e_engine::cluster::{Cluster as _, NAMESPACE};
use neuron_e2e_engine::outcome::SchedulerTexts;
use neuron_e2e_engine::run::apply::OURS;
use neuron_e2e_engine::scenario::{Moment, Part, Scenario, Step, Tier};

use super::KindCluster;
use super::cluster::leases::Leases;
use super::cluster::scheduling::{Route, Scheduling, Setup};

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
            try_join_all((0..cluster.workers().len()).map(turn)).await
        };
        let setup = Setup { scheduling, route: route(scenario), leases: leases(scenario) };
        tokio::try_join!(turned, cluster.schedule_by(setup))?;
        Ok(Self {
            cluster,
            scheduling,
            nodes: cluster.workers().iter().take(scenario.nodes.len()).cloned().collect(),
            texts: cluster.scheduler_texts(),
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
            self.release(at).await?;
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
    if scenario.steps.iter().any(holds_call) { Route::Proxy } else { Route::Service }
}

/// Which Leases suit the scenario's kills.
fn leases(scenario: &Scenario) -> Leases {
    let churns = scenario.steps.iter().any(|step| matches!(step, Step::Churn(_)));
    if churns { Leases::Short } else { Leases::Deployed }
}

/// Whether a call waits. A Binding does at the API server, however the scheduler reaches the extender.
fn holds_call(step: &Step) -> bool {
    matches!(step, Step::Hold(hold) if hold.at != Moment::Binding)
}

fn changes_nodes(step: &Step) -> bool {
    match step {
        Step::Device(_) | Step::Faults(_) | Step::PatchNode(_) | Step::Reboot(_) => true,
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
    let pods: Api<Pod> = Api::namespaced(cluster.client(), NAMESPACE);
    pods.delete_collection(&DeleteParams::default(), &of_scenarios()).await.context("removing pods")?;
    Ok(pods)
}

/// Removes every pod of scenarios and what was said about them.
async fn clear(cluster: &KindCluster) -> anyhow::Result<()> {
    let pods = remove_pods(cluster).await?;
    let events: Api<Event> = Api::namespaced(cluster.client(), NAMESPACE);
    WAIT.until("the pods of the last scenario to be gone", async || {
        Ok(pods.list_metadata(&of_scenarios()).await?.items.is_empty())
    })
    .await?;
    events
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await
        .context("removing events")?;
    Ok(())
}
