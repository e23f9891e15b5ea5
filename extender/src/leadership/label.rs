//! The label of the leader's pod, which the Service selects, so that kube-scheduler's calls reach the leader. Put and removed by
//! [`super::tenure`].
//!
//! The leader removes it from every other replica first: a deposed one may be stopped, and cannot do it itself. Other pods of the
//! namespace are none of its business, whatever labels they have: the Service does not select them.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use neuron_core::names::LEADER_LABEL;
use runtime::reached;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

/// The label that all replicas have alike. By its value `deploy/k8s-neuron-scheduler-policy.yml` tells on which pods the extender may
/// write, and the Service which may be its endpoints.
const COMPONENT: &str = "component";
/// Longest wait for each call.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Pause before it is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// Time between two looks at whether it is still so: a removal that was given up may be carried out late, and people edit labels.
const LOOK: Duration = Duration::from_secs(30);

/// The label of this replica's pod.
#[derive(Debug)]
pub(crate) struct LeaderLabel {
    pods: Api<Pod>,
    pod: String,
    /// Pods with the label that are no replicas, as they were logged last.
    foreign: Mutex<BTreeSet<String>>,
}

impl LeaderLabel {
    /// That of the pod in this namespace.
    pub(crate) fn new(client: Client, namespace: &str, pod: String) -> Self {
        Self { pods: Api::namespaced(client, namespace), pod, foreign: Mutex::default() }
    }

    /// Sees to it that this pod has it, and no other replica, until the future is dropped.
    pub(super) async fn keep(&self) {
        loop {
            self.take().await;
            sleep(LOOK).await;
        }
    }

    /// This pod has it, and no other replica, once this returns. Tries until it is so.
    pub(super) async fn take(&self) {
        let mut is_logged = false;
        while let Err(reason) = self.try_take().await {
            reached("extender: leader's label not put");
            if !is_logged {
                let pod = &self.pod;
                warn!(
                    pod,
                    reason, "the leader's label cannot be put; calls may not reach this replica until it is"
                );
                is_logged = true;
            }
            sleep(RETRY).await;
        }
    }

    /// Removes it from this pod, if that can be done at once: the next leader does it, too.
    pub(super) async fn drop_soon(&self) {
        if let Err(reason) = self.set(&self.pod, Value::Null).await {
            reached("extender: leader's label not removed");
            warn!(pod = self.pod, reason, "the leader's label is not removed; the next leader does it");
        }
    }

    async fn try_take(&self) -> Result<(), String> {
        let own = answered(self.pods.get(&self.pod)).await?;
        let labelled = ListParams::default().labels(&format!("{LEADER_LABEL}=true"));
        let labelled = answered(self.pods.list(&labelled)).await?.items;
        let others = labelled.iter().filter(|pod| pod.name_any() != self.pod);
        let is_replica = |pod: &&Pod| pod.labels().get(COMPONENT) == own.labels().get(COMPONENT);
        let (replicas, foreign): (Vec<_>, Vec<_>) = others.partition(is_replica);
        self.log_foreign(foreign.into_iter().map(ResourceExt::name_any).collect());
        for other in replicas {
            reached("extender: leader's label removed from another pod");
            self.set(&other.name_any(), Value::Null).await?;
        }
        if labelled.iter().all(|pod| pod.name_any() != self.pod) {
            self.set(&self.pod, "true".into()).await?;
            info!(pod = self.pod, "the leader's label is put");
        }
        Ok(())
    }

    fn log_foreign(&self, foreign: BTreeSet<String>) {
        let mut logged = self.foreign.lock().unwrap_or_else(PoisonError::into_inner);
        for pod in foreign.difference(&logged) {
            reached("extender: leader's label on a foreign pod");
            warn!(
                pod,
                label = LEADER_LABEL,
                "a pod that is no replica of this extender has the leader's label; remove it"
            );
        }
        *logged = foreign;
    }

    async fn set(&self, pod: &str, value: Value) -> Result<(), String> {
        let patch = Patch::Merge(json!({"metadata": {"labels": {LEADER_LABEL: value}}}));
        answered(self.pods.patch(pod, &PatchParams::default(), &patch)).await.map(drop)
    }
}

async fn answered<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, String> {
    match timeout(TIMEOUT, call).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("the API server did not answer within {TIMEOUT:?}")),
    }
}
