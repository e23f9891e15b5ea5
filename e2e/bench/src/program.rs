//! kube-scheduler as a pod of the control plane's node, with the image of the cluster's own scheduler: started and
//! stopped once a measurement.

use anyhow::Context as _;
use axum::http::Request;
use k8s_openapi::api::core::v1::Pod;
use kind_driver::{Cluster, WAIT};
use kube::Api;
use kube::api::{DeleteParams, LogParams, PostParams};
use serde_json::json;

use neuron_e2e_engine::scheduler_configuration::SchedulerConfiguration;

const NAME: &str = "neuron-bench-scheduler";
const FILE: &str = "bench-scheduler.yaml";
/// How much it logs in `deploy/my-scheduler.yml`.
const DEPLOYED_LOGS: &str = "-v=2";
/// Where it serves its metrics; 10257 to 10259 are others' of a control plane.
const METRICS_PORT: u16 = 10_261;
/// The metric with the time that it took to look for nodes.
const ALGORITHM_SECONDS: &str = "scheduler_scheduling_algorithm_duration_seconds_sum";
/// Lines of its log that an error shows.
const LINES_SHOWN: i64 = 5;

/// The scheduler of a cluster.
pub(super) struct Scheduler<'a> {
    cluster: &'a Cluster,
    pods: Api<Pod>,
    image: String,
}

impl<'a> Scheduler<'a> {
    /// The cluster's scheduler; it does not run yet.
    pub(super) async fn of(cluster: &'a Cluster) -> anyhow::Result<Self> {
        let pods: Api<Pod> = Api::namespaced(cluster.client(), "kube-system");
        let image = image_of(&pods, &format!("kube-scheduler-{}", cluster.control_plane())).await?;
        Ok(Self { cluster, pods, image })
    }

    /// Its image, which says its version.
    pub(super) fn image(&self) -> &str {
        &self.image
    }

    /// Starts it with this configuration, and with what it logs in `deploy/` if that is wanted. It is not waited for: the pods it binds show
    /// that it runs.
    pub(super) async fn start(
        &self,
        configuration: &SchedulerConfiguration,
        logs_as_deployed: bool,
    ) -> anyhow::Result<()> {
        let path = self.cluster.scheduler_folder().join(FILE);
        let text = configuration.to_yaml()?;
        tokio::fs::write(&path, text).await.with_context(|| format!("writing {}", path.display()))?;
        let host = |name: &str, path: &str| json!({"name": name, "hostPath": {"path": path}});
        let mount = |name: &str, path: &str| json!({"name": name, "mountPath": path, "readOnly": true});
        let credentials = "/etc/kubernetes/scheduler.conf";
        let folder = self.cluster.owner().folder_in_node();
        let mut command = vec![
            "kube-scheduler".to_owned(),
            format!("--config={folder}/{FILE}"),
            // The usual port is the cluster's own scheduler's.
            format!("--secure-port={METRICS_PORT}"),
            "--authorization-always-allow-paths=/metrics".to_owned(),
        ];
        command.extend(logs_as_deployed.then(|| DEPLOYED_LOGS.to_owned()));
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": NAME},
            "spec": {
                "nodeName": self.cluster.control_plane(),
                "hostNetwork": true,
                "priorityClassName": "system-cluster-critical",
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "containers": [{
                    "name": "kube-scheduler",
                    "image": self.image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": command,
                    "volumeMounts": [mount("credentials", credentials), mount("configuration", &folder)],
                }],
                "volumes": [host("credentials", credentials), host("configuration", &folder)],
            },
        }))?;
        self.pods.create(&PostParams::default(), &pod).await.context("starting kube-scheduler")?;
        Ok(())
    }

    /// How many seconds it has spent looking for nodes, with what it waited for an extender.
    ///
    /// # Errors
    /// Its metrics cannot be read, or do not say.
    pub(super) async fn algorithm_seconds(&self) -> anyhow::Result<f64> {
        let pod = format!("/api/v1/namespaces/kube-system/pods/https:{NAME}:{METRICS_PORT}");
        let request = Request::get(format!("{pod}/proxy/metrics")).body(Vec::new())?;
        let metrics = self.cluster.client().request_text(request).await?;
        let seconds = metrics.lines().find_map(|line| line.strip_prefix(ALGORITHM_SECONDS));
        Ok(seconds.with_context(|| format!("no {ALGORITHM_SECONDS}"))?.trim().parse()?)
    }

    /// Stops it and waits until it no longer runs.
    pub(super) async fn stop(&self) -> anyhow::Result<()> {
        self.pods.delete(NAME, &DeleteParams::default()).await.context("stopping kube-scheduler")?;
        WAIT.until("kube-scheduler to end", async || Ok(self.pods.get_opt(NAME).await?.is_none())).await
    }

    /// The end of its log, for an error; empty where there is none.
    pub(super) async fn last_words(&self) -> String {
        let tail = LogParams { tail_lines: Some(LINES_SHOWN), ..LogParams::default() };
        self.pods.logs(NAME, &tail).await.unwrap_or_default()
    }
}

/// The image of the pod of that name, once there is one: kubelet tells the API server of static pods only some time
/// after the API server has come up.
async fn image_of(pods: &Api<Pod>, name: &str) -> anyhow::Result<String> {
    WAIT.found(&format!("image of pod {name}"), async || {
        let container = pods.get_opt(name).await?.and_then(|pod| pod.spec?.containers.into_iter().next());
        Ok(container.and_then(|container| container.image))
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::time::Duration;

    use fake_cluster::api::ApiServer;
    use fake_cluster::clock::Clock;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn the_scheduler_of_a_young_cluster_is_waited_for() {
        let pods: Api<Pod> = Api::namespaced(ApiServer::new(Clock::new()).client(), "kube-system");
        let mut image = pin!(image_of(&pods, "kube-scheduler"));
        assert!(timeout(Duration::from_millis(100), &mut image).await.is_err(), "it was not waited for");
        let pod = json!({
            "metadata": {"name": "kube-scheduler"},
            "spec": {"containers": [{"name": "main", "image": "kube-scheduler:v1.34.4"}]},
        });
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        assert_eq!(image.await.unwrap(), "kube-scheduler:v1.34.4");
    }
}
