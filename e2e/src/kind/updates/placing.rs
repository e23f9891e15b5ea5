//! Pods placed one after the other until told to stop. Called by [`super`].

use std::collections::BTreeMap;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Pod;
use kind_driver::WAIT;
use kube::Client;
use kube::api::{Api, DeleteParams, PostParams};
use neuron_core::names::NEURONCORE;
use neuron_e2e_engine::cluster::NAMESPACE;
use neuron_e2e_engine::observe::phase;
use neuron_e2e_engine::run::apply::OURS;
use serde::Serialize;
use serde_json::json;
use tokio::sync::watch;

use super::Scheduling;
use crate::kind::WORKLOAD;

/// The pod's name; there is one at a time.
const NAME: &str = "placed-meanwhile";

/// What came of the pods.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Placed {
    /// How many ran.
    pub ran: usize,
    /// How many failed, by what was said of them.
    pub failed: BTreeMap<String, usize>,
}

/// Creates a pod of one core, waits until it runs or fails, and deletes it, again and again.
pub(super) async fn place(client: Client, is_over: watch::Receiver<bool>) -> anyhow::Result<Placed> {
    let pods: Api<Pod> = Api::namespaced(client, NAMESPACE);
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": NAME, "labels": {OURS.0: OURS.1}},
        "spec": {
            "schedulerName": Scheduling::MyScheduler.scheduler_name(),
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {"name": "main", "image": WORKLOAD, "resources": {"limits": {NEURONCORE: "1"}}},
            ],
        },
    }))?;
    // Of a run that broke off, on a cluster that was kept.
    remove(&pods).await?;
    let mut placed = Placed::default();
    while !*is_over.borrow() {
        pods.create(&PostParams::default(), &pod).await.context("creating a pod")?;
        WAIT.until("a pod to run or fail", async || {
            Ok(matches!(phase(&pods.get(NAME).await?), "Running" | "Failed"))
        })
        .await?;
        let status = pods.get(NAME).await?.status.unwrap_or_default();
        if status.phase.as_deref() == Some("Running") {
            placed.ran += 1;
        } else {
            let said: Vec<String> = [status.reason, status.message].into_iter().flatten().collect();
            *placed.failed.entry(said.join(": ")).or_default() += 1;
        }
        remove(&pods).await?;
    }
    Ok(placed)
}

/// Deletes the pod, if it is there, and waits until it is gone.
async fn remove(pods: &Api<Pod>) -> anyhow::Result<()> {
    match pods.delete(NAME, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
        deleted => drop(deleted.context("deleting a pod")?),
    }
    WAIT.until("a pod to be gone", async || Ok(pods.get_opt(NAME).await?.is_none())).await
}
