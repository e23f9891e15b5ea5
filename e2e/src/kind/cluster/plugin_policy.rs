//! Whether the API server holds a device plugin to its own node, as RBAC and `deploy/k8s-neuron-device-plugin-policy.yml` say:
//! asked with the token of a plugin's pod, as somebody would who has taken it over. Called once in each run on kind, on the first cluster.

use anyhow::{Context as _, bail, ensure};
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod, Secret, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kind_driver::WAIT;
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use neuron_core::names::NODE_REPORT;
use neuron_e2e_engine::scenario::NodeSpec;
use serde_json::{Value, json};

use super::KindCluster;
use super::install::SYSTEM;

/// The plugin's service account.
const ACCOUNT: &str = "neuron-device-plugin";

/// A type with a plugin.
const INSTANCE_TYPE: &str = "inf2.xlarge";

/// What is tried with a program's token, with words of the refusal that it must get; none of what the program may do.
pub(super) type Attempt = (&'static str, Option<String>, kube::Result<()>);

impl KindCluster {
    /// Tries what a plugin may do and what it must not. Nothing of it is carried out.
    ///
    /// # Errors
    /// What was allowed and must not be, or the other way round.
    pub(in crate::kind) async fn holds_plugin_to_its_node(&self) -> anyhow::Result<()> {
        let node = self.workers().first().context("the cluster has no worker")?;
        // The last scenario may have had no plugin.
        self.become_node(0, &NodeSpec::of(INSTANCE_TYPE)).await?;
        let client = self.driver.client_with_token(self.token_on(node).await?).await?;
        // The API server sees a new policy a moment after it was made.
        WAIT.until("the policy of the device plugin to be in force", async || {
            let wrong = wrong(self.attempts(&client, node).await?);
            ensure!(wrong.is_empty(), "{}", wrong.join("; "));
            Ok(true)
        })
        .await
    }

    /// A token as the plugin's pod on this node has it: it names the node.
    async fn token_on(&self, node: &str) -> anyhow::Result<String> {
        match self.plugin_pods(node).await?.into_iter().next() {
            Some(pod) => self.token_of(ACCOUNT, pod).await,
            None => bail!("no device plugin runs on {node}"),
        }
    }

    /// A token of the service account as this pod has it.
    pub(super) async fn token_of(&self, account: &str, pod: Pod) -> anyhow::Result<String> {
        let bound = BoundObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: pod.metadata.name,
            uid: pod.metadata.uid,
        };
        let spec = TokenRequestSpec { bound_object_ref: Some(bound), ..TokenRequestSpec::default() };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), SYSTEM);
        let answer = accounts.create_token_request(account, &PostParams::default(), &request).await?;
        Ok(answer.status.context("a token request without an answer")?.token)
    }

    async fn attempts(&self, client: &Client, node: &str) -> anyhow::Result<Vec<Attempt>> {
        let other = self.driver.control_plane();
        let nodes: Api<Node> = Api::all(client.clone());
        let pods: Api<Pod> = Api::namespaced(client.clone(), SYSTEM);
        let leases: Api<Lease> = Api::namespaced(client.clone(), SYSTEM);
        let secrets: Api<Secret> = Api::namespaced(client.clone(), SYSTEM);
        let annotation = json!({"metadata": {"annotations": {NODE_REPORT: "{}"}}});
        let label = json!({"metadata": {"labels": {"neuron-e2e/owned": "yes"}}});
        let finalizer = json!({"metadata": {"finalizers": ["neuron-e2e/owned"]}});
        let pod_of = async |node: &str| -> anyhow::Result<String> {
            let on = ListParams::default().fields(&format!("spec.nodeName={node}"));
            let all = Api::<Pod>::namespaced(self.client(), SYSTEM).list(&on).await?;
            let name = all.items.into_iter().find_map(|pod| pod.metadata.name);
            name.with_context(|| format!("no pod of {SYSTEM} is on {node}"))
        };
        let (near, far) = (pod_of(node).await?, pod_of(other).await?);
        let far_lease = format!("neuron-device-plugin-{other}");
        let may_not = |what: String| Some(format!("the device plugin on node '{node}' may not write {what}"));
        Ok(vec![
            ("annotating its node", None, patched(&nodes, node, &annotation).await),
            ("annotating a pod of its node", None, patched(&pods, &near, &annotation).await),
            (
                "annotating another node",
                may_not(format!("on node {other}")),
                patched(&nodes, other, &annotation).await,
            ),
            (
                "labelling its node",
                Some("the device plugin may only annotate its node".to_owned()),
                patched(&nodes, node, &label).await,
            ),
            (
                "annotating a pod of another node",
                may_not(format!("on pod {far}, which is not on that node")),
                patched(&pods, &far, &annotation).await,
            ),
            (
                "labelling a pod of its node",
                Some("the device plugin may only annotate pods".to_owned()),
                patched(&pods, &near, &label).await,
            ),
            (
                "holding up the end of a pod of its node",
                Some("the device plugin may only annotate pods".to_owned()),
                patched(&pods, &near, &finalizer).await,
            ),
            ("telling an event of its node", None, told(client, node).await),
            (
                "telling an event of another node",
                may_not(format!("an event about node {other}")),
                told(client, other).await,
            ),
            (
                "making another node's Lease",
                may_not(format!("Lease {far_lease}")),
                made(&leases, &far_lease).await,
            ),
            (
                "reading secrets",
                Some("cannot list resource \"secrets\"".to_owned()),
                secrets.list(&ListParams::default()).await.map(drop),
            ),
        ])
    }
}

