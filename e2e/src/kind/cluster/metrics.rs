//! What our programs show at `/metrics`, through the API server's way to their pods. Called by [`crate::kind::stage`].

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Pod;
use kind_driver::status::is_ready;
use kube::api::{Api, ListParams};

use super::KindCluster;
use super::extender::{EXTENDER_PODS, PORT};
use super::install::SYSTEM;
use super::scheduling::Setup;

/// The port of the device plugin.
const PLUGIN_PORT: u16 = 8080;

impl KindCluster {
    /// What the plugin's pods on a node show, by their names.
    pub(in crate::kind) async fn plugin_metrics(
        &self,
        node: &str,
    ) -> anyhow::Result<BTreeMap<String, String>> {
        self.metrics_of(self.plugin_pods(node).await?, "http", PLUGIN_PORT).await
    }

    /// What the replicas of the extender show, by the names of their pods.
    pub(in crate::kind) async fn extender_metrics(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let pods: Api<Pod> = Api::namespaced(self.client(), SYSTEM);
        let pods = pods.list(&ListParams::default().labels(EXTENDER_PODS)).await?.items;
        let speaks_https = self.setup.lock().await.is_some_and(Setup::is_https);
        self.metrics_of(pods, if speaks_https { "https" } else { "http" }, PORT).await
    }

    /// Only what is ready is asked: others end, or stand still.
    async fn metrics_of(
        &self,
        pods: Vec<Pod>,
        scheme: &str,
        port: u16,
    ) -> anyhow::Result<BTreeMap<String, String>> {
        let mut all = BTreeMap::new();
        for pod in pods.into_iter().filter(is_ready) {
            let name = pod.metadata.name.unwrap_or_default();
            let path = format!("/api/v1/namespaces/{SYSTEM}/pods/{scheme}:{name}:{port}/proxy/metrics");
            let text = self.driver.kubectl(&["get", "--raw", &path], "").await;
            all.insert(name.clone(), text.with_context(|| format!("metrics of {name}"))?);
        }
        ensure!(!all.is_empty(), "no pod is ready that shows metrics");
        Ok(all)
    }
}
