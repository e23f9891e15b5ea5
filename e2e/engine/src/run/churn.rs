//! The step `churn`: pods come and go by chance while parts are killed. Called by [`super::steps`].

use std::time::Duration;

use anyhow::{Context as _, bail};
use fastrand::Rng;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::api::DeleteParams;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{Run, collect};
use crate::cluster::Cluster;
use crate::observe::phase;
use crate::outcome::PodOutcome;
use crate::scenario::{Churn, Target};

/// Longest time from a pod's creation to its deletion by force.
const FORCED_WITHIN: Duration = Duration::from_secs(4);

/// How a pod goes.
enum Going {
    /// It ends by itself.
    Ends,
    /// It is deleted once it runs.
    Deleted,
    /// It is deleted by force so long after its creation.
    Forced(Duration),
}

impl<C: Cluster> Run<'_, C> {
    /// Lets all pods come and go, and kills parts until the last one is gone.
    pub(super) async fn churn(&mut self, churn: &Churn) -> anyhow::Result<()> {
        let mut random = Rng::with_seed(churn.seed);
        let mut pods: Vec<(&Value, Going)> = Vec::new();
        for manifest in &churn.pods {
            let name = manifest["metadata"]["name"].as_str().context("a pod of churn without a name")?;
            let is_in = |names: &[String]| names.iter().any(|listed| listed == name);
            let going = if is_in(&churn.force_delete) {
                let within = u64::try_from(FORCED_WITHIN.as_millis())?;
                Going::Forced(Duration::from_millis(random.u64(..within)))
            } else if is_in(&churn.delete) {
                Going::Deleted
            } else {
                Going::Ends
            };
            pods.push((manifest, going));
        }
        random.shuffle(&mut pods);
        let run = &*self;
        let over = CancellationToken::new();
        let all = async {
            let gone = stream::iter(pods)
                .map(|(manifest, going)| run.come_and_go(manifest, going))
                .buffer_unordered(churn.at_once.get())
                .try_collect::<Vec<_>>()
                .await;
            over.cancel();
            gone
        };
        let (gone, killed) = tokio::try_join!(all, run.kill_in_turn(churn, &over))?;
        self.gone.extend(gone);
        if let Some(Target { part, node }) = churn.kill.get(killed) {
            let part = part.name();
            bail!("churn was over before {part} on {node} was killed: give more pods, or kill more often");
        }
        for Target { part, node } in &churn.kill {
            self.cluster.serves(*part, self.scenario.place_of(node)?).await?;
        }
        Ok(())
    }

    /// Kills one part after the other until that is over; how many. A kill that has begun is carried out.
    async fn kill_in_turn(&self, churn: &Churn, over: &CancellationToken) -> anyhow::Result<usize> {
        let mut killed = 0;
        for Target { part, node } in churn.kill.iter().cycle() {
            let wait = self.cluster.advance_clock(Duration::from_secs(churn.kill_every.get()));
            if over.run_until_cancelled(wait).await.is_none() {
                break;
            }
            self.cluster.kill(*part, self.scenario.place_of(node)?).await?;
            killed += 1;
        }
        Ok(killed)
    }

    /// Creates a pod and lets it go; its name and what was last seen of it.
    async fn come_and_go(&self, manifest: &Value, going: Going) -> anyhow::Result<(String, PodOutcome)> {
        let (name, created) = self.applier().post(manifest).await?;
        created.with_context(|| format!("creating pod {name}"))?;
        match going {
            Going::Ends => {
                let has_ended = |pod: &_| matches!(phase(pod), "Succeeded" | "Failed");
                self.pod_until(&name, "to end", has_ended).await?;
            }
            Going::Deleted => {
                let has_begun = |pod: &_| matches!(phase(pod), "Running" | "Failed");
                self.pod_until(&name, "to run", has_begun).await?;
                self.settled(&name).await?;
            }
            Going::Forced(after) => {
                self.cluster.advance_clock(after).await;
                return self.forced(name).await;
            }
        }
        let seen = collect::pod(self.cluster, self.scenario, &self.reports, &name).await?;
        let pods = self.pods();
        self.held_until_now(&pods.get(&name).await.with_context(|| format!("reading pod {name}"))?);
        pods.delete(&name, &DeleteParams::default()).await.with_context(|| format!("deleting pod {name}"))?;
        self.until_gone(&name).await?;
        Ok((name, PodOutcome { deleted: true, ..seen }))
    }

    /// Deletes a pod by force, and reads before what its containers have got. Of one that has failed before the document tells.
    async fn forced(&self, name: String) -> anyhow::Result<(String, PodOutcome)> {
        self.printed(&name).await?;
        let pods = self.pods();
        let before = pods.get(&name).await.with_context(|| format!("reading pod {name}"))?;
        let failure = before.status.clone().filter(|status| status.phase.as_deref() == Some("Failed"));
        self.delete_at_once(&name).await?;
        let mut seen = PodOutcome { phase: "Running".to_owned(), deleted: true, ..PodOutcome::default() };
        if let Some(status) = failure {
            let said = [status.reason, status.message].into_iter().flatten().collect::<Vec<_>>();
            (seen.phase, seen.failure) = ("Failed".to_owned(), Some(said.join(": ")));
        }
        Ok((name, seen))
    }
}