/// The attempts that did not end as they must, one sentence each.
pub(super) fn wrong(attempts: Vec<Attempt>) -> Vec<String> {
    let is_wrong = |(what, refused, came_to): Attempt| match (refused, came_to) {
        (None, Ok(())) => None,
        (None, Err(error)) => Some(format!("{what} is refused: {error}")),
        (Some(_), Ok(())) => Some(format!("{what} is allowed")),
        (Some(words), Err(error)) => {
            let said = error.to_string();
            (!said.contains(&words)).then(|| format!("{what} is refused, but not as {words:?}: {said}"))
        }
    };
    attempts.into_iter().filter_map(is_wrong).collect()
}

/// Tries the patch.
pub(super) async fn patched<K>(api: &Api<K>, name: &str, patch: &Value) -> kube::Result<()>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let tried = PatchParams { dry_run: true, ..PatchParams::default() };
    api.patch(name, &tried, &Patch::Merge(patch)).await.map(drop)
}

/// Tells an event of a node.
async fn told(client: &Client, node: &str) -> kube::Result<()> {
    let event = json!({
        "metadata": {"generateName": "policy-"},
        "regarding": {"apiVersion": "v1", "kind": "Node", "name": node},
        "eventTime": MicroTime(Timestamp::now()),
        "type": "Normal", "reason": "Checked", "action": "Checking", "note": "nothing has happened",
        "reportingController": "neuron-device-plugin", "reportingInstance": node,
    });
    let event: Event = serde_json::from_value(event).map_err(kube::Error::SerdeError)?;
    let tried = PostParams { dry_run: true, ..PostParams::default() };
    Api::<Event>::default_namespaced(client.clone()).create(&tried, &event).await.map(drop)
}

async fn made(leases: &Api<Lease>, name: &str) -> kube::Result<()> {
    let mut lease = Lease::default();
    lease.metadata.name = Some(name.to_owned());
    leases.create(&PostParams { dry_run: true, ..PostParams::default() }, &lease).await.map(drop)
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn what_is_allowed_or_refused_for_another_reason_is_wrong() {
        let refused = |words: &str| Err(kube::Error::Api(Status::failure(words, "Forbidden").boxed()));
        let words = || Some("may not write on node b".to_owned());
        assert_eq!(
            wrong(vec![("a", None, Ok(())), ("b", words(), refused("it may not write on node b"))]),
            [""; 0]
        );
        assert_eq!(wrong(vec![("labelling", words(), Ok(()))]), ["labelling is allowed"]);
        let [other] = &wrong(vec![("labelling", words(), refused("no such node"))])[..] else { panic!() };
        assert!(other.contains("not as \"may not write on node b\""), "{other}");
        assert_eq!(wrong(vec![("annotating", None, refused("no"))]).len(), 1);
    }
}
