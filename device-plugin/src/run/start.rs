//! What the plugin learns before it serves: its devices, and what pods hold of them from before it started. A file that says so and cannot
//! be read is waited for.

use std::sync::Arc;

use runtime::reached;
use tokio::time::sleep;

use super::Plugin;
use crate::hardware::discovery::Discovery;
use crate::hardware::held_lnc::HeldLnc;
use crate::hardware::monitor::discover;
use crate::kubelet::checkpoint::{CheckpointError, Held};
use crate::report::node_report::Reporter;
use crate::report::upkeep::CHECKPOINT;

impl Plugin {
    /// Waits until the machine's devices are found, and announces them.
    pub(super) async fn find_devices(&self) {
        let config = &self.config;
        let discovery = Discovery {
            system: &self.system,
            root: &config.root,
            catalog: &self.catalog,
            policy: config.policy,
            instance_type: config.instance_type.as_deref(),
            health: &config.health,
        };
        let last = Reporter::new(self.client.clone(), &config.node_name, config.api_timeout).read().await;
        let (held, pods) = (self.held().await, &self.engine.pods);
        let held = HeldLnc::read(&last, &config.node_name, pods, &held, config.cross_resource).await;
        // It tells which of two records that overlap counts, until this plugin has reported itself.
        self.engine.state().report = last.unwrap_or_default().map(Arc::new);
        let waits = (config.poll, config.settle);
        discover(&discovery, held.as_ref(), waits, &self.engine.machine, &self.status).await;
    }

    /// What kubelet's checkpoint says before the machine is known. One that is there and cannot be read is waited for: it may be all that
    /// tells at which LNC pods hold cores. One of another form says nothing.
    async fn held(&self) -> Held {
        loop {
            let problem = match self.engine.checkpoint.held().await {
                Ok(held) => {
                    self.engine.tell_checkpoint(None);
                    self.status.fine(CHECKPOINT);
                    return held;
                }
                Err(problem) => problem,
            };
            let (is_of_another_form, why) =
                (matches!(problem, CheckpointError::Form { .. }), problem.to_string());
            self.engine.tell_checkpoint(Some(problem));
            if is_of_another_form {
                return Held::default();
            }
            self.wait_for_checkpoint(&why).await;
        }
    }

    /// Learns what pods hold from before this plugin started. A checkpoint that is there and cannot be read is waited for: what only that
    /// says to be held would be given to others.
    pub(super) async fn adopt(&self) {
        self.upkeep.adopt().await;
        loop {
            let problem = {
                let state = self.engine.state();
                state.checkpoint_problem.clone().filter(|_| !state.ledger.knows_checkpoint())
            };
            let Some(problem) = problem else { break };
            self.wait_for_checkpoint(&problem).await;
            self.upkeep.adopt().await;
        }
        self.status.fine(CHECKPOINT);
    }

    async fn wait_for_checkpoint(&self, problem: &str) {
        reached("plugin: checkpoint waited for at the start");
        self.status.problem(CHECKPOINT, problem);
        sleep(self.config.poll).await;
    }
}
