//! Creates, changes and deletes a scenario's pods. Called by [`super::steps`] and [`super::interleaved`].

use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch as ApiPatch, PatchParams};
use serde_json::Value;

use super::{Run, collect};
use crate::cluster::Cluster;
use crate::cluster::wait::until;
use crate::invariants::record;
use crate::observe::phase;
use crate::outcome::PodOutcome;
use crate::scenario::{Part, Patch, Preempt};

impl<C: Cluster> Run<'_, C> {
    /// Creates the pod; its name.
    pub(super) async fn create(&mut self, manifest: &Value) -> anyhow::Result<String> {
        let (name, result) = self.applier().post(manifest).await?;
        result.with_context(|| format!("creating pod {name}"))?;
        self.gone.remove(&name);
        Ok(name)
    }

    pub(super) async fn refused(&mut self, manifest: &Value) -> anyhow::Result<()> {
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

    /// Waits until the document shows the pod as it stays: a running one with its record corrected, if kubelet chose otherwise.
    pub(super) async fn settled(&self, name: &str) -> anyhow::Result<PodOutcome> {
        let mut before = PodOutcome::default();
        until(self.cluster, &format!("pod {name} to settle before it is deleted"), async || {
            let now = collect::pod(self.cluster, self.scenario, &self.reports, name).await?;
            let has_settled =
                now == before && (!now.is_running() || record::mismatches_of(name, &now).is_empty());
            before = now;
            Ok(has_settled)
        })
        .await?;
        Ok(before)
    }

    pub(super) async fn delete(&mut self, name: &str) -> anyhow::Result<()> {
        let before = self.settled(name).await?;
        self.gone.insert(name.to_owned(), PodOutcome { deleted: true, ..before });
        let pods = self.pods();
        let pod = pods.get(name).await?;
        self.held_until_now(&pod);
        let node = pod.spec.and_then(|spec| spec.node_name);
        pods.delete(name, &DeleteParams::default()).await.with_context(|| format!("deleting pod {name}"))?;
        if self.is_stopped(Part::Kubelet) || self.is_stopped(Part::Node) {
            return Ok(());
        }
        self.until_gone(name).await?;
        self.no_longer_reported(name, node.as_deref()).await
    }

    /// Nobody but kube-scheduler deletes the pods that end.
    pub(super) async fn preempt(&mut self, Preempt { apply, ends }: &Preempt) -> anyhow::Result<()> {
        let mut nodes = Vec::new();
        for name in ends {
            let before = self.settled(name).await?;
            self.gone.insert(name.clone(), PodOutcome { deleted: true, ..before });
            nodes.push(self.pods().get(name).await?.spec.and_then(|spec| spec.node_name));
        }
        let name = self.create(apply).await?;
        for (ended, node) in ends.iter().zip(nodes) {
            self.until_gone(ended)
                .await
                .with_context(|| format!("kube-scheduler should end it for {name}"))?;
            self.no_longer_reported(ended, node.as_deref()).await?;
        }
        self.pod_until(&name, "to run", |pod| phase(pod) == "Running").await
    }

    /// The document does not show the pod: nobody can ask a node that is away what it ran. What a pod's containers have got on a node
    /// that is there is read before, for nobody can ask them afterwards.
    pub(super) async fn force_delete(&self, name: &str) -> anyhow::Result<()> {
        if !self.is_stopped(Part::Kubelet) && !self.is_stopped(Part::Node) {
            self.printed(name).await?;
        }
        self.delete_at_once(name).await
    }

    /// Deletes the pod with grace 0.
    pub(super) async fn delete_at_once(&self, name: &str) -> anyhow::Result<()> {
        let pods = self.pods();
        self.held_until_now(&pods.get(name).await.with_context(|| format!("reading pod {name}"))?);
        let now = DeleteParams::default().grace_period(0);
        pods.delete(name, &now).await.with_context(|| format!("deleting pod {name} at once"))?;
        self.until_gone(name).await
    }

    /// Takes note that what the pod's containers hold they have held until now, when the pod is about to be deleted: nobody sees their end.
    pub(super) fn held_until_now(&self, pod: &Pod) {
        if let Some(uid) = &pod.metadata.uid {
            self.reports.history.held_until(uid, self.cluster.now());
        }
    }

    pub(super) async fn patch_pod(&self, Patch { name, patch }: &Patch) -> anyhow::Result<()> {
        self.reported(name).await?;
        let mut patch = patch.clone();
        self.applier().name_nodes(&mut patch);
        let pods = self.pods();
        pods.patch(name, &PatchParams::default(), &ApiPatch::Merge(&patch))
            .await
            .with_context(|| format!("patching pod {name}"))?;
        Ok(())
    }
}
