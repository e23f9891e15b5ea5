//! Whether the API server refused a deployed part anything: its manifest must grant what it asks for, and the embedded
//! cluster, which grants everything, cannot show that. Asked at the end of each scenario, while its pods are there.

use anyhow::Context as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, LogParams};

use super::KindCluster;
use super::install::SYSTEM;

/// The parts whose manifests are ours, by the beginnings of their pods' names.
const PARTS: [&str; 4] = ["neuron-device-plugin", "k8s-neuron-scheduler", "fake-neuron", "my-scheduler"];

impl KindCluster {
    /// What running parts logged of refusals since then, one line each; empty if their rights suffice.
    pub(in crate::kind) async fn refused_rights(&self, since: Timestamp) -> anyhow::Result<Vec<String>> {
        let pods: Api<Pod> = Api::namespaced(self.client(), SYSTEM);
        let listed = pods.list_metadata(&ListParams::default()).await.context("listing the suite's pods")?;
        let names = listed.items.into_iter().filter_map(|pod| pod.metadata.name);
        let params = LogParams { since_time: Some(since), ..LogParams::default() };
        let mut refused = Vec::new();
        for name in names.filter(|name| PARTS.iter().any(|part| name.starts_with(part))) {
            let log = match pods.logs(&name, &params).await {
                // Gone, or not started: it has said nothing.
                Err(kube::Error::Api(status)) if matches!(status.code, 400 | 404) => continue,
                log => log.with_context(|| format!("log of {name}"))?,
            };
            let lines = log.lines().filter(|line| line.contains("is forbidden:"));
            refused.extend(
                lines.map(|line| format!("{name} lacks a right that its manifest must grant: {line}")),
            );
        }
        Ok(refused)
    }
}
