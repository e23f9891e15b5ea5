//! Deployments and DaemonSets: scaled, and waited for.

use anyhow::Context as _;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetStatus, Deployment};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use super::Cluster;
use super::containers::bare;
use crate::WAIT;
use crate::status::is_ready;

impl Cluster {
    /// Gives a Deployment this many replicas and waits until there are so many, ready, and none that is leaving.
    ///
    /// # Errors
    /// There is no such Deployment, or its pods are not ready in time.
    pub async fn scale(&self, namespace: &str, name: &str, replicas: i32) -> anyhow::Result<()> {
        let deployments: Api<Deployment> = Api::namespaced(self.client(), namespace);
        let patch = json!({"spec": {"replicas": replicas}});
        let deployment = deployments
            .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .with_context(|| format!("scaling {name} to {replicas}"))?;
        let labels = deployment.spec.and_then(|spec| spec.selector.match_labels).unwrap_or_default();
        let selector: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let pods: Api<Pod> = Api::namespaced(self.client(), namespace);
        let filter = ListParams::default().labels(&selector.join(","));
        WAIT.until(&format!("{name} to have {replicas} pods"), async || {
            let pods = pods.list(&filter).await?.items;
            Ok(pods.len() == replicas.unsigned_abs() as usize && pods.iter().all(is_ready))
        })
        .await
    }

    /// Kills the containers of these pods, on one node or all, and deletes the pods at once: of a container that is killed often
    /// kubelet starts the next one ever later. Waits for nothing, and takes what has just ended for killed.
    ///
    /// # Errors
    /// A node or the API server does not answer.
    pub async fn kill_pods(&self, namespace: &str, selector: &str, node: Option<&str>) -> anyhow::Result<()> {
        let api: Api<Pod> = Api::namespaced(self.client(), namespace);
        let listed = api.list(&ListParams::default().labels(selector)).await;
        for pod in listed.with_context(|| format!("listing pods {selector}"))?.items {
            let name = pod.metadata.name.unwrap_or_default();
            let on = pod.spec.and_then(|spec| spec.node_name).unwrap_or_default();
            if on.is_empty() || node.is_some_and(|node| node != on) {
                continue;
            }
            let statuses = pod.status.and_then(|status| status.container_statuses).unwrap_or_default();
            for id in statuses.into_iter().filter_map(|status| status.container_id) {
                let kill = format!("ctr -n k8s.io tasks kill --signal SIGKILL {} || :", bare(&id));
                self.exec(&on, &kill).await.with_context(|| format!("killing {name} on {on}"))?;
            }
            match api.delete(&name, &DeleteParams::default().grace_period(0)).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                deleted => drop(deleted.with_context(|| format!("deleting pod {name}"))?),
            }
        }
        Ok(())
    }

    /// Waits until every pod of a workload, such as `deployment/coredns`, is ready in its newest form.
    ///
    /// # Errors
    /// There is no such workload, or not all are ready in time.
    pub async fn rolled_out(&self, namespace: &str, workload: &str) -> anyhow::Result<()> {
        // kubectl waits in pieces, since it counts by the clock, and this wait by the processors' pace.
        let status = ["-n", namespace, "rollout", "status", workload, "--timeout=10s"];
        WAIT.until(&format!("{workload} to be rolled out"), async || {
            self.kubectl(&status, "").await.map(|_| true)
        })
        .await
    }

    /// Waits until a DaemonSet has a ready pod on every node that is to have one, of whatever form: for one whose pods are updated by
    /// deleting them (`OnDelete`), of which `kubectl rollout status` knows nothing.
    ///
    /// # Errors
    /// There is no such DaemonSet, no node is to have a pod, or one is not ready in time.
    pub async fn daemon_set_is_ready(&self, namespace: &str, name: &str) -> anyhow::Result<()> {
        let sets: Api<DaemonSet> = Api::namespaced(self.client(), namespace);
        WAIT.until(&format!("every pod of {name} to be ready"), async || {
            let set = sets.get(name).await?;
            let is_seen = |status: &DaemonSetStatus| status.observed_generation >= set.metadata.generation;
            let status = set.status.as_ref().filter(|status| is_seen(status));
            Ok(status.is_some_and(|status| {
                status.desired_number_scheduled > 0 && status.number_ready == status.desired_number_scheduled
            }))
        })
        .await
    }
}
