//! What a kubelet writes of one pod at the API server. Used by `worker`.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::table::version_of;
use crate::clock::rfc3339;

/// How long to wait before a refused write is tried again, by tokio's time.
const RETRY: Duration = Duration::from_millis(100);

/// The pod at the API server.
pub(super) struct PodApi {
    api: Api<Pod>,
    pod: Arc<Pod>,
}

impl PodApi {
    pub(super) fn new(client: kube::Client, pod: Arc<Pod>) -> Self {
        let api = Api::namespaced(client, &pod.namespace().unwrap_or_default());
        Self { api, pod }
    }

    /// Writes the status, repeated until it is written or the pod is gone or replaced. `now` is when the pod started, if it had
    /// not before. The version that was written; none of a pod that is gone.
    pub(super) async fn report(&self, status: &Value, now: Timestamp) -> Option<u64> {
        let started = self.pod.status.as_ref().and_then(|status| status.start_time.as_ref());
        let mut status = status.clone();
        status["startTime"] = json!(rfc3339(started.map_or(now, |time| time.0)));
        // The UID makes the write fail for a new pod of the same name.
        let patch = json!({ "metadata": { "uid": self.pod.metadata.uid }, "status": status });
        let (patch, params) = (Patch::Strategic(&patch), PatchParams::default());
        let written = self.persist(|| self.api.patch_status(self.name(), &params, &patch)).await;
        written.map(|pod| version_of(&pod))
    }

    /// Deletes the pod for good, repeated until it is gone or replaced.
    pub(super) async fn delete(&self) {
        let preconditions = Preconditions { uid: self.pod.metadata.uid.clone(), resource_version: None };
        let preconditions = Some(preconditions);
        let now = DeleteParams { grace_period_seconds: Some(0), preconditions, ..DeleteParams::default() };
        self.persist(|| async { self.api.delete(self.name(), &now).await.map(drop) }).await;
    }

    /// Repeats `write` until it succeeds or the pod is gone or replaced, which is looked at: a refusal alone does not say so, as in
    /// kubelet's status manager.
    async fn persist<T, F>(&self, mut write: impl FnMut() -> F) -> Option<T>
    where
        F: Future<Output = kube::Result<T>>,
    {
        loop {
            match write().await {
                Ok(written) => return Some(written),
                Err(error) => {
                    let is_refused =
                        matches!(&error, kube::Error::Api(answer) if [404, 409, 422].contains(&answer.code));
                    if is_refused && self.is_gone().await {
                        tracing::debug!(pod = self.name(), %error, "the pod is gone or replaced");
                        return None;
                    }
                    tracing::warn!(pod = self.name(), %error, "cannot write to the API server");
                }
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Whether the API server has no pod of this name and UID. It may not say.
    async fn is_gone(&self) -> bool {
        let there = self.api.get_opt(self.name()).await;
        there.is_ok_and(|there| there.is_none_or(|there| there.metadata.uid != self.pod.metadata.uid))
    }

    fn name(&self) -> &str {
        self.pod.metadata.name.as_deref().unwrap_or_default()
    }
}
