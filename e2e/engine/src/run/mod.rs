//! Carries a scenario out on any [`Cluster`] and says what came of it. Called by the command line and the tests.

pub mod apply;
pub mod collect;
mod free_hardware;
mod waits;

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch as ApiPatch, PatchParams};
use serde_json::Value;
use tokio::time::Instant;

use self::apply::Applier;
use self::collect::Reports;
use crate::cluster::wait::until;
use crate::cluster::{Cluster, NAMESPACE};
use crate::invariants;
use crate::observe::{is_bound, phase};
use crate::outcome::{Outcome, PodOutcome};
use crate::scenario::{Amid, DeviceStep, Hold, Part, Patch, Reboot, Scenario, Step, Target, Tier, Unlisted};

/// How long the outcome must hold still before it is taken: events are sent beside what they tell of, and may be the
/// last to come.
const STILL: Duration = Duration::from_millis(200);

/// What came of a scenario, and what of it should not have.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The outcome document.
    pub outcome: Outcome,
    /// What differs from the scenario's expectations or breaks an invariant; empty if it passed.
    pub failures: Vec<String>,
}

/// Carries the steps out, then waits until what is there is what must be, or patience ends.
pub async fn run<C: Cluster>(cluster: &C, scenario: &Scenario) -> anyhow::Result<Finished> {
    let mut run = Run {
        cluster,
        scenario,
        gone: BTreeMap::new(),
        stopped: HashSet::new(),
        reports: Reports::default(),
    };
    for (place, step) in scenario.steps.iter().enumerate() {
        Box::pin(run.step(step)).await.with_context(|| format!("step {} ({})", place + 1, step.label()))?;
    }
    let mut finished = run.finish().await?;
    if scenario.tier == Tier::Faults && finished.failures.is_empty() {
        finished.failures = free_hardware::unusable(cluster, scenario, &finished.outcome).await?;
    }
    Ok(finished)
}

struct Run<'a, C> {
    cluster: &'a C,
    scenario: &'a Scenario,
    /// Pods that are no longer there, or never were: as they were last seen.
    gone: BTreeMap<String, PodOutcome>,
    stopped: HashSet<(Part, usize)>,
    reports: Reports,
}

