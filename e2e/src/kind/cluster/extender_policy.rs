//! Whether the API server holds the extender to its own replicas, as RBAC and `deploy/k8s-neuron-scheduler-policy.yml` say: asked with
//! the token of the replica that leads, as somebody would who has taken it over. Called once in each run on kind, on the first cluster.

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kind_driver::WAIT;
use kube::Client;
use kube::api::{Api, ListParams};
use neuron_core::names::LEADER_LABEL;
use serde_json::json;

use super::KindCluster;
use super::install::SYSTEM;
use super::plugin_policy::{Attempt, patched, wrong};

/// The extender's service account, and the `component` of its replicas.
const EXTENDER: &str = "k8s-neuron-scheduler";

impl KindCluster {
    /// Tries what the extender may do and what it must not. Nothing of it is carried out.
    ///
    /// # Errors
    /// What was allowed and must not be, or the other way round.
    pub(in crate::kind) async fn holds_extender_to_its_replicas(&self) -> anyhow::Result<()> {
        let leader = self.leader_other_than(None).await?;
        let replica = leader.metadata.name.clone().context("a pod has a name")?;
        let client = self.driver.client_with_token(self.token_of(EXTENDER, leader).await?).await?;
        let others = ListParams::default().labels(&format!("component!={EXTENDER}")).limit(1);
        let other = Api::<Pod>::namespaced(self.client(), SYSTEM).list_metadata(&others).await?;
        let other = other.items.into_iter().find_map(|pod| pod.metadata.name);
        let other = other.with_context(|| format!("{SYSTEM} has no pod of anybody else"))?;
        // The API server sees a new policy a moment after it was made.
        WAIT.until("the policy of the extender to be in force", async || {
            let wrong = wrong(attempts(&client, &replica, &other).await);
            ensure!(wrong.is_empty(), "{}", wrong.join("; "));
            Ok(true)
        })
        .await
    }
}

async fn attempts(client: &Client, replica: &str, other: &str) -> Vec<Attempt> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), SYSTEM);
    let secrets: Api<Secret> = Api::namespaced(client.clone(), SYSTEM);
    let leads = json!({"metadata": {"labels": {LEADER_LABEL: "true"}}});
    let label = json!({"metadata": {"labels": {"neuron-e2e/owned": "yes"}}});
    let annotation = json!({"metadata": {"annotations": {"neuron-e2e/owned": "yes"}}});
    let finalizer = json!({"metadata": {"finalizers": ["neuron-e2e/owned"]}});
    let deadline = json!({"spec": {"activeDeadlineSeconds": 1}});
    let only_the_label = || Some("the extender may only put and remove the leader's label".to_owned());
    let none_of_its =
        Some(format!("the extender may not write on pod {other}, which is none of its replicas"));
    vec![
        ("labelling a replica as the leader", None, patched(&pods, replica, &leads).await),
        ("labelling another pod as the leader", none_of_its, patched(&pods, other, &leads).await),
        ("giving a replica another label", only_the_label(), patched(&pods, replica, &label).await),
        ("annotating a replica", only_the_label(), patched(&pods, replica, &annotation).await),
        ("holding up the end of a replica", only_the_label(), patched(&pods, replica, &finalizer).await),
        ("giving a replica a deadline", only_the_label(), patched(&pods, replica, &deadline).await),
        (
            "reading secrets",
            Some("cannot list resource \"secrets\"".to_owned()),
            secrets.list(&ListParams::default()).await.map(drop),
        ),
    ]
}
