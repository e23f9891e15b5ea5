//! The extender's own stop and start, with all its replicas, and the ways to it: through its Service, and through the harness proxy,
//! which can hold calls.

use anyhow::Context as _;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Service;
use kind_driver::{PortForward, WAIT};
use kube::api::Api;

use super::KindCluster;
use super::install::SYSTEM;
use super::scheduling::Route;

/// Its Deployment and its Service.
const EXTENDER: &str = "k8s-neuron-scheduler";
pub(super) const PORT: u16 = 12345;
/// How many of it are deployed.
const REPLICAS: i32 = 2;
/// Selector of its pods.
pub(super) const EXTENDER_PODS: &str = "component=k8s-neuron-scheduler";

impl KindCluster {
    /// Stops the extender and waits until it no longer runs.
    pub(in crate::kind) async fn stop_extender(&self) -> anyhow::Result<()> {
        self.close_proxy(&mut *self.forward.lock().await);
        self.driver.scale(SYSTEM, EXTENDER, 0).await
    }

    /// Kills every replica of the extender and waits for nothing.
    pub(in crate::kind) async fn kill_extender(&self) -> anyhow::Result<()> {
        self.driver.kill_pods(SYSTEM, EXTENDER_PODS, None).await
    }

    /// Starts the extender and waits until it serves.
    pub(in crate::kind) async fn start_extender(&self) -> anyhow::Result<()> {
        self.driver.scale(SYSTEM, EXTENDER, REPLICAS).await?;
        self.extender_is_reached().await?;
        self.proxy_follows().await
    }

    /// Has the proxy, where calls go through it, lead to the replica that leads now. Calls to the one before are cut off.
    pub(super) async fn proxy_follows(&self) -> anyhow::Result<()> {
        if self.setup.lock().await.is_some_and(|setup| setup.route == Route::Proxy) {
            let mut forward = self.forward.lock().await;
            self.close_proxy(&mut forward);
            self.open_proxy(&mut forward).await?;
        }
        Ok(())
    }

    /// Lets calls through the proxy reach the extender.
    pub(super) async fn open_proxy(&self, forward: &mut Option<PortForward>) -> anyhow::Result<()> {
        let started = PortForward::start(&self.driver, SYSTEM, &format!("service/{EXTENDER}"), PORT).await?;
        self.proxy.set_target(Some(started.address()));
        *forward = Some(started);
        Ok(())
    }

    /// Nobody reaches the extender through the proxy any more.
    pub(super) fn close_proxy(&self, forward: &mut Option<PortForward>) {
        self.proxy.set_target(None);
        *forward = None;
    }

    /// The extender's Service by its address: a static pod uses its host's resolver, which knows no Services.
    pub(super) async fn service_url(&self) -> anyhow::Result<String> {
        Ok(format!("http://{}:{PORT}", self.service_address().await?))
    }

    async fn service_address(&self) -> anyhow::Result<String> {
        let services: Api<Service> = Api::namespaced(self.client(), SYSTEM);
        let service = services.get(EXTENDER).await?.spec.and_then(|spec| spec.cluster_ip);
        service.context("the extender's Service has no address")
    }

    /// Waits until every node's way to the extender's Service leads to a pod that listens: kube-proxy hears of a new
    /// pod a moment after it is ready.
    pub(super) async fn extender_is_reached(&self) -> anyhow::Result<()> {
        let call = format!("timeout 2 bash -c '</dev/tcp/{}/{PORT}'", self.service_address().await?);
        for node in self.driver.nodes() {
            WAIT.until(&format!("{node} to reach the extender"), async || {
                self.driver.exec(node, &call).await.map(|_| true)
            })
            .await?;
        }
        Ok(())
    }

    /// Lets pods call the harness proxy on the host: the host knows no way back to a pod's own address, so calls to
    /// the proxy's go out under the node's.
    pub(super) async fn let_pods_reach_the_proxy(&self) -> anyhow::Result<()> {
        let rule = proxy_rule(&self.proxy.address().ip().to_string());
        let command = format!("iptables -t nat -C {rule} 2>/dev/null || iptables -t nat -A {rule}");
        try_join_all(self.driver.nodes().iter().map(|node| self.driver.exec(node, &command))).await?;
        Ok(())
    }
}

/// The rule of iptables' table `nat` that lets a node's pods reach the proxy at this address.
fn proxy_rule(address: &str) -> String {
    format!("POSTROUTING -d {address} -j MASQUERADE")
}