impl<C: Cluster> Run<'_, C> {
    async fn step(&mut self, step: &Step) -> anyhow::Result<()> {
        match step {
            Step::Apply(manifests) => {
                for manifest in manifests {
                    let name = self.create(manifest).await?;
                    self.settle(&name).await?;
                }
            }
            Step::ApplyTogether(manifests) => {
                let mut names = Vec::new();
                for manifest in manifests {
                    names.push(self.create(manifest).await?);
                }
                for name in names {
                    self.settle(&name).await?;
                }
            }
            Step::Refused(manifests) => {
                for manifest in manifests {
                    self.refused(manifest).await?;
                }
            }
            Step::Delete(names) => {
                for name in names {
                    self.delete(name).await?;
                }
            }
            Step::Ended(names) => {
                for name in names {
                    let ended = |pod: &Pod| matches!(phase(pod), "Succeeded" | "Failed");
                    self.pod_until(name, "to end", ended).await?;
                }
            }
            Step::Running(names) => {
                for name in names {
                    self.pod_until(name, "to run", |pod| phase(pod) == "Running").await?;
                }
            }
            Step::Bound(names) => {
                for name in names {
                    self.pod_until(name, "to be bound", is_bound).await?;
                }
            }
            Step::Patch(patch) => self.patch_pod(patch).await?,
            Step::PatchNode(patch) => self.patch_node(patch).await?,
            Step::Stop(target) => self.stop(target).await?,
            Step::Start(target) => self.start(target).await?,
            Step::Restart(Target { part, node }) => {
                self.cluster.restart(*part, self.place_of(node)?).await?;
            }
            Step::Device(DeviceStep { node, device, becomes }) => {
                self.cluster.set_device(self.place_of(node)?, *device, *becomes).await?;
                self.device_reported(self.place_of(node)?, *device, *becomes).await?;
            }
            Step::Hold(hold) => self.hold(hold).await?,
            Step::ForceDelete(names) => {
                for name in names {
                    self.force_delete(name).await?;
                }
            }
            Step::Amid(amid) => self.amid(amid).await?,
            Step::Reboot(Reboot { node, hardware_anew }) => {
                let place = self.place_of(node)?;
                self.all_settled(place).await?;
                self.cluster.reboot(place, *hardware_anew).await?;
            }
            Step::RestartUnlisted(Unlisted { node }) => {
                self.cluster.restart_unlisted(self.place_of(node)?).await?;
            }
            Step::Pass(seconds) => self.cluster.pass(Duration::from_secs(*seconds)).await,
        }
        Ok(())
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.cluster.client(), NAMESPACE)
    }

    fn applier(&self) -> Applier<'_, C> {
        Applier::new(self.cluster, self.scenario)
    }

    /// Whether that part is stopped, on some node if it is one of nodes.
    fn is_stopped(&self, part: Part) -> bool {
        self.stopped.iter().any(|(other, _)| *other == part)
    }

    fn place_of(&self, node: &str) -> anyhow::Result<usize> {
        self.scenario.place_of(node)
    }

    async fn create(&mut self, manifest: &Value) -> anyhow::Result<String> {
        let (name, result) = self.applier().post(manifest).await?;
        result.with_context(|| format!("creating pod {name}"))?;
        self.gone.remove(&name);
        Ok(name)
    }

    async fn refused(&mut self, manifest: &Value) -> anyhow::Result<()> {
        match self.applier().post(manifest).await? {
            (name, Ok(_)) => bail!("the API server took pod {name}, which it should refuse"),
            (name, Err(kube::Error::Api(status))) => {
                let outcome = PodOutcome {
                    phase: "Refused".into(),
                    failure: Some(status.message.clone()),
                    ..PodOutcome::default()
                };
                self.gone.insert(name, outcome);
                Ok(())
            }
            (name, Err(error)) => Err(error).with_context(|| format!("creating pod {name}")),
        }
    }

    async fn delete(&mut self, name: &str) -> anyhow::Result<()> {
        let mut seen = PodOutcome::default();
        // A running pod is shown as it settled: its record corrected, if kubelet chose otherwise.
        until(self.cluster, &format!("pod {name} to settle before it is deleted"), async || {
            let now = collect::pod(self.cluster, self.scenario, &self.reports, name).await?;
            let steady = now == seen
                && (!now.is_running() || invariants::record_unlike_reality(name, &now).is_empty());
            seen = now;
            Ok(steady)
        })
        .await?;
        self.gone.insert(name.to_owned(), PodOutcome { deleted: true, ..seen });
        let pods = self.pods();
        let node = pods.get(name).await?.spec.and_then(|spec| spec.node_name);
        pods.delete(name, &DeleteParams::default()).await.with_context(|| format!("deleting pod {name}"))?;
        if self.is_stopped(Part::Kubelet) || self.is_stopped(Part::Node) {
            return Ok(());
        }
        self.until_gone(name).await?;
        self.no_longer_reported(name, node.as_deref()).await
    }

    /// The document does not show the pod: nobody can ask a node that is away what it ran.
    async fn force_delete(&self, name: &str) -> anyhow::Result<()> {
        let pods = self.pods();
        let now = DeleteParams::default().grace_period(0);
        pods.delete(name, &now).await.with_context(|| format!("deleting pod {name} at once"))?;
        self.until_gone(name).await
    }

    async fn patch_pod(&self, Patch { name, patch }: &Patch) -> anyhow::Result<()> {
        self.reported(name).await?;
        let mut patch = patch.clone();
        self.applier().name_nodes(&mut patch);
        let pods = self.pods();
        pods.patch(name, &PatchParams::default(), &ApiPatch::Merge(&patch))
            .await
            .with_context(|| format!("patching pod {name}"))?;
        Ok(())
    }

    async fn patch_node(&self, Patch { name, patch }: &Patch) -> anyhow::Result<()> {
        let name = &self.cluster.node_names()[self.place_of(name)?];
        let nodes: Api<Node> = Api::all(self.cluster.client());
        nodes
            .patch(name, &PatchParams::default(), &ApiPatch::Merge(patch))
            .await
            .with_context(|| format!("patching node {name}"))?;
        Ok(())
    }

    async fn stop(&mut self, Target { part, node }: &Target) -> anyhow::Result<()> {
        let place = self.place_of(node)?;
        let reads_and_corrects = match part {
            Part::Kubelet | Part::Node => true,
            Part::Plugin => {
                ![Part::Kubelet, Part::Node].into_iter().any(|part| self.stopped.contains(&(part, place)))
            }
            _ => false,
        };
        if reads_and_corrects {
            self.all_settled(place).await?;
        }
        self.cluster.stop(*part, place).await?;
        self.stopped.insert((*part, place));
        Ok(())
    }

    async fn start(&mut self, Target { part, node }: &Target) -> anyhow::Result<()> {
        let place = self.place_of(node)?;
        self.cluster.start(*part, place).await?;
        self.stopped.remove(&(*part, place));
        Ok(())
    }

    async fn hold(&mut self, Hold { at, apply, steps }: &Hold) -> anyhow::Result<()> {
        self.cluster.hold(*at).await?;
        for manifest in apply {
            self.create(manifest).await?;
        }
        until(self.cluster, &format!("a call to be held {at}"), async || Ok(self.cluster.is_held(*at)))
            .await?;
        for step in steps {
            Box::pin(self.step(step)).await?;
        }
        self.cluster.release(*at).await?;
        for manifest in apply {
            if let Some(name) = manifest["metadata"]["name"].as_str() {
                self.settle(name).await?;
            }
        }
        Ok(())
    }

    /// Creates pods, and once some of them are bound carries the steps out while others are being created. The last
    /// ones come when the steps are done: whatever these break, they break it before all pods are placed.
    async fn amid(&mut self, amid: &Amid) -> anyhow::Result<()> {
        let Amid { apply, bound, steps } = amid;
        let [first, meanwhile, last] = amid.groups();
        for manifest in first {
            self.create(manifest).await?;
        }
        let pods = self.pods();
        until(self.cluster, &format!("{bound} pods to be bound"), async || {
            let pods = pods.list(&ListParams::default()).await?;
            Ok(pods.items.iter().filter(|pod| is_bound(pod)).count() >= *bound)
        })
        .await?;
        let applier = Applier::new(self.cluster, self.scenario);
        let others = async {
            for manifest in meanwhile {
                applier.create_once_served(manifest).await?;
            }
            Ok(())
        };
        let faults = async {
            for step in steps {
                Box::pin(self.step(step)).await?;
            }
            anyhow::Ok(())
        };
        tokio::try_join!(faults, others)?;
        for manifest in last {
            applier.create_once_served(manifest).await?;
        }
        for manifest in apply {
            if let Some(name) = manifest["metadata"]["name"].as_str() {
                self.settle(name).await?;
            }
        }
        Ok(())
    }

    /// Collects until the document is what it must be and holds still, or patience ends.
    async fn finish(self) -> anyhow::Result<Finished> {
        let mut last: Option<Finished> = None;
        let mut still_since = Instant::now();
        let mut steady = async || {
            let mut outcome = collect::outcome(self.cluster, self.scenario, &self.reports).await?;
            outcome.pods.extend(self.gone.clone());
            outcome.order_interchangeable(&self.scenario.interchangeable);
            let mut failures = invariants::failures(self.scenario, &outcome, self.cluster.scheduler_texts());
            failures.extend(self.reports.lives.held_at_one_time(self.scenario));
            if last.as_ref().is_none_or(|last| last.outcome != outcome) {
                still_since = Instant::now();
            }
            let done = failures.is_empty() && still_since.elapsed() >= STILL;
            last = Some(Finished { outcome, failures });
            Ok(done)
        };
        let waited = until(self.cluster, "the outcome to be what the scenario expects", &mut steady).await;
        match (last, waited) {
            // What patience ended on is told by the failures themselves, which say more than "timed out".
            (Some(finished), _) if !finished.failures.is_empty() => Ok(finished),
            (Some(finished), Ok(())) => Ok(finished),
            (_, Err(error)) => Err(error),
            (None, Ok(())) => bail!("nothing was collected"),
        }
    }
}
