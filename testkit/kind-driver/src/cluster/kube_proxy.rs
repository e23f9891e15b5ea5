//! What pods dialled before kube-proxy knew where Services lead.

use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Service;
use kube::api::Api;

use super::Cluster;
use crate::WAIT;

impl Cluster {
    /// Lets calls to the API server's Service that were made too early get through: to be called while a new cluster's
    /// pods start. The kernel remembers where it first
    /// sent such a call, into nowhere, and sends every repetition after it: the caller would wait 30 s before it makes
    /// another. What waits like that is DNS and, of kind's own pods, the one that sets the routes between nodes.
    ///
    /// # Errors
    /// kube-proxy of a node does not come to work in time.
    pub async fn forget_early_calls(&self) -> anyhow::Result<()> {
        let services: Api<Service> = Api::namespaced(self.client.clone(), "default");
        // The API server makes it some time after it has come up.
        WAIT.until("the API server's Service", async || Ok(services.get_opt("kubernetes").await?.is_some()))
            .await?;
        let address = services.get("kubernetes").await?.spec.and_then(|spec| spec.cluster_ip);
        let Some(address) = address else { return Ok(()) };
        let reach = format!("timeout 1 bash -c '</dev/tcp/{address}/443'");
        // Where there is nothing to forget it fails; where there is no conntrack the calls are waited for.
        let forget = format!("conntrack -D -p tcp --state SYN_SENT -d {address} >/dev/null 2>&1 || :");
        try_join_all(self.nodes.iter().map(async |node| {
            WAIT.until(&format!("kube-proxy of {node}"), async || {
                self.exec(node, &reach).await.map(|_| true)
            })
            .await?;
            self.exec(node, &forget).await
        }))
        .await?;
        Ok(())
    }
}
