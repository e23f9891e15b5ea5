//! What each step of a scenario does, and what it waits for. Called by [`super::run`] and, for the steps inside a step, by
//! [`super::interleaved`].

use std::time::Duration;

use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, Patch as ApiPatch, PatchParams};

use super::Run;
use crate::cluster::Cluster;
use crate::cluster::wait::until;
use crate::observe::{is_bound, phase};
use crate::scenario::{DeviceStep, FaultsStep, KernelLogStep, Part, Patch, Reboot, Step, Target, Unlisted};

impl<C: Cluster> Run<'_, C> {
    /// Carries a step out, and waits until its effect is visible.
    pub(super) async fn step(&mut self, step: &Step) -> anyhow::Result<()> {
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
            Step::Create(manifests) => {
                for manifest in manifests {
                    self.create_object(manifest).await?;
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
                    self.runs(name).await?;
                }
            }
            Step::Bound(names) => {
                for name in names {
                    self.pod_until(name, "to be bound", is_bound).await?;
                }
            }
            Step::Preempt(preempt) => self.preempt(preempt).await?,
            Step::Patch(patch) => self.patch_pod(patch).await?,
            Step::PatchNode(patch) => self.patch_node(patch).await?,
            Step::Stop(target) => self.stop(target).await?,
            Step::Start(target) => self.start(target).await?,
            Step::Restart(Target { part, node }) => {
                self.cluster.restart(*part, self.scenario.place_of(node)?).await?;
            }
            Step::Device(DeviceStep { node, device, becomes }) => {
                self.cluster.set_device(self.scenario.place_of(node)?, *device, *becomes).await?;
                self.device_reported(self.scenario.place_of(node)?, *device, *becomes).await?;
            }
            Step::Faults(FaultsStep { node, in_force }) => {
                let place = self.scenario.place_of(node)?;
                self.logged.insert(place, self.cluster.kernel_log(place).await?.len());
                self.cluster.set_faults(place, in_force).await?;
            }
            Step::Allocatable(step) => self.allocatable(step).await?,
            Step::KernelLog(step) => self.kernel_log(step).await?,
            Step::Metrics(step) => self.metrics(step).await?,
            Step::Hold(hold) => self.hold(hold).await?,
            Step::ForceDelete(names) => {
                for name in names {
                    self.force_delete(name).await?;
                }
            }
            Step::During(during) => self.during(during).await?,
            Step::Churn(churn) => self.churn(churn).await?,
            Step::Reboot(Reboot { node, hardware_anew }) => {
                let place = self.scenario.place_of(node)?;
                self.all_settled(place).await?;
                self.cluster.reboot(place, *hardware_anew).await?;
            }
            Step::RestartUnlisted(Unlisted { node }) => {
                self.cluster.restart_unlisted(self.scenario.place_of(node)?).await?;
            }
            Step::AdvanceClock(seconds) => {
                self.cluster.advance_clock(Duration::from_secs(*seconds)).await;
            }
        }
        Ok(())
    }

    async fn kernel_log(&self, KernelLogStep { node, contains }: &KernelLogStep) -> anyhow::Result<()> {
        let place = self.scenario.place_of(node)?;
        let what = format!("the kernel log of {node} to hold {contains:?}");
        let before = self.logged.get(&place).copied().unwrap_or_default();
        until(self.cluster, &what, async || {
            let log = self.cluster.kernel_log(place).await?;
            let new = log.get(before..).unwrap_or_default();
            if new.contains(contains.as_str()) { Ok(true) } else { bail!("since then it holds {new:?}") }
        })
        .await
    }

    async fn patch_node(&self, Patch { name, patch }: &Patch) -> anyhow::Result<()> {
        let name = &self.cluster.node_names()[self.scenario.place_of(name)?];
        let nodes: Api<Node> = Api::all(self.cluster.client());
        nodes
            .patch(name, &PatchParams::default(), &ApiPatch::Merge(patch))
            .await
            .with_context(|| format!("patching node {name}"))?;
        Ok(())
    }

    async fn stop(&mut self, Target { part, node }: &Target) -> anyhow::Result<()> {
        let place = self.scenario.place_of(node)?;
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
        let place = self.scenario.place_of(node)?;
        self.cluster.start(*part, place).await?;
        self.stopped.remove(&(*part, place));
        Ok(())
    }
}
